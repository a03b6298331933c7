"""The controller of ConfigurationPolicies: what it is told when a policy, or something that one looks at, changes."""

import logging

from echelon.agent.configuration_policy.reconciler import ConfigurationPolicyReconciler
from echelon.agent.context import AgentContext, Family
from echelon.api.configuration_policy import CONFIGURATION_POLICY, ConfigurationPolicy
from echelon.engine.work.removal import ResourceKey
from echelon.kube.informer import Delta
from echelon.kube.misfits import Misfit

POLICIES_AT_ONCE = 10

_log = logging.getLogger(__name__)


def configuration_policy_controllers(context: AgentContext) -> Family:
    """Return what evaluates and enforces the ConfigurationPolicies in the cluster's own namespace."""
    controller = ConfigurationPolicyController(context)
    return Family((controller,), member_kinds=(CONFIGURATION_POLICY,))


class ConfigurationPolicyController:
    """Evaluates policies when they, or what they look at, change. Without policies it has one stream and no timers."""

    name = "configuration-policies"

    def __init__(self, context: AgentContext) -> None:
        self.informer = context.member_informer(CONFIGURATION_POLICY, namespace=context.cluster)
        self._reconciler = ConfigurationPolicyReconciler(context, self.informer)
        self._workers = context.workers(
            self.name, self._reconciler.reconcile, concurrency=POLICIES_AT_ONCE, after=(self.informer,)
        )
        self.informer.on_change(self._policy_changed)
        self.informer.on_unreadable(self._unreadable)
        context.object_watches.on_change(self._object_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._workers.run()

    def _policy_changed(self, delta: Delta[ConfigurationPolicy]) -> None:
        if delta.new is None or not self._reconciler.knows(delta.new):
            self._workers.queue.add(delta.object.metadata.name)

    def _object_changed(self, key: ResourceKey) -> None:
        for name in self._reconciler.object_changed(key):
            self._workers.queue.add(name)

    def _unreadable(self, misfit: Misfit) -> None:
        _log.warning("%s is not evaluated as it is now: %s", misfit.where, misfit.why)
