"""When somebody should be woken, or look in the morning.

An alert is about what a person has to do something about: nobody leads, a rollout has stopped, a cluster cannot be
reached. What mends itself is on the dashboard.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from echelon.api.base import JSONObject
from echelon.controllers.running import LEASE_NAME

_LEADING = f'leader_election_master_status{{name="{LEASE_NAME}"}}'
# Prometheus has a label `namespace` of its own, that of the pod, so that of the object is `exported_namespace`.
OBJECT: Final = "{{ $labels.kind }} {{ $labels.exported_namespace }}/{{ $labels.name }}"
_STATUS = "echelon rollout status {{ $labels.name }} -n {{ $labels.exported_namespace }}"


@dataclass(frozen=True)
class Alert:
    """One alert: when it fires, how long that has to hold, how bad it is, and what to do."""

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    description: str

    def rule(self) -> JSONObject:
        """Return it as the Prometheus operator takes it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.description},
        }


HUB: Sequence[Alert] = (
    Alert(
        "EchelonNoLeader",
        f"absent({_LEADING} == 1)",
        "5m",
        "critical",
        "No process of Echelon leads on the hub.",
        "Nothing is rolled out, and no cluster is watched. Look at the logs of echelon-controllers, and at the lease "
        f"{LEASE_NAME} in its namespace.",
    ),
    Alert(
        "EchelonTwoLeaders",
        f"sum by (namespace) ({_LEADING}) > 1",
        "2m",
        "critical",
        "Two processes of Echelon believe that they lead in {{ $labels.namespace }}.",
        "They undo each other's work. End one of them, and keep its log.",
    ),
    Alert(
        "EchelonRolloutStopped",
        'echelon_rollout_state{state="stopped"} == 1',
        "5m",
        "warning",
        f"{OBJECT} has stopped: more clusters failed than its budget has.",
        f"See why with `{_STATUS}`; then correct it, or `echelon rollout undo` or `retry`.",
    ),
    Alert(
        "EchelonRolloutMisconfigured",
        'echelon_rollout_state{state="misconfigured"} == 1',
        "15m",
        "warning",
        f"{OBJECT} cannot be rolled out as it is written.",
        f"The condition PlacementVerified says what is wrong: `{_STATUS}`.",
    ),
    Alert(
        "EchelonRolloutBlocked",
        "echelon_rollout_blocked_seconds > 86400",
        "5m",
        "info",
        f"{OBJECT} has been waiting for somebody for more than a day.",
        f"It is paused, aborted, or awaits an approval: `{_STATUS}`.",
    ),
    Alert(
        "EchelonRemovalsHeld",
        "echelon_rollout_removals_held == 1",
        "15m",
        "warning",
        f"{OBJECT} would be removed from clusters, and waits for somebody's word.",
        f"Whether that was meant is for you to say: `{_STATUS}` names the clusters and the command that approves.",
    ),
    Alert(
        "EchelonFleetSilent",
        "echelon_unreachable_taints_held == 1",
        "5m",
        "critical",
        "Most clusters have fallen silent at once, so none is tainted unreachable.",
        "It is rather the way to the hub, or the hub itself, than the clusters. echelon_clusters_silent counts them.",
    ),
    Alert(
        "EchelonWritesRefused",
        'sum by (namespace, kind, code) (rate(echelon_writes_total{code=~"401|403|422|5.."}[10m])) > 0.05',
        "15m",
        "warning",
        "The hub refuses writes of {{ $labels.kind }} with {{ $labels.code }}.",
        "With 403 a right is missing: compare the cluster roles with the chart's. Otherwise a webhook or a policy may "
        "refuse; the status of the object has the server's words.",
    ),
    Alert(
        "EchelonObjectsUnreadable",
        "max by (namespace, kind) (echelon_informer_unreadable) > 0",
        "15m",
        "warning",
        "Some {{ $labels.kind }} do not fit their type and are ignored.",
        "An event `Unreadable` on each of them says what is wrong; `echelon doctor` says whether the hub's definitions "
        "are others than Echelon's.",
    ),
    Alert(
        "EchelonQueueStuck",
        "max by (namespace, pod, name) (workqueue_oldest_waiting_seconds) > 600",
        "10m",
        "warning",
        "Work has been waiting for more than ten minutes in the queue {{ $labels.name }} of {{ $labels.pod }}.",
        "The process is too slow, or the server is. Compare workqueue_work_duration_seconds and the process' CPU.",
    ),
    Alert(
        "EchelonEventLoopSlow",
        "histogram_quantile(0.99, sum by (namespace, pod, le) (rate(echelon_event_loop_lag_seconds_bucket[10m]))) > 1",
        "15m",
        "warning",
        "{{ $labels.pod }} reacts late.",
        "It needs more CPU, or something in it takes too long at a time.",
    ),
    Alert(
        "EchelonIndexDiffers",
        "increase(echelon_index_differences_total[1h]) > 0",
        "0m",
        "warning",
        "An index of the controller {{ $labels.controller }} was not what its caches say.",
        "It was repaired, and it is a defect of Echelon: please report it, with the log.",
    ),
)

MEMBER: Sequence[Alert] = (
    Alert(
        "EchelonAgentHubUnreachable",
        "echelon_agent_hub_lag_seconds > 300",
        "1m",
        "warning",
        "The agent in {{ $labels.namespace }} has not reached its hub for more than five minutes.",
        "What is applied stays. Its log says why: the network, the kubeconfig of the hub, or a right that was taken.",
    ),
    Alert(
        "EchelonAgentWorksFailing",
        'echelon_agent_works{state="failing"} > 0',
        "15m",
        "warning",
        "{{ $value }} works cannot be applied on this cluster.",
        "The condition Applied of each work says why: `kubectl describe manifestwork` in the cluster's namespace of "
        "the hub.",
    ),
    Alert(
        "EchelonAgentDrift",
        "increase(echelon_agent_drift_total[1h]) > 20",
        "5m",
        "info",
        "Somebody keeps changing what the hub has applied to this cluster.",
        "It is put back each time. The condition Drifted of a work tells the object; managedFields tell who it was.",
    ),
)


def rules(group: str, alerts: Sequence[Alert]) -> JSONObject:
    """Return the spec of a PrometheusRule."""
    return {"groups": [{"name": group, "rules": [each.rule() for each in alerts]}]}
