"""What templates wait for: other objects in a state of compliance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from echelon.api.base import JSON
from echelon.api.policy import GROUP


class DependencyKey(NamedTuple):
    """Which object somebody waits for. The namespace is empty where it is the cluster's."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Dependency:
    """An object that must have a state."""

    key: DependencyKey
    compliance: str


def read_dependencies(listed: JSON) -> tuple[Dependency, ...]:
    """Read a list of dependencies. What is none can never be met, and is told as such."""
    return tuple(_read(each if isinstance(each, dict) else {}) for each in listed) if isinstance(listed, list) else ()


def conflict(dependencies: Sequence[Dependency]) -> str:
    """Return what to say where one object would have to be in two states at once; nothing if there is none."""
    wanted: dict[DependencyKey, str] = {}
    for each in dependencies:
        known = wanted.setdefault(each.key, each.compliance)
        if known != each.compliance:
            return f"Dependency on {each.key} is asked to be both {known} and {each.compliance}"
    return ""


def unmet(dependencies: Sequence[Dependency], compliance: Mapping[DependencyKey, str]) -> list[DependencyKey]:
    """Return what is not in the state that it must have; `compliance` has what exists."""
    missed = [each.key for each in dependencies if compliance.get(each.key) != each.compliance]
    return list(dict.fromkeys(missed))


def pending_text(missed: Sequence[DependencyKey]) -> str:
    """Return what to say of a template that waits."""
    names = ", ".join(str(each) for each in missed)
    count = "1 is" if len(missed) == 1 else f"{len(missed)} are"
    return f"Dependencies were not satisfied: {count} still pending ({names})"


def _read(said: dict[str, JSON]) -> Dependency:
    api_version, kind, namespace, name = (
        str(said.get(each) or "") for each in ("apiVersion", "kind", "namespace", "name")
    )
    if api_version.partition("/")[0] == GROUP and kind.endswith("Policy"):
        namespace = ""
    return Dependency(DependencyKey(api_version, kind, namespace, name), str(said.get("compliance") or ""))
