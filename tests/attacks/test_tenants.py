"""What a tenant makes that the requests of others, and the hub's own controllers, run into."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from echelon.api.label_terms import Requirement
from tests.attacks.hub import AttackedHub, attacked_hub, eventually
from tests.hub.api import MERGE_PATCH, Api, config_map

MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedHub]:
    with attacked_hub(tmp_path_factory.mktemp("tenants")) as running:
        yield running


def definition(columns: list[dict[str, str]]) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{**version, "additionalPrinterColumns": columns}],
        },
    }


def column(number: int, path: str) -> dict[str, str]:
    return {"name": f"C{number}", "type": "string", "jsonPath": path}


def test_columns_are_bounded_in_number_and_in_what_they_look_at(hub: AttackedHub) -> None:
    many = [column(number, ".spec.name") for number in range(500)]
    refused = hub.admin("POST", CRDS, definition(many))
    assert (refused.status, refused.fields) == (422, ["spec.versions[0].additionalPrinterColumns"])
    greedy = [column(number, '.spec.items[?(@.a=="b")].c') for number in range(99)]
    hub.admin.ok("POST", CRDS, definition([column(99, ".spec.name"), *greedy]))
    spec = {"name": "mine", "items": [{"a": "b", "c": "d"}] * 20_000}
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}
    hub.admin.ok("POST", THINGS, body)
    asking = hub.admin.with_headers(Accept=TABLE)

    def attack(path: str) -> None:
        (row,) = asking.ok("GET", path)["rows"]
        assert row["cells"][:3] == ["t", "mine", "<too large>"]

    for path in (f"{THINGS}/t", THINGS):
        hub.steps(partial(attack, path), 0.1)


def test_selectors_of_thousands_of_terms_cost_no_more_than_the_labels_of_an_object(
    hub: AttackedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty watches of thousands of terms each: every write of anybody would have cost seconds."""
    terms = ",".join(f"!k{number}" for number in range(4000))
    fields = ",".join(f"metadata.name!=n{number}" for number in range(1500))
    admin, asked, singly = hub.admin, [0], Requirement.matches

    def counted(requirement: Requirement, labels: Mapping[str, str]) -> bool:
        asked[0] += 1
        return singly(requirement, labels)

    monkeypatch.setattr(Requirement, "matches", counted)
    with ExitStack() as open_:
        watches = []
        for number in range(50):
            how = {"labelSelector": terms} if number % 2 else {"fieldSelector": fields}
            watches.append(open_.enter_context(admin.watch(MAPS, **how)))
        for number in range(20):
            admin.ok("POST", MAPS, config_map(f"seen-{number}", labels={f"l{label}": "x" for label in range(5)}))
        for events in watches:  # all have looked at all
            assert any(event["object"]["metadata"]["name"] == "seen-19" for event in events)
        assert asked[0] < 20 * 50


def owned(api: Api, name: str, *owners: str) -> None:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": api.ok("GET", f"{MAPS}/{owner}")["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    api.ok("PATCH", f"{MAPS}/{name}", {"metadata": {"ownerReferences": references}}, MERGE_PATCH)


def test_owners_that_own_each_other_do_not_wait_for_each_other_for_ever(hub: AttackedHub) -> None:
    jane = hub.user("jane")
    for name in ("a", "b", "c", "self"):
        jane.ok("POST", MAPS, config_map(name))
    for name, owner in (("a", "c"), ("b", "a"), ("c", "b"), ("self", "self")):
        owned(jane, name, owner)
    for name in ("a", "self"):
        jane.ok("DELETE", f"{MAPS}/{name}", {"propagationPolicy": "Foreground"})
    eventually(lambda: all(jane("GET", f"{MAPS}/{name}").status == 404 for name in ("a", "b", "c", "self")))
