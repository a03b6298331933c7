"""Answers the certificate requests of clusters: those that renew are let through, forged ones are denied and told.

What a request must look like, and when it needs no person, is the engine's to say (`engine/joining`). A first request
waits until its cluster is accepted; when that changes, all that wait are looked at again. They are few: whoever decided
about one has decided.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from echelon.api.certificates import CERTIFICATE_SIGNING_REQUEST, CertificateSigningRequest
from echelon.api.cluster import MANAGED_CLUSTER, ManagedCluster
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.controllers.cluster.certificate_requests import asked_of, decided, known_of
from echelon.controllers.context import ControllerContext
from echelon.engine.joining import Answer, Asked, Judgement, judge
from echelon.engine.plan import NOTHING, Action, Emit, Patch, Plan, Reference
from echelon.kube.controller import Controller
from echelon.kube.informer import Delta, Informer

KINDS: tuple[Kind[Any], ...] = (MANAGED_CLUSTER, CERTIFICATE_SIGNING_REQUEST)
NAME = "cluster-joining"


class JoiningReconciler:
    """Plans the answer to one request."""

    def __init__(
        self,
        requests: Informer[CertificateSigningRequest],
        clusters: Informer[ManagedCluster],
        auto_accept: Sequence[str],
    ) -> None:
        self._requests = requests
        self._clusters = clusters
        self._auto_accept = auto_accept

    def plan(self, key: Key, now: datetime) -> Plan:
        """Plan one request."""
        request = self._requests.get(key)
        if request is None or not request.is_pending:
            return NOTHING
        asked = asked_of(request)
        cluster = self._clusters.get(Key("", asked.cluster)) if asked.cluster else None
        found = judge(asked, known_of(cluster), self._auto_accept)
        return Plan(tuple(_answer(request, asked, cluster, found, now)))

    def pending(self, _: ManagedCluster) -> Iterable[Key]:
        """Return the requests that nobody has decided about."""
        return [Key("", each.metadata.name) for each in self._requests.values() if each.is_pending]


def _answer(
    request: CertificateSigningRequest,
    asked: Asked,
    cluster: ManagedCluster | None,
    found: Judgement,
    now: datetime,
) -> Iterable[Action]:
    meta = request.metadata
    about = Reference(CERTIFICATE_SIGNING_REQUEST, meta.name, "", meta.uid)
    if found.verdict is Answer.DENY:
        yield decided(request, approved=False, reason="Refused", why=found.why, now=now)
        note = f"{asked.user} asked for a certificate and did not get it: {found.why}"
        yield Emit(about, "CertificateRefused", "Deny", note, "Warning")
    if found.verdict is Answer.ACCEPT and cluster is not None:
        yield Patch.of(MANAGED_CLUSTER, cluster.metadata, {"spec": {"hubAcceptsClient": True}})
        seen = Reference(MANAGED_CLUSTER, cluster.metadata.name, "", cluster.metadata.uid)
        yield Emit(seen, "Accepted", "Accept", f"{asked.cluster} is accepted: {found.why}")
    if found.verdict in (Answer.APPROVE, Answer.ACCEPT):
        yield decided(request, approved=True, reason="Approved", why=found.why, now=now)


def cluster_joining_controller(context: ControllerContext) -> Controller:
    """Return a controller that answers certificate requests of clusters."""
    requests, clusters = context.informer(CERTIFICATE_SIGNING_REQUEST), context.informer(MANAGED_CLUSTER)
    reconciler = JoiningReconciler(requests, clusters, context.settings.auto_accept)
    controller = context.controller(NAME, reconciler)
    controller.watch(requests, when=lambda delta: delta.new is not None and delta.new.is_pending)
    controller.watch(clusters, keys=reconciler.pending, when=_is_relevant)
    return controller


def _is_relevant(delta: Delta[ManagedCluster]) -> bool:
    """Whether something changed that requests wait for."""
    return known_of(delta.old) != known_of(delta.new)
