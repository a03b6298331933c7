"""How an installation is watched: what Prometheus collects, when it wakes somebody, and what people look at."""

from echelon.api.base import JSONObject
from echelon.install import alerts
from echelon.install.dashboard import dashboard
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
    return [
        monitor(service, component),
        _rule("echelon", component, alerts.rules("echelon", alerts.HUB)),
        When(
            "dashboard.enabled",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "echelon-dashboard",
                    "namespace": NAMESPACE,
                    "labels": {**labels_of(component), "grafana_dashboard": "1"},
                },
                "data": {"echelon.json": dashboard()},
            },
        ),
    ]


def of_member(service: str, component: str) -> list[Node]:
    """Return how an agent is watched."""
    return [
        monitor(service, component),
        _rule("echelon-agent", component, alerts.rules("echelon-agent", alerts.MEMBER)),
    ]


def monitor(service: str, component: str) -> Node:
    """Return what has metrics collected. Of our labels `namespace` becomes `exported_namespace`."""
    spec = {
        "selector": {"matchLabels": selector_of(component)},
        "endpoints": [{"port": "metrics", "interval": Value("serviceMonitor.interval")}],
    }
    return When("serviceMonitor.enabled", _object("ServiceMonitor", service, component, spec))


def _rule(name: str, component: str, spec: JSONObject) -> Node:
    return When("prometheusRule.enabled", _object("PrometheusRule", name, component, spec))


def _object(kind: str, name: str, component: str, spec: Node) -> Node:
    labels = When("serviceMonitor.labels", Value("serviceMonitor.labels"), labels_of(component))
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": spec,
    }
