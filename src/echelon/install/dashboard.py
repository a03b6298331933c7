"""A dashboard for Grafana: what is rolled out, what waits, what failed, and how the processes are."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from echelon.api.base import JSONObject

_WIDTH = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """One picture: a title, what is asked, how a line is called, and how it is drawn."""

    title: str
    expression: str
    legend: str = ""
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8


ROWS: Sequence[tuple[str, Sequence[Panel]]] = (
    (
        "Rollouts",
        (
            Panel("Rollouts by state", "sum by (state) (echelon_rollout_state)", "{{state}}", "stat", width=12),
            Panel("Clusters by phase", "sum by (phase) (echelon_rollout_clusters)", "{{phase}}", "stat", width=12),
            Panel(
                "Not complete",
                'echelon_rollout_state{state!="complete"}',
                "{{kind}} {{exported_namespace}}/{{name}}: {{state}}",
                "table",
                width=12,
            ),
            Panel(
                "Blocked for",
                "topk(20, echelon_rollout_blocked_seconds > 0)",
                "{{kind}} {{exported_namespace}}/{{name}}",
                unit="s",
                width=12,
            ),
            Panel(
                "Failures of clusters",
                "sum by (kind) (increase(echelon_rollout_cluster_failures_total[$__rate_interval]))",
                "{{kind}}",
            ),
            Panel(
                "Duration, slowest tenth",
                "histogram_quantile(0.9, sum by (kind, le) (rate(echelon_rollout_duration_seconds_bucket[1d])))",
                "{{kind}}",
                unit="s",
            ),
            Panel("Silent clusters", "echelon_clusters_silent", "silent"),
        ),
    ),
    (
        "Placement",
        (
            Panel(
                "Choosing clusters, 99 %",
                "histogram_quantile(0.99, sum by (le) (rate(scheduling_scheduling_duration_seconds_bucket[5m])))",
                "seconds",
                unit="s",
            ),
            Panel("Surges under way", "sum(scheduling_surges_running)", "surges"),
            Panel("Removals that waited", "sum(rate(scheduling_removals_held_total[5m]))", "a second"),
        ),
    ),
    (
        "Processes",
        (
            Panel("Leader", "leader_election_master_status", "{{pod}}", "stat"),
            Panel(
                "Reconciles a second",
                "sum by (controller, result) (rate(echelon_reconciles_total[5m]))",
                "{{controller}} {{result}}",
            ),
            Panel("Writes a second", "sum by (kind, code) (rate(echelon_writes_total[5m]))", "{{kind}} {{code}}"),
            Panel("Keys that wait", "sum by (name) (workqueue_depth)", "{{name}}"),
            Panel(
                "Event loop lag, 99 %",
                "histogram_quantile(0.99, sum by (pod, le) (rate(echelon_event_loop_lag_seconds_bucket[5m])))",
                "{{pod}}",
                unit="s",
            ),
            Panel("Memory", "process_resident_memory_bytes", "{{pod}}", unit="bytes"),
        ),
    ),
    (
        "Agents",
        (
            Panel("Works", "sum by (state) (echelon_agent_works)", "{{state}}"),
            Panel("Applied a second", "sum by (result) (rate(echelon_agent_applies_total[5m]))", "{{result}}"),
            Panel("Since the hub was reached", "topk(20, echelon_agent_hub_lag_seconds)", "{{pod}}", unit="s"),
        ),
    ),
)


def dashboard() -> str:
    """Return the dashboard as Grafana reads it."""
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus", "hide": 0}
    made: JSONObject = {
        "title": "Echelon",
        "uid": "echelon",
        "tags": ["echelon", "rollouts"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": _panels(),
    }
    return json.dumps(made, indent=2) + "\n"


def _panels() -> list[JSONObject]:
    found: list[JSONObject] = []
    height, across = 0, 0
    for title, panels in ROWS:
        height, across = height + (8 if across else 0), 0
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "gridPos": _at(0, height, _WIDTH, 1),
            }
        )
        height += 1
        for each in panels:
            if across + each.width > _WIDTH:
                height, across = height + 8, 0
            found.append(_panel(each, len(found) + 1, _at(across, height, each.width, 8)))
            across += each.width
    return found


def _at(across: int, down: int, width: int, height: int) -> JSONObject:
    return {"x": across, "y": down, "w": width, "h": height}


def _panel(panel: Panel, number: int, place: JSONObject) -> JSONObject:
    target: JSONObject = {"refId": "A", "datasource": _SOURCE, "expr": panel.expression, "legendFormat": panel.legend}
    if panel.kind == "table":
        target |= {"instant": True, "format": "table"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [target],
    }
