"""What this version writes is read by the one before it, so that people may go back, with a rollout under way.

The version before is not here to be asked. Its schemas are: what it insists on, and the form of what it knows.
What it does not know it leaves out when it reads, and its writes leave that as it is (test_upgrade.py).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from echelon import __version__
from echelon.api.base import JSONObject
from echelon.api.karmada import WORK as EXECUTION_WORK
from echelon.api.rollout_ledger import ROLLOUT_LEDGER
from echelon.api.work import APPLIED_MANIFEST_WORK
from echelon.cli.demo import apply
from echelon.engine.work.intent import ANNOTATION as INTENT
from echelon.fleet.local import Local
from tests.upgrade.fleet_at_rest import COMPLETE, EXAMPLES, LEDGER, until
from tests.upgrade.readers import INTENDED, ON_HUB, ON_MEMBERS, SNAPSHOT, readers, recorded
from tests.upgrade.readers import LEDGER as LEDGER_CONTENT
from tests.upgrade.test_upgrade import VERSIONS, approve, go_on

_NEW = {"everywhere": ("node-agent:1.4", "node-agent:1.5"), "deployment-one-budget": ("nginx:v1", "nginx:v2")}


def changed(new: Any, old: Any, path: str = "") -> Iterator[str]:
    """Walk what an older reader would take amiss; that there are more fields is nothing."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            if name not in new:
                yield f"{path}/{name} is gone"
            elif name == "required":
                yield from (f"{path}/{each} may be missing" for each in value if each not in new[name])
            elif name != "default":  # of who reads; what is written is there
                yield from changed(new[name], value, f"{path}/{name}")
        if not path.endswith(("/properties", "/$defs")):
            yield from (f"{path}/{name} is new" for name in new if name not in old and name != "default")
    elif new != old:
        yield f"{path} was {old} and is {new}"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_that_an_earlier_version_reads_has_the_form_in_which_it_reads_it(version: str) -> None:
    now = readers()
    then = {name: list(changed(now[name], schema)) for name, schema in recorded(version).items()}
    assert {name: found for name, found in then.items() if found} == {}


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({"properties": {}, "required": ["a"]}, ["/properties/a is gone"]),
        (
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            ["/properties/a/type was integer and is string"],
        ),
        ({"properties": {"a": {"type": "integer"}}, "required": []}, ["/a may be missing"]),
        ({"properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}, ["/properties/a/minimum is new"]),
        ({"properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"]}, []),
    ],
)
def test_only_another_field_is_no_change_of_form(new: JSONObject, said: list[str]) -> None:
    assert list(changed(new, {"properties": {"a": {"type": "integer"}}, "required": ["a"]})) == said


def test_the_readers_of_this_version_are_recorded() -> None:
    assert recorded(__version__), "run python -m tests.upgrade.readers, once, before the release"


async def written(local: Local) -> list[tuple[str, str, Any]]:
    """Return everything that is stored: how it is read, what it is called, and the document."""
    found: list[tuple[str, str, Any]] = []
    for name in ("", *local.fleet.members):
        for kind in ON_MEMBERS if name else ON_HUB:
            for each in (await local.hub.client(name).list(kind.untyped())).items:
                called = f"{name} {kind.kind} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
                found.append((kind.resource, called, each))
                if kind is ROLLOUT_LEDGER:
                    found.append((LEDGER_CONTENT, called, json.loads(each["spec"]["content"])))
                if kind is EXECUTION_WORK:
                    statuses = each.get("status", {}).get("manifestStatuses", [])
                    found += [(SNAPSHOT, called, one["status"]["snapshot"]) for one in statuses]
                if kind is APPLIED_MANIFEST_WORK and (noted := each["metadata"].get("annotations", {}).get(INTENT)):
                    found.append((INTENDED, called, json.loads(noted)))
    return found


async def is_new(local: Local) -> bool:
    """Whether what was changed is everywhere."""
    client = local.hub.client()
    (kind, name, namespace), _ = COMPLETE
    rolled = (await client.get(kind, name, namespace)).status.summary
    kind_of_ledger, ledger, where = LEDGER
    status = (await client.get(kind_of_ledger, ledger, where)).status
    done = all(each.push_id > 1 for each in status.clusters) and status.complete
    return bool(done and rolled.total and rolled.available == rolled.total)


@pytest.mark.full
@pytest.mark.parametrize("version", VERSIONS)
def test_what_this_version_stores_as_it_goes_on_fits_the_readers_of_an_earlier_one(
    version: str, tmp_path: Path
) -> None:
    async def story(local: Local) -> None:
        await local.wait_joined()
        for name, (before, after) in _NEW.items():
            text = (EXAMPLES / f"{name}.yaml").read_text().replace(before, after)
            await apply(local.hub.client(field_manager="kubectl"), yaml.safe_load_all(text))
        await approve(local)
        await until(lambda: is_new(local))
        checks = {name: jsonschema_rs.validator_for(schema) for name, schema in recorded(version).items()}
        stored = await written(local)
        assert {read_by for read_by, _, _ in stored} >= checks.keys() - {INTENDED}
        assert [
            f"{called} ({read_by}): {error.message}"
            for read_by, called, document in stored
            for error in checks[read_by].iter_errors(document)
        ] == []

    go_on(version, tmp_path, story)
