"""The workloads that people write, and that bindings bring to clusters."""

from typing import Any

from echelon.api.apps import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from echelon.api.kinds import Kind
from echelon.api.kruise import CLONE_SET
from echelon.engine.workload.names import binding_name

TEMPLATES: tuple[Kind[Any], ...] = (DEPLOYMENT, STATEFUL_SET, CLONE_SET, DAEMON_SET)


def name_of_binding(name: str, template: Kind[Any]) -> str:
    """Return the name of the binding of a template."""
    return binding_name(name, template.kind)
