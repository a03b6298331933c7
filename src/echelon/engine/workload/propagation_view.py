"""What was observed of a template that a policy may propagate, frozen."""

from dataclasses import dataclass, field
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.karmada import ResourceBinding
from echelon.api.kinds import Kind
from echelon.engine.work.health_state import number, part, text
from echelon.engine.workload.choosing import Chosen
from echelon.engine.workload.names import (
    CLUSTER_POLICY_NAME,
    MADE_BY,
    POLICY_NAME,
    POLICY_NAMESPACE,
    PROPAGATION,
    TEMPLATE_GENERATION,
)
from echelon.engine.workload.selecting import Claimant, Policy

_WITHOUT_REPLICAS = ("DaemonSet",)


@dataclass(frozen=True)
class PropagationView:
    """All that a plan for one template looks at."""

    kind: Kind[Any]
    template: JSONObject
    binding: ResourceBinding | None = None
    policy: Policy | None = None
    chosen: Chosen = field(default_factory=Chosen)
    told: bool = False  # that the binding is somebody else's

    @property
    def replicas(self) -> int:
        """The replicas that the template asks for."""
        spec = part(self.template, "spec")
        return 0 if self.kind.kind in _WITHOUT_REPLICAS else max(0, number(spec, "replicas", 1))


def is_made_here(binding: ResourceBinding) -> bool:
    """Whether a binding was made from a policy by Echelon, and is its to change."""
    return binding.metadata.annotations.get(MADE_BY) == PROPAGATION


def has_seen(binding: ResourceBinding, template: JSONObject) -> bool:
    """Whether the clusters of a binding were chosen for a template as it is. Another status is no other template."""
    meta = part(template, "metadata")
    seen = binding.metadata.annotations.get(TEMPLATE_GENERATION)
    return seen == str(number(meta, "generation")) and binding.spec.resource.uid == text(meta, "uid")


def holder_of(binding: ResourceBinding | None) -> Claimant | None:
    """Return the policy that a template has followed until now."""
    if binding is None or not is_made_here(binding):
        return None
    said = binding.metadata.annotations
    if name := said.get(CLUSTER_POLICY_NAME):
        return "", name
    name = said.get(POLICY_NAME, "")
    return (said.get(POLICY_NAMESPACE, ""), name) if name else None
