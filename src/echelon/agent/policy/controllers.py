"""The controllers of policies on a cluster: what each is told when a replica, a copy, an object or an event changes."""

from collections.abc import Sequence

from echelon.agent.context import AgentContext, Family
from echelon.agent.policy.child_kinds import ChildKinds
from echelon.agent.policy.copies import Copies
from echelon.agent.policy.evaluators import Evaluator
from echelon.agent.policy.reconciler import BY_POLICY, PolicyReconciler
from echelon.agent.policy.replicas import Replicas
from echelon.agent.policy.template_objects import TemplateObjects
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import EVENT, Event
from echelon.api.policy import GROUP, POLICY
from echelon.engine.policy.names import PARENT_LABEL
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, Child, ChildKey, PolicyDocument
from echelon.engine.work.removal import ResourceKey
from echelon.kube.informer import Delta, Informer

MANAGER = "policy-agent"
POLICIES_AT_ONCE = 5


class PolicySync:
    """Makes the controllers and routes changes to them."""

    def __init__(
        self, context: AgentContext, replicas: Informer[PolicyDocument], evaluators: Sequence[Evaluator]
    ) -> None:
        self._changes_of = {each.kind.resource: each.changed_something for each in evaluators}
        self._replicas = replicas
        self._copies = copies = context.member_informer(POLICY_DOCUMENT, namespace=context.cluster)
        events = context.member_informer(
            EVENT,
            {BY_POLICY: lambda event: (event.involved_object.uid,)},
            context.cluster,
            fields=f"involvedObject.kind={POLICY.kind}",
        )
        self.kinds = ChildKinds(context, MANAGER)
        known = Copies(context.member, copies, MANAGER)
        self._objects = TemplateObjects(context, self.kinds, known)
        reconciler = PolicyReconciler(
            context,
            replicas=Replicas(context.hub, replicas),
            copies=known,
            objects=self._objects,
            events=events,
            changed_something=self._changed_something,
            manager=MANAGER,
        )
        own = self.kinds.objects(CONFIGURATION_POLICY).informer
        self.workers = context.workers(
            "policies", reconciler.reconcile, concurrency=POLICIES_AT_ONCE, after=(replicas, copies, events, own)
        )
        self._stops = [
            replicas.on_change(self._replica_changed),
            copies.on_change(self._copy_changed),
            events.on_change(self._event_changed),
        ]
        self.kinds.on_change(self._child_changed)
        context.object_watches.on_change(self._object_changed)

    def family(self) -> Family:
        """Return what is to be run."""
        return Family((self.kinds, self.workers), member_kinds=(POLICY, CONFIGURATION_POLICY))

    @property
    def idle(self) -> bool:
        """Whether neither the hub nor the cluster has anything to do with policies."""
        known = self._copies.synced and self.kinds.settled
        return known and not (len(self._replicas) or len(self._copies) or self.kinds.children())

    def close(self) -> None:
        """Hear of nothing more."""
        for stop in self._stops:
            stop()

    def _changed_something(self, child: Child) -> bool:
        changed = self._changes_of.get(child.kind.resource)
        return changed is not None and changed(child.status)

    def _replica_changed(self, delta: Delta[PolicyDocument]) -> None:
        self.workers.queue.add(delta.object.metadata.name)

    def _copy_changed(self, delta: Delta[PolicyDocument]) -> None:
        name = delta.object.metadata.name
        self.workers.queue.add(name)
        before = delta.old.status.compliant if delta.old is not None else ""
        if delta.new is None or delta.new.status.compliant != before:
            self._tell_interested(ChildKey(GROUP, POLICY.kind, name))

    def _event_changed(self, delta: Delta[Event]) -> None:
        self.workers.queue.add(delta.object.involved_object.name)

    def _child_changed(self, child: Child | None) -> None:
        if child is None:
            for copy in self._copies.values():
                self.workers.queue.add(copy.metadata.name)
            return
        for name in {child.policy, child.labels.get(PARENT_LABEL, "")} - {""}:
            self.workers.queue.add(name)
        self._tell_interested(child.key)

    def _object_changed(self, key: ResourceKey) -> None:
        self._tell_interested(key)

    def _tell_interested(self, key: ChildKey | ResourceKey) -> None:
        for policy in self._objects.interested(key):
            self.workers.queue.add(policy)
