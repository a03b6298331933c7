"""How an installation is watched: what Prometheus collects, when it wakes somebody, and what people look at."""

from echelon.install.labels import labels_of, selector_of
from echelon.install.settings import FLAG, TEXT, TEXTS, Setting
from echelon.install.template import NAMESPACE, Node, Value, When

SETTINGS: tuple[Setting, ...] = (
    Setting("serviceMonitor.enabled", False, FLAG, "Have the Prometheus operator collect metrics."),
    Setting("serviceMonitor.interval", "30s", {**TEXT, "pattern": "^[0-9]+(ms|s|m)$"}, "How often."),
    Setting(
        "serviceMonitor.labels",
        {},
        TEXTS,
        "Labels by which your Prometheus finds monitors and rules, if it asks for some.",
    ),
    Setting(
        "prometheusRule.enabled", False, FLAG, "Have the Prometheus operator wake somebody when something is wrong."
    ),
)
DASHBOARD = (
    Setting(
        "dashboard.enabled", False, FLAG, "Install a dashboard for Grafana, as a ConfigMap that its sidecar finds."
    ),
)


def of_hub(service: str, component: str) -> list[Node]:
    """Return how the controllers of a hub are watched."""
    return [_monitor(service, component)]


def of_member(service: str, component: str) -> list[Node]:
    """Return how an agent is watched."""
    return [_monitor(service, component)]


def _monitor(service: str, component: str) -> Node:
    return When(
        "serviceMonitor.enabled",
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": {"name": service, "namespace": NAMESPACE, "labels": _labels(component)},
            "spec": {
                "selector": {"matchLabels": selector_of(component)},
                "endpoints": [{"port": "metrics", "interval": Value("serviceMonitor.interval")}],
            },
        },
    )


def _labels(component: str) -> Node:
    return When("serviceMonitor.labels", Value("serviceMonitor.labels"), labels_of(component))
