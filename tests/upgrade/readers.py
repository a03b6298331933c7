"""How a version reads what is stored, as schemas: what a later one writes has to fit them, or nobody could go back.

`python -m tests.upgrade.readers` keeps those of the present version beside this file, under the number of the version,
once for each version that is released and never again: a version that is installed somewhere does not change either.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from echelon import __version__
from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.karmada import RESOURCE_BINDING
from echelon.api.karmada import WORK as EXECUTION_WORK
from echelon.api.kinds import Kind
from echelon.api.placement import PLACEMENT, PLACEMENT_DECISION
from echelon.api.policy import POLICY
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.api.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.align.ledger import Ledger
from echelon.engine.align.reflection import _ReadView
from echelon.engine.work.intent import IntendedObject

FIXTURES = Path(__file__).parent / "fixtures"
# What rollouts are made of, on the hub.
ON_HUB: tuple[Kind[Any], ...] = (
    MANIFEST_WORK_REPLICA_SET,
    MANIFEST_WORK,
    EXECUTION_WORK,
    POLICY,
    PLACEMENT,
    PLACEMENT_DECISION,
    CONTROLLER_REVISION,
    RESOURCE_BINDING,
    ROLLOUT_LEDGER,
)
ON_MEMBERS: tuple[Kind[Any], ...] = (APPLIED_MANIFEST_WORK,)
# What is stored inside of objects, and no server looks at.
LEDGER, SNAPSHOT, INTENDED = "content of a ledger", "snapshot of a member", "objects that a work intends"
_INSIDE: dict[str, Any] = {LEDGER: Ledger, SNAPSHOT: _ReadView, INTENDED: list[IntendedObject]}


def readers() -> dict[str, JSONObject]:
    """Return the schemas by which this version reads, by the resource or by what it is."""
    kinds = {kind.resource: kind.type for kind in (*ON_HUB, *ON_MEMBERS)}
    return {name: _essence(msgspec.json.schema(type_)) for name, type_ in {**kinds, **_INSIDE}.items()}


def _essence(schema: Any) -> Any:
    """Return a schema without words for people."""
    if isinstance(schema, list):
        return [_essence(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _essence(each) for name, each in schema.items() if name != "description" or not isinstance(each, str)}


def recorded(version: str) -> dict[str, JSONObject]:
    """Return the schemas by which an earlier version reads."""
    found: dict[str, JSONObject] = json.loads((FIXTURES / f"{version}.readers.json").read_text())
    return found


def main() -> None:
    """Record the present version."""
    text = json.dumps(readers(), separators=(",", ":"), sort_keys=True)
    (FIXTURES / f"{__version__}.readers.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
