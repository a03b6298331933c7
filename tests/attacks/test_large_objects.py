"""A stranger's megabyte is looked at for as long as it takes, and others are served meanwhile.

Nothing here is timed. Whatever looks at the whole of an object is held up right there until others have had their
answers: in a step of the event loop that would be for ever.
"""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

from echelon.hub import apply
from echelon.hub.access.rbac import Authorizer
from echelon.hub.catalogue.resources import Resource
from echelon.hub.schema.cel import Rules
from echelon.hub.server import Settings
from echelon.hub.verbs import admission, patch
from tests.attacks.hub import PATIENCE_SECONDS, AttackedHub, attacked_hub, eventually
from tests.hub.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Answer, config_map

pytestmark = pytest.mark.full

MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
OTHERS = 20  # requests of somebody else, while one is looked at
KEYS = 4000  # in a large object

_number = count()


@pytest.fixture(scope="module", params=[False, True], ids=["bytes", "decoded"])
def hub(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[AttackedHub]:
    """A hub that holds its objects in either form."""
    with attacked_hub(tmp_path_factory.mktemp("large"), Settings(keep_objects=request.param)) as running:
        running.user("mallory")
        running.user("jane")
        running.admin.ok("POST", CRDS, definition("things", rules=1))
        yield running


def definition(plural: str, rules: int) -> dict[str, Any]:
    values = {"type": "object", "additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "properties": {"values": values, "a": {"type": "boolean"}}}
    # What was compiled once is remembered, so no two definitions are the same.
    rule = {"rule": "!has(self.a) || self.a", "message": str(next(_number))}
    ruled = {"openAPIV3Schema": {**schema, "x-kubernetes-validations": [rule] * rules}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": ruled}],
        },
    }


def large(name: str) -> dict[str, Any]:
    return config_map(name) | {"data": {f"k{number}": "v" for number in range(KEYS)}}


def thing(name: str) -> dict[str, Any]:
    values = {f"k{number}": number for number in range(KEYS)}
    return {"apiVersion": "example.com/v1", "kind": "Things", "metadata": {"name": name}, "values": values}


class Gate:
    """Holds up whoever comes to a function, the first time."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any, **named: Any) -> Any:
            if not self.reached.is_set():
                self.reached.set()
                assert self.opened.wait(PATIENCE_SECONDS)
            return function(*args, **named)

        return held


@contextmanager
def held_up(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, ask: Callable[[], Answer]
) -> Iterator[Future[Answer]]:
    """Have a request held up at a function of the hub while the context lasts."""
    gate = Gate()
    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as pool:
        patched.setattr(place, name, gate.before(getattr(place, name)))
        answer = pool.submit(ask)
        try:
            assert gate.reached.wait(PATIENCE_SECONDS), "nobody came by"
            yield answer
        finally:
            gate.opened.set()
            answer.result(PATIENCE_SECONDS)


def served_meanwhile(hub: AttackedHub, name: str) -> int:
    """Return how many requests of others are answered: reads, writes and what was written."""
    jane = hub.user("jane")
    jane.ok("POST", MAPS, config_map(name, n="0"))
    for number in range(OTHERS):
        jane.ok("PATCH", f"{MAPS}/{name}", {"data": {"n": str(number)}}, MERGE_PATCH)
        assert jane.ok("GET", f"{MAPS}/{name}")["data"]["n"] == str(number)
    jane.ok("DELETE", f"{MAPS}/{name}")
    return 2 * OTHERS


ATTACKS: dict[str, tuple[Any, str, Callable[[AttackedHub], Answer]]] = {
    "a new object is admitted": (
        admission, "admit_body", lambda hub: hub.user("mallory")("POST", MAPS, large("m"), dryRun="All"),
    ),
    "a new object is held against its schema": (
        admission, "validate", lambda hub: hub.user("mallory")("POST", MAPS, large("m"), dryRun="All"),
    ),
    "the fields of a new object are counted": (
        apply, "track_update", lambda hub: hub.user("mallory")("POST", MAPS, large("m"), dryRun="All"),
    ),
    "an object is applied": (
        apply, "apply",
        lambda hub: hub.user("mallory")("PATCH", f"{MAPS}/m", large("m"), APPLY_PATCH, fieldManager="m", dryRun="All"),
    ),
    "a large object is touched": (
        admission, "validate",
        lambda hub: hub.user("mallory")("PATCH", f"{MAPS}/there", {"data": {"a": "b"}}, MERGE_PATCH, dryRun="All"),
    ),
    "the fields of a large object are counted that is touched": (
        apply, "track_update",
        lambda hub: hub.user("mallory")("PATCH", f"{MAPS}/there", {"data": {"a": "b"}}, MERGE_PATCH, dryRun="All"),
    ),
    "a large patch is made": (
        patch, "json_patch",
        lambda hub: hub.user("mallory")(
            "PATCH", f"{MAPS}/there", [{"op": "add", "path": "/data/x", "value": "x" * 100_000}], JSON_PATCH,
            dryRun="All",
        ),
    ),
    "a large object is replaced": (
        admission, "validate", lambda hub: hub.user("mallory")("PUT", f"{MAPS}/there", large("there"), dryRun="All"),
    ),
    "an object is held against rules": (
        admission, "validate", lambda hub: hub.admin("POST", "/apis/example.com/v1/things", thing("t"), dryRun="All"),
    ),
    "a small definition is compiled": (
        Rules, "compile", lambda hub: hub.admin("POST", CRDS, definition("others", rules=50), dryRun="All"),
    ),
    "a small policy is compiled": (
        admission, "validate", lambda hub: hub.admin("POST", POLICIES, policy(), dryRun="All"),
    ),
    "the definition of a small object is compiled": (
        Resource, "compile",
        lambda hub: hub.admin("POST", "/apis/example.com/v1/firsts", {**thing("t"), "kind": "Firsts", "values": {}}),
    ),
}  # fmt: skip


def policy() -> dict[str, Any]:
    rules = [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}]
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.metadata.name != 'x'"}],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    return {**kind, "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_served_while(hub: AttackedHub, monkeypatch: pytest.MonkeyPatch, attack: str) -> None:
    place, name, ask = ATTACKS[attack]
    if hub.user("mallory")("GET", f"{MAPS}/there").status == 404:
        hub.user("mallory").ok("POST", MAPS, large("there"))
    if name == "compile" and place is Resource:
        hub.admin.ok("POST", CRDS, definition("firsts", rules=2))
    with held_up(monkeypatch, place, name, lambda: ask(hub)) as answer:
        served = served_meanwhile(hub, "meanwhile")
        assert not answer.done()
    assert answer.result().status in (200, 201), answer.result().data[:300]
    assert served == 2 * OTHERS


def test_a_write_that_others_overtook_is_made_anew_on_what_they_wrote(
    hub: AttackedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    mallory, jane = hub.user("mallory"), hub.user("jane")
    mallory.ok("POST", MAPS, large("both"))

    def late() -> Answer:
        return mallory("PATCH", f"{MAPS}/both", {"data": {"mallory": "x"}}, MERGE_PATCH)

    with held_up(monkeypatch, admission, "validate", late) as answer:
        jane.ok("PATCH", f"{MAPS}/both", {"data": {"jane": "y"}}, MERGE_PATCH)
    assert answer.result().status == 200
    data = jane.ok("GET", f"{MAPS}/both")["data"]
    assert (data["mallory"], data["jane"]) == ("x", "y")
    jane.ok("DELETE", f"{MAPS}/both")


def test_a_write_that_names_the_state_that_it_means_does_not_overrule_who_came_first(
    hub: AttackedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    mallory, jane = hub.user("mallory"), hub.user("jane")
    meant = mallory.ok("POST", MAPS, large("meant"))
    with held_up(
        monkeypatch, admission, "validate", lambda: mallory("PUT", f"{MAPS}/meant", meant | {"data": {"a": "b"}})
    ) as answer:
        jane.ok("PATCH", f"{MAPS}/meant", {"data": {"jane": "y"}}, MERGE_PATCH)
    assert (answer.result().status, answer.result().reason) == (409, "Conflict")
    jane.ok("DELETE", f"{MAPS}/meant")


def test_two_that_make_the_same_large_object_make_one(hub: AttackedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_up(monkeypatch, admission, "validate", lambda: hub.user("mallory")("POST", MAPS, large("one"))) as answer:
        hub.user("jane").ok("POST", MAPS, config_map("one", whose="jane"))
    assert (answer.result().status, answer.result().reason) == (409, "AlreadyExists")
    assert hub.user("jane").ok("GET", f"{MAPS}/one")["data"] == {"whose": "jane"}
    hub.user("jane").ok("DELETE", f"{MAPS}/one")


def test_nothing_is_stored_of_a_kind_whose_definition_went_meanwhile(
    hub: AttackedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = hub.admin
    admin.ok("POST", CRDS, definition("passing", rules=1))
    body = {**thing("late"), "kind": "Passing"}
    with held_up(
        monkeypatch, admission, "validate", lambda: admin("POST", "/apis/example.com/v1/passing", body)
    ) as answer:
        admin.ok("DELETE", f"{CRDS}/passing.example.com")
        eventually(lambda: admin("GET", f"{CRDS}/passing.example.com").status == 404)
    assert answer.result().status == 404
    admin.ok("POST", CRDS, definition("passing", rules=1))
    assert admin.ok("GET", "/apis/example.com/v1/passing")["items"] == []


def test_nothing_is_stored_in_a_namespace_that_went_meanwhile(
    hub: AttackedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, path = hub.admin, "/api/v1/namespaces/passing"
    admin.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "passing"}})
    late = lambda: admin("POST", f"{path}/configmaps", large("late"))  # noqa: E731
    with held_up(monkeypatch, admission, "validate", late) as answer:
        admin.ok("DELETE", path)
        eventually(lambda: admin("GET", path).status == 404)
    assert answer.result().status == 404


@pytest.mark.parametrize("dry", [{}, {"dryRun": "All"}], ids=["written", "tried"])
def test_what_cannot_be_stored_with_its_owners_is_refused(hub: AttackedHub, dry: dict[str, str]) -> None:
    """Each of these fields is written down a second time, to say whose it is."""
    finalizers = [f"a/k{number}" for number in range(80_000)]
    body = config_map("owned") | {"metadata": {"name": "owned", "finalizers": finalizers}}
    answer = hub.user("mallory")("PATCH", f"{MAPS}/owned", body, APPLY_PATCH, fieldManager="m", **dry)
    assert (answer.status, answer.reason) == (413, "RequestEntityTooLarge")
    assert hub.user("mallory")("GET", f"{MAPS}/owned").status == 404


# --- what the hub does by itself -------------------------------------------------------------------------------------


def test_an_owner_that_is_named_ten_thousand_times_is_read_once(hub: AttackedHub) -> None:
    """It has a megabyte of labels, and a garbage collector that reads it as often takes minutes in one step."""
    mallory = hub.user("mallory")
    owner = mallory.ok(
        "POST",
        MAPS,
        config_map("owner") | {"metadata": {"name": "owner", "labels": {f"k{n}": "v" for n in range(40_000)}}},
    )
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": f"{n}"} for n in range(10_000)]
    owners.append({**owners[0], "uid": owner["metadata"]["uid"]})
    mallory.ok("POST", MAPS, config_map("owned") | {"metadata": {"name": "owned", "ownerReferences": owners}})
    eventually(lambda: len(mallory.ok("GET", f"{MAPS}/owned")["metadata"]["ownerReferences"]) == 1)
    mallory.ok("DELETE", f"{MAPS}/owner")
    eventually(lambda: mallory("GET", f"{MAPS}/owned").status == 404)


def test_a_binding_of_ten_thousand_subjects_costs_what_its_size_says(hub: AttackedHub) -> None:
    group = "rbac.authorization.k8s.io"
    subjects = [{"apiGroup": group, "kind": "User", "name": f"u{number}"} for number in range(15_000)]
    body = {"metadata": {"name": "crowd"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"}}

    def attack() -> None:
        hub.admin("DELETE", f"{ROLES}/rolebindings/crowd")
        assert hub.admin("POST", f"{ROLES}/rolebindings", json.dumps(body | {"subjects": subjects})).status == 201

    hub.steps(attack, 0.5)
    assert hub.run(_bound(hub.hub.cluster().authorizer)) >= len(subjects)
    hub.admin.ok("DELETE", f"{ROLES}/rolebindings/crowd")


async def _bound(authorizer: Authorizer) -> int:
    return len(authorizer._scopes["default"].users)
