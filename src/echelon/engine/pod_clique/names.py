"""What the children of a set are called, and the labels and annotations by which everybody finds them again.

Names are Grove's. A child is found by its exact key, never by how its name ends: `worker` is no part of `gpu-worker`.
Grove's names are not unique for every choice of clique and group names, so a set whose children would share a name is
not accepted (`shared_names`).
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from echelon.api.short_hash import short_hash

# Labels of children.
MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "grove-operator"  # the value of it, whoever made the child: selectors of users have it
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
REPLICA_INDEX = "grove.io/podcliqueset-replica-index"
GROUP = "grove.io/podcliquescalinggroup"
GROUP_INDEX = "grove.io/podcliquescalinggroup-replica-index"
GANG = "grove.io/podgang"
BASE_GANG = "grove.io/base-podgang"
CLIQUE = "grove.io/podclique"
POD_INDEX = "grove.io/podclique-pod-index"
TEMPLATE_HASH = "grove.io/pod-template-hash"
SCHEDULER = "grove.io/scheduler-name"

# Values of the component label.
STANDALONE_CLIQUE = "pcs-podclique"
MEMBER_CLIQUE = "pcsg-podclique"
SCALING_GROUP = "pcs-podcliquescalinggroup"
POD_GANG = "podgang"
HEADLESS_SERVICE = "pcs-headless-service"
AUTOSCALER = "pcs-hpa"
POD_ROLE = "pod-role"
POD_ROLE_BINDING = "pod-role-binding"
POD_SERVICE_ACCOUNT = "pod-service-account"
TOKEN_SECRET = "pod-sa-token-secret"  # noqa: S105 - the name of a component

# What pods have that no template can: these labels of a template never reach a pod.
MANAGED_LABELS = frozenset(
    (
        *(MANAGED_BY, PART_OF, NAME, COMPONENT, REPLICA_INDEX, GROUP, GROUP_INDEX),
        *(GANG, BASE_GANG, CLIQUE, POD_INDEX, TEMPLATE_HASH, SCHEDULER),
    )
)

# Annotations.
TOPOLOGY_NAME = "grove.io/topology-name"  # on a gang; never copied from a template
TEMPLATE_KEYS = "echelon.dev/template-keys"  # on a child: the labels and annotations that came from the set

GATE = "grove.io/podgang-pending-creation"  # the scheduling gate of every new pod

STANDALONE = -1  # the group replica of a clique that is in no group


class CliqueKey(NamedTuple):
    """Which clique of a set a PodClique is."""

    replica: int
    group: str  # "" for a standalone clique
    group_replica: int  # STANDALONE for a standalone clique
    clique: str

    @property
    def standalone(self) -> bool:
        """Whether the set itself owns it."""
        return not self.group


class GroupKey(NamedTuple):
    """Which scaling group of a set a PodCliqueScalingGroup is."""

    replica: int
    group: str


def clique_name(set_name: str, key: CliqueKey) -> str:
    """Return the name of a PodClique."""
    if key.standalone:
        return f"{set_name}-{key.replica}-{key.clique}"
    return f"{set_name}-{key.replica}-{key.group}-{key.group_replica}-{key.clique}"


def group_name(set_name: str, key: GroupKey) -> str:
    """Return the name of a PodCliqueScalingGroup."""
    return f"{set_name}-{key.replica}-{key.group}"


def base_gang_name(set_name: str, replica: int) -> str:
    """Return the name of the PodGang that holds what a replica of a set needs at least."""
    return f"{set_name}-{replica}"


def scaled_gang_name(set_name: str, key: GroupKey, beyond: int) -> str:
    """Return the name of the PodGang of a group's replica, numbered from 0 among those beyond its minimum."""
    return f"{set_name}-{key.replica}-{key.group}-{beyond}"


def service_name(set_name: str, replica: int) -> str:
    """Return the name of the headless Service of a replica, which is the subdomain of its pods."""
    return f"{set_name}-{replica}"


def service_address(set_name: str, replica: int, namespace: str) -> str:
    """Return the DNS name of the headless Service of a replica."""
    return f"{service_name(set_name, replica)}.{namespace}.svc.cluster.local"


def role_name(set_name: str) -> str:
    """Return the name of the Role, and of its binding, of the programs that wait for cliques."""
    return f"grove.io:pcs:{set_name}"


def service_account_name(set_name: str) -> str:
    """Return the name of the ServiceAccount of the programs that wait for cliques."""
    return set_name


def token_secret_name(set_name: str) -> str:
    """Return the name of the Secret with the token of the programs that wait for cliques."""
    return f"{set_name}-ic-sat"


def autoscaler_name(target: str, kind: str, taken: bool = False) -> str:
    """Return the name of the autoscaler of a PodClique or of a PodCliqueScalingGroup: that of its target.

    A clique and a group may share a name. The group's has a dot then (`taken`), which no name of a clique has.
    """
    return f"{target}.group" if taken and kind == "PodCliqueScalingGroup" else target


def pod_hostname(clique: str, index: int) -> str:
    """Return the host name of a pod, by which the others find it."""
    return f"{clique}-{index}"


def pod_name(clique: str, clique_uid: str, index: int, predecessor_uid: str) -> str:
    """Return the name of a pod.

    It follows from what is being replaced: made twice from one observation, the second attempt finds the pod of the
    first one, and no two pods have one index.
    """
    return f"{clique}-{short_hash(f'{clique_uid}/{index}/{predecessor_uid}'.encode())}"


def read_clique_key(labels: Mapping[str, str], name: str, set_name: str, groups: Collection[str]) -> CliqueKey | None:
    """Return the key of a PodClique by its labels and its full name; None if they do not fit together.

    `groups` has the names of the set's scaling groups.
    """
    replica = _index(labels.get(REPLICA_INDEX))
    if replica is None:
        return None
    if GROUP not in labels:
        prefix = f"{set_name}-{replica}-"
        clique = name.removeprefix(prefix)
        return CliqueKey(replica, "", STANDALONE, clique) if clique and clique != name else None
    group = labels[GROUP].removeprefix(f"{set_name}-{replica}-")
    group_replica = _index(labels.get(GROUP_INDEX))
    if group not in groups or group_replica is None:
        return None
    prefix = f"{set_name}-{replica}-{group}-{group_replica}-"
    clique = name.removeprefix(prefix)
    return CliqueKey(replica, group, group_replica, clique) if clique and clique != name else None


def shared_names(cliques: Sequence[str], groups: Mapping[str, Sequence[str]]) -> str:
    """Return two cliques whose PodCliques would have one name in some replica, as a phrase; "" if there are none.

    `groups` has the cliques of each group. Replicas of groups are numbered without limit, so all numbers count.
    """
    grouped = {clique for names in groups.values() for clique in names}
    standalone = [clique for clique in cliques if clique not in grouped]
    for group, members in groups.items():
        for clique in standalone:
            if (found := _after_number(clique, f"{group}-")) is not None and found in members:
                return f"clique {clique} and clique {found} of group {group}"
        for longer, others in groups.items():
            if not longer.startswith(f"{group}-"):
                continue
            for other in others:
                for member in members:
                    if _meet(group, member, longer, other):
                        return f"clique {member} of group {group} and clique {other} of group {longer}"
    return ""


_NUMBER = r"(?:0|[1-9][0-9]*)"
_NUMBERED = re.compile(rf"{_NUMBER}-(.+)")


def _after_number(text: str, prefix: str) -> str | None:
    """Return what comes after a prefix and a number."""
    found = _NUMBERED.fullmatch(text, len(prefix)) if text.startswith(prefix) else None
    return found[1] if found else None


def _meet(group: str, member: str, longer: str, other: str) -> bool:
    """Whether `group-N-member` is `longer-M-other` for some N and M; the one group's name begins the other's."""
    rest = longer[len(group) + 1 :]
    if re.fullmatch(_NUMBER, rest):
        return _after_number(member, "") == other
    found = _NUMBERED.fullmatch(rest)
    return found is not None and _after_number(member, f"{found[1]}-") == other


def _index(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(rf"{_NUMBER}", text) and len(text) < 10 else None
