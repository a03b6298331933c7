"""By which a changed template is recognised: hashes of canonical JSON of what pods get.

They are written on pods that run for months, so they must be the same after an upgrade of Echelon, and the same for
all that means the same: the order of keys does not count, nor do nulls, nor the empty values listed here, which Go
programs leave out or put in whenever they write an object. The list is closed, and goes by place, because elsewhere an
empty value means something: `emptyDir: {}` is a volume, an empty selector selects everything, and an empty text can be
the value of a label. The order of lists counts.

A hash says by which scheme it was made, so a later scheme can tell the hashes of this one from its own, and both from
those of Grove.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from echelon.api.base import JSON, JSONObject
from echelon.api.short_hash import short_hash
from echelon.engine.pod_clique.template import CliqueTemplate

SCHEME = "e1"
_EXACT = 1 << 53  # up to here, a float that is whole is the same number as an integer


def template_hash(template: CliqueTemplate) -> str:
    """Return the hash of what the pods of one clique get."""
    return _hash(_normal(template.content, _TEMPLATE))


def generation_hash(hashes: Mapping[str, str]) -> str:
    """Return the hash of a set's whole template, from the hashes of its cliques by name.

    The order of the cliques is no part of it: where it may change, no pod is different for it.
    """
    return _hash(dict(hashes))


def is_foreign(found: str) -> bool:
    """Whether a hash was made by somebody else, or by a later scheme."""
    return not found.startswith(f"{SCHEME}-")


def _hash(content: JSON) -> str:
    """Return the hash of a content in its normal form."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{SCHEME}-{short_hash(text.encode('ascii'))}"


@dataclass(frozen=True)
class _Place:
    """Which fields of an object mean the same empty and absent, and where to look on; lists are looked into."""

    empties: frozenset[str] = frozenset()
    inside: Mapping[str, "_Place"] = field(default_factory=dict)


def _place(empties: str = "", **inside: _Place) -> _Place:
    return _Place(frozenset(empties.split()), inside)


_NOWHERE = _place()
_RESOURCES = _place("limits requests claims")
_SELECTOR = _place("matchLabels matchExpressions")
_PROBE = _place(
    "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold",
    exec=_place("command"),
    httpGet=_place("host scheme path httpHeaders"),
    tcpSocket=_place("host"),
)
_CONTAINER = _place(
    "command args workingDir ports envFrom env resources resizePolicy volumeMounts volumeDevices "
    "terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
    resources=_RESOURCES,
    ports=_place("name hostPort hostIP protocol"),
    env=_place("value", valueFrom=_place(fieldRef=_place("apiVersion"))),
    envFrom=_place("prefix"),
    volumeMounts=_place("readOnly subPath subPathExpr"),
    livenessProbe=_PROBE,
    readinessProbe=_PROBE,
    startupProbe=_PROBE,
)
_VOLUME = _place(
    emptyDir=_place("medium"),
    secret=_place("items"),
    configMap=_place("items"),
    projected=_place("sources"),
    ephemeral=_place(
        volumeClaimTemplate=_place(
            "metadata",
            metadata=_place("labels annotations"),
            spec=_place("accessModes resources volumeName", resources=_RESOURCES),
        )
    ),
)
_POD_TERM = _place("namespaces matchLabelKeys mismatchLabelKeys", labelSelector=_SELECTOR, namespaceSelector=_SELECTOR)
_POD_AFFINITY = _place(
    "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution",
    requiredDuringSchedulingIgnoredDuringExecution=_POD_TERM,
    preferredDuringSchedulingIgnoredDuringExecution=_place(podAffinityTerm=_POD_TERM),
)
_POD = _place(
    "volumes initContainers ephemeralContainers restartPolicy dnsPolicy nodeSelector serviceAccountName serviceAccount "
    "nodeName hostNetwork hostPID hostIPC securityContext imagePullSecrets affinity schedulerName tolerations "
    "hostAliases priorityClassName dnsConfig readinessGates overhead topologySpreadConstraints resourceClaims "
    "resources",
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    volumes=_VOLUME,
    affinity=_place(
        "nodeAffinity podAffinity podAntiAffinity",
        nodeAffinity=_place("preferredDuringSchedulingIgnoredDuringExecution"),
        podAffinity=_POD_AFFINITY,
        podAntiAffinity=_POD_AFFINITY,
    ),
    securityContext=_place("supplementalGroups sysctls"),
    dnsConfig=_place("nameservers searches options"),
    tolerations=_place("key operator value effect"),
    resources=_RESOURCES,
)
_TEMPLATE = _place("labels annotations", podSpec=_POD)


def _normal(value: JSON, place: _Place) -> JSON:
    """Return a value without nulls and without what means nothing at its place, and with 1.0 written as 1."""
    if isinstance(value, list):
        return [each if isinstance(each, str) else _normal(each, place) for each in value]
    if not isinstance(value, dict):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
        return int(value) if whole else value
    kept: JSONObject = {}
    empties, inside = place.empties, place.inside
    for name, each in value.items():
        # Most are texts, and a template can have a megabyte of them.
        inner = each if isinstance(each, str) else _normal(each, inside.get(name, _NOWHERE))
        if inner or (name not in empties and inner is not None):
            kept[name] = inner
    return kept
