"""The page of metrics, as the registries have them."""

import re
from collections.abc import Iterator, Sequence

from echelon.install import alerts
from echelon.install.measured import MetricFamily, measured

_HEAD = """\
# Metrics

Made by `make charts` from the registries themselves; changes are made there.

`echelon run` and `echelon agent` serve `/metrics`, `/healthz` and `/readyz` where `--metrics-listen` says; the charts
set it to port 8080, and a ServiceMonitor collects from there. `echelon hub` serves `/metrics` on its own port, for
those who may `get` that address. Names follow Prometheus' conventions: a unit in the name, `_total` for what only
grows. Where Kubernetes, or Open Cluster Management, has a name for the same thing, it is used.

Series are bounded. What is labelled with namespace and name is there once for each object, only on the leader, and goes
with the object. Kinds are those that a process knows; a request for anything else is counted without a name. Where
Prometheus collects through a ServiceMonitor, it calls our label `namespace` `exported_namespace`.

[Alerts](#alerts) that use these are in the charts (`prometheusRule.enabled`), and a dashboard is (`dashboard.enabled`).
"""
_TITLES = {
    "": "All processes",
    "echelon run": "Controllers: `echelon run`",
    "echelon agent": "Agents: `echelon agent`",
    "echelon hub": "The embedded hub: `echelon hub`",
}


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for process, families in measured().items():
        parts.append(f"## {_TITLES[process]}\n\n" + "\n".join(_table(families)) + "\n")
    parts.append("## Alerts\n\n" + "\n".join(_alerts()) + "\n")
    return "\n".join(parts)


def _table(families: Sequence[MetricFamily]) -> Iterator[str]:
    yield "| name | type | labels | what it is |"
    yield "|---|---|---|---|"
    for each in families:
        labels = ", ".join(f"`{label}`" for label in each.labels)
        yield f"| `{each.shown}` | {each.type} | {labels} | {each.what} |"


def _alerts() -> Iterator[str]:
    yield "| name | severity | when, and what helps |"
    yield "|---|---|---|"
    for each in (*alerts.HUB, *alerts.MEMBER):
        yield f"| `{each.name}` | {each.severity} | {_readable(each.summary)} {_readable(each.description)} |"


def _readable(text: str) -> str:
    """Return a text of an alert with words where it has a label."""
    text = text.replace(alerts.OBJECT, "KIND NAMESPACE/NAME")
    return re.sub(r"\{\{ \$(?:labels\.)?(?:exported_)?(\w+) \}\}", lambda found: found[1].upper(), text)
