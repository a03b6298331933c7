"""In which order cliques start: which PodCliques a PodClique waits for, and the container that waits.

Order holds within a gang. A clique of a base gang waits for standalone cliques and for every replica of a group that
must be up; a clique of a gang beyond the minimum waits only for cliques of its own replica, because the base gang is up
already. The container is Grove's: it gets each PodClique with the number of pods that must be ready, and ends when all
of them are, at the same time.
"""

from typing import NamedTuple

from echelon.api.base import JSONObject
from echelon.engine.pod_clique.names import GANG, STANDALONE, CliqueKey, clique_name, token_secret_name
from echelon.engine.pod_clique.set_spec import CliqueSpec, SetSpec

WAITER = "grove-initc"
TOKEN_VOLUME = "sa-token-secret-vol"  # noqa: S105 - the name of a volume
INFO_VOLUME = "pod-info-vol"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where every client looks for a token
INFO_PATH = "/var/grove/pod-info"
NAMESPACE_FILE, GANG_FILE = "namespace", "podgangname"

_NOBODY = 65532


class Parent(NamedTuple):
    """A PodClique that has to be up first, and how many of its pods."""

    name: str
    min_available: int


def parents(spec: SetSpec, set_name: str, key: CliqueKey) -> tuple[Parent, ...]:
    """Return what a PodClique waits for."""
    group = spec.group.get(key.group)
    scaled = group is not None and key.group_replica >= group.min_available
    found: list[Parent] = []
    for name in spec.clique[key.clique].starts_after:
        parent = spec.clique[name]
        if not scaled:
            found += _of_base(spec, set_name, key.replica, parent)
        elif parent.group == key.group:
            own = CliqueKey(key.replica, key.group, key.group_replica, name)
            found.append(Parent(clique_name(set_name, own), parent.min_available))
    return tuple(found)


def _of_base(spec: SetSpec, set_name: str, replica: int, parent: CliqueSpec) -> list[Parent]:
    """Return the PodCliques of one clique that a base gang holds."""
    if not parent.group:
        keys = [CliqueKey(replica, "", STANDALONE, parent.name)]
    else:
        together = spec.group[parent.group].min_available
        keys = [CliqueKey(replica, parent.group, number, parent.name) for number in range(together)]
    return [Parent(clique_name(set_name, key), parent.min_available) for key in keys]


def waiter(found: tuple[Parent, ...], image: str) -> JSONObject:
    """Return the init container that waits. It asks for nothing that a restricted namespace would refuse."""
    return {
        "name": WAITER,
        "image": image,
        "args": [f"--podcliques={each.name}:{each.min_available}" for each in found],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [
            {"name": TOKEN_VOLUME, "mountPath": TOKEN_PATH, "readOnly": True},
            {"name": INFO_VOLUME, "mountPath": INFO_PATH, "readOnly": True},
        ],
    }


def waiter_volumes(set_name: str) -> list[JSONObject]:
    """Return the volumes of the container that waits."""
    files = ((NAMESPACE_FILE, "metadata.namespace"), (GANG_FILE, f"metadata.labels['{GANG}']"))
    return [
        {"name": TOKEN_VOLUME, "secret": {"secretName": token_secret_name(set_name)}},
        {
            "name": INFO_VOLUME,
            "downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in files]},
        },
    ]
