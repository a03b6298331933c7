"""What a policy that informs announces is what it then does."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.diff import diff
from tests.engine.configuration_policy.toy_cluster import WIDGET, Place, Story, ToyCluster, story, template

NAMES = st.sampled_from(["x", "y", "z"])
ITEMS = st.lists(
    st.fixed_dictionaries({}, optional={"name": st.sampled_from("ab"), "v": st.integers(0, 2)}), max_size=3
)
SPECS = st.fixed_dictionaries(
    {}, optional={"size": st.integers(0, 2), "cpu": st.sampled_from(["1", "1000m", "2"]), "items": ITEMS}
)
TYPES = st.sampled_from(["musthave", "mustonlyhave", "mustnothave"])
TEMPLATES = st.lists(st.tuples(NAMES, TYPES, SPECS), min_size=1, max_size=4)
OBJECTS = st.dictionaries(NAMES, SPECS, max_size=3)


def store(kind: Kind[Any], obj: JSONObject) -> JSONObject:
    """Fill in a default, leave out zero values, and write amounts in one way."""
    if kind is not WIDGET:
        return obj
    spec = {"shape": "round", **(obj.get("spec") or {})}
    spec = {key: value for key, value in spec.items() if value}
    if spec.get("cpu") == "1000m":
        spec["cpu"] = "1"
    return {**obj, "spec": spec}


def widgets(*templates: tuple[str, str, JSONObject]) -> list[JSONObject]:
    return [
        template({**WIDGET.type_meta, "metadata": {"name": name, "namespace": "default"}, "spec": spec}, type_)
        for name, type_, spec in templates
    ]


def world(objects: dict[str, JSONObject], templates: list[JSONObject], **spec: Any) -> Story:
    told = story(*templates, cluster=ToyCluster(store=store), **spec)
    for name, body in objects.items():
        told.cluster.put(WIDGET, name, spec=body)
    return told


def announced(told: Story) -> dict[Place, tuple[str, str]]:
    """Return what is to become of each object in the end, and the diff if that is one change."""
    found: dict[Place, list[tuple[str, str]]] = {}
    for each in told.policy.status.pending_changes:
        found.setdefault((f"{each.kind.lower()}s", each.namespace, each.name), []).append((each.change, each.diff))
    return {place: (changes[-1][0], changes[0][1] if len(changes) == 1 else "") for place, changes in found.items()}


def really(before: dict[Place, JSONObject], after: dict[Place, JSONObject]) -> dict[Place, tuple[str, str]]:
    changed = {place for place in before.keys() | after.keys() if before.get(place) != after.get(place)}
    words = {(True, False): "Delete", (False, True): "Create", (True, True): "Update"}
    kinds = {each.plural: each for each in (WIDGET, CONFIG_MAP)}
    return {
        place: (
            words[place in before, place in after],
            diff(kinds[place[0]], before.get(place), after.get(place)),
        )
        for place in changed
    }


def consistent(templates: list[tuple[str, str, JSONObject]]) -> list[tuple[str, str, JSONObject]]:
    """Leave out templates that want the contrary of an earlier one: nobody can say what they come to in the end."""
    kept: dict[str, tuple[str, str, JSONObject]] = {}
    for each in templates:
        kept.setdefault(each[0], each)
    return list(kept.values())


@given(OBJECTS, TEMPLATES)
def test_what_is_announced_is_what_is_done(objects: dict[str, Any], wanted: list[tuple[str, str, JSONObject]]) -> None:
    told = world(objects, widgets(*consistent(wanted)), remediationAction="inform")
    told.annotate(held="true")
    before = told.cluster.content()
    told.evaluate()
    assert told.cluster.content() == before, "informing changes nothing"
    assert told.cluster.writes == []
    promised = announced(told)
    told.annotate(held="")
    told.change(remediationAction="enforce")
    told.evaluate()
    assert promised == really(before, told.cluster.content())


@given(OBJECTS, TEMPLATES)
def test_what_was_enforced_is_compliant_and_enforcing_it_again_writes_nothing(
    objects: dict[str, Any], wanted: list[tuple[str, str, JSONObject]]
) -> None:
    told = world(objects, widgets(*consistent(wanted)))
    told.evaluate()
    after = told.cluster.content()
    told.evaluate()
    assert (told.state, told.cluster.writes) == ("Compliant", [])
    assert told.cluster.content() == after
    conclusion = told.evaluate()
    assert (conclusion.reports, conclusion.is_news) == ((), False)


@given(OBJECTS, TEMPLATES, TEMPLATES, st.sampled_from(["DeleteIfCreated", "DeleteAll"]))
def test_what_is_to_be_pruned_is_announced_too(
    objects: dict[str, Any],
    first: list[tuple[str, str, JSONObject]],
    second: list[tuple[str, str, JSONObject]],
    behaviour: str,
) -> None:
    told = world(objects, widgets(*consistent(first)), pruneObjectBehavior=behaviour)
    for _ in range(3):
        told.evaluate()
    before = told.cluster.content()
    told.annotate(held="true", enforced_before="true")
    told.change(**{"object-templates": widgets(*consistent(second)), "remediationAction": "inform"})
    told.evaluate()
    told.evaluate()
    assert told.cluster.content() == before
    promised = announced(told)
    told.annotate(held="")
    told.change(remediationAction="enforce")
    told.evaluate()
    assert promised == really(before, told.cluster.content())


@given(OBJECTS, TEMPLATES)
def test_looking_twice_finds_the_same(objects: dict[str, Any], wanted: list[tuple[str, str, JSONObject]]) -> None:
    told = world(objects, widgets(*wanted), remediationAction="inform")
    told.evaluate()
    first = copy.deepcopy(told.policy.status)
    conclusion = told.evaluate()
    assert (conclusion.reports, conclusion.is_news) == ((), False)
    assert told.policy.status.pending_changes == first.pending_changes
