"""The controllers of policies on a cluster: what each is told when a replica, a copy, an object or an event changes."""

from collections.abc import Sequence

from echelon.agent.context import AgentContext, Family
from echelon.agent.policy.child_kinds import BY_POLICY, ChildChange, ChildKinds
from echelon.agent.policy.copies import Copies
from echelon.agent.policy.evaluators import Evaluator
from echelon.agent.policy.reconciler import PolicyReconciler
from echelon.agent.policy.replicas import Replicas
from echelon.agent.policy.template_objects import TemplateObjects
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import EVENT, Event
from echelon.api.policy import GROUP, POLICY
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, Child, ChildKey, PolicyDocument
from echelon.engine.work.removal import ResourceKey
from echelon.kube.informer import Delta, Informer

MANAGER = "policy-agent"
POLICIES_AT_ONCE = 5
EVENT_SECONDS = 0.2


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
        self._known_replicas = Replicas(context.hub, replicas)
        self._known_copies = known = Copies(context.member, copies, MANAGER)
        self._objects = TemplateObjects(context, self.kinds, known)
        reconciler = PolicyReconciler(
            context,
            replicas=self._known_replicas,
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
        return known and self.kinds.empty and not (len(self._replicas) or len(self._copies))

    def close(self) -> None:
        """Hear of nothing more."""
        for stop in self._stops:
            stop()

    def _changed_something(self, child: Child) -> bool:
        changed = self._changes_of.get(child.kind.resource)
        return changed is not None and changed(child.status)

    # Whoever wrote something goes on from there, and need not be told of it.

    def _replica_changed(self, delta: Delta[PolicyDocument]) -> None:
        if delta.new is None:
            self._known_replicas.ended(delta.object)
        if delta.new is None or not self._known_replicas.knows(delta.new):
            self.workers.queue.add(delta.object.metadata.name)

    def _copy_changed(self, delta: Delta[PolicyDocument]) -> None:
        name = delta.object.metadata.name
        if delta.new is None or not self._known_copies.knows(delta.new):
            self.workers.queue.add(name)
        before = delta.old.status.compliant if delta.old is not None else ""
        if delta.new is None or delta.new.status.compliant != before:
            self._tell_interested(ChildKey(GROUP, POLICY.kind, name))

    def _event_changed(self, delta: Delta[Event]) -> None:
        # The status of the template's object is about to say the same, and the verdict is that.
        self.workers.queue.add(delta.object.involved_object.name, after=EVENT_SECONDS)

    def _child_changed(self, change: ChildChange | None) -> None:
        if change is None:
            for copy in self._copies.values():
                self.workers.queue.add(copy.metadata.name)
            return
        for name in change.policies.union(self._objects.interested(change.key)) - {"", change.known_to}:
            self.workers.queue.add(name)

    def _object_changed(self, key: ResourceKey) -> None:
        self._tell_interested(key)

    def _tell_interested(self, key: ChildKey | ResourceKey) -> None:
        for policy in self._objects.interested(key):
            self.workers.queue.add(policy)
