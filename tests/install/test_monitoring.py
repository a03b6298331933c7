"""What is measured is documented, named by Prometheus' rules, and bounded; alerts and dashboard ask for what exists."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import charts

from echelon.engine.rollout.overall import RolloutStanding
from echelon.install import alerts, dashboard
from echelon.install.measured import MetricFamily, measured
from echelon.install.metrics_page import page

FAMILIES = [family for families in measured().values() for family in families]
BY_SERIES = {name: family for family in FAMILIES for name in family.series}
EXPRESSIONS = {
    **{each.name: each.expression for each in (*alerts.HUB, *alerts.MEMBER)},
    **{panel.title: panel.expression for _, panels in dashboard.ROWS for panel in panels},
}
# Those that Prometheus gives to whatever it collects; one of ours of the same name is then called exported_….
GIVEN = frozenset(("namespace", "pod", "instance", "job", "service", "container", "endpoint", "le"))
WORDS = frozenset(("and", "or", "unless", "on", "ignoring", "group_left", "group_right", "bool", "offset"))
# Units that have a name of their own among Prometheus' base units, and what is only counted.
UNITS = ("_seconds", "_bytes", "_total", "_ratio")


def _asked(expression: str) -> Iterator[tuple[str, str]]:
    """Return the metrics of an expression, with their matchers."""
    bare = re.sub(r"\b(?:by|without)\s*\([^)]*\)", "", expression)
    for name, matchers in re.findall(
        r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\b(?!\s*\()(?:\{([^}]*)\})?", re.sub(r"\[[^]]*\]", "", bare)
    ):
        if name not in WORDS and not re.search(rf'[{{,"~=|][^}}]*\b{name}\b[^{{]*}}', bare):
            yield name, matchers


def _matchers(text: str) -> list[tuple[str, str]]:
    return re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', text)


def test_the_page_is_what_the_registries_have() -> None:
    assert charts.PAGE.read_text() == page(), "run make charts"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_names_follow_prometheus_rules(family: MetricFamily) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
    assert not family.name.endswith(("_total", "_count", "_sum", "_bucket", "_info"))
    assert family.type in ("counter", "gauge", "histogram")
    assert family.what
    if family.type == "histogram":
        assert family.name.endswith(UNITS[:2])
    for each in ("_ms", "_millis", "_minutes", "_kb", "_percent"):
        assert not family.name.endswith(each)


def test_no_name_is_used_twice() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))


def test_only_metrics_of_single_objects_have_their_name_as_a_label() -> None:
    """A label with as many values as there are objects is only for what goes with its object."""
    named = {family.name for family in FAMILIES if {"namespace", "cluster", "uid"} & set(family.labels)}
    assert named == {
        "echelon_pod_clique_set_pods",
        "echelon_rollout_blocked_seconds",
        "echelon_rollout_clusters",
        "echelon_rollout_removals_held",
        "echelon_rollout_state",
    }


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_alerts_and_panels_ask_for_metrics_and_labels_that_exist(name: str) -> None:
    asked = list(_asked(EXPRESSIONS[name]))
    assert asked, EXPRESSIONS[name]
    for metric, matchers in asked:
        assert metric in BY_SERIES, f"{metric} in {EXPRESSIONS[name]}"
        for label, value in _matchers(matchers):
            assert label in {*BY_SERIES[metric].labels, *GIVEN}, f"{label} in {EXPRESSIONS[name]}"
            if (metric, label) == ("echelon_rollout_state", "state"):
                assert value in set(RolloutStanding)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_is_grouped_by_exists(name: str) -> None:
    known = {label for metric, _ in _asked(EXPRESSIONS[name]) for label in BY_SERIES[metric].labels} | GIVEN
    for group in re.findall(r"\bby\s*\(([^)]*)\)", EXPRESSIONS[name]):
        assert {each.strip() for each in group.split(",")} <= known


@pytest.mark.parametrize("alert", [*alerts.HUB, *alerts.MEMBER], ids=lambda alert: alert.name)
def test_an_alert_says_how_bad_it_is_and_what_helps_and_names_only_labels_that_it_has(alert: alerts.Alert) -> None:
    assert alert.severity in ("info", "warning", "critical")
    assert alert.summary
    assert alert.description
    grouped = re.findall(r"\bby\s*\(([^)]*)\)", alert.expression)
    kept = {each.strip() for group in grouped for each in group.split(",")} if grouped else None
    of_metrics = {label for metric, _ in _asked(alert.expression) for label in BY_SERIES[metric].labels}
    there = kept if kept is not None else of_metrics | GIVEN | {f"exported_{each}" for each in of_metrics & GIVEN}
    assert set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.description)) <= there


def test_the_dashboard_is_one() -> None:
    made = json.loads(dashboard.dashboard())
    assert made["title"] == "Echelon"
    numbers = [panel["id"] for panel in made["panels"]]
    assert len(numbers) == len(set(numbers))
    places = [tuple(panel["gridPos"][side] for side in "xywh") for panel in made["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells)), "panels lie on top of each other"
    assert all(x + w <= 24 for x, _, w, _ in places)


def test_the_charts_have_both() -> None:
    text = Path(charts.CHARTS / "echelon" / "templates" / "monitoring.yaml").read_text()
    assert "EchelonNoLeader" in text
    assert "echelon.json" in text
