"""On a held cluster nothing changes: what was enforced only looks, and what would be deleted is kept."""

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.plan import Create, Delete
from echelon.engine.policy_member.documents import PolicyDocument
from tests.engine.policy_member.test_sync import waits
from tests.engine.policy_member.world import ENFORCED_BEFORE, HELD, Cluster, policy, template


def released(*templates: JSONObject) -> Cluster:
    here = Cluster(policy(*templates))
    here.sync()
    return here


def marks(here: Cluster, name: str = "web") -> tuple[str, bool, bool]:
    notes = here.child(name).annotations
    action = str(here.child(name).spec.get("remediationAction"))
    return action, notes.get(HELD) == "true", notes.get(ENFORCED_BEFORE) == "true"


def test_what_was_enforced_is_set_to_inform_and_remembered_in_one_write() -> None:
    here = released(template())
    assert marks(here) == ("enforce", False, False)
    here.receive(policy(template(value="2"), held=True))
    assert len(here.plan().writes) == 1
    here.sync()
    assert marks(here) == ("inform", True, True)
    here.receive(policy(template(value="3"), held=True))  # another change before the turn of the cluster
    here.sync()
    assert marks(here) == ("inform", True, True)
    here.receive(policy(template(value="3")))
    here.sync()
    assert marks(here) == ("enforce", False, False)


def test_what_was_never_enforced_has_no_mark() -> None:
    here = Cluster(policy(template(), held=True))
    here.sync()
    assert marks(here) == ("inform", True, False)
    here.receive(policy(template()))
    here.sync()
    assert marks(here) == ("enforce", False, False)


def test_the_mark_goes_with_the_hold_also_if_nothing_is_enforced_then() -> None:
    here = released(template())
    here.receive(policy(template(), held=True))
    here.sync()
    here.receive(policy(template(), action="inform"))
    here.sync()
    assert marks(here) == ("inform", False, False)


def test_objects_of_templates_that_left_are_parked_and_go_at_the_release() -> None:
    here = released(template("a"), template("b"))
    here.receive(policy(template("a"), template("c"), held=True))
    here.sync()
    assert here.names == ["a", "b", "c"]
    assert marks(here, "b") == ("inform", True, True)
    assert marks(here, "c") == ("inform", True, False)
    here.receive(policy(template("a"), template("c")))
    writes = [write for each in here.plan().writes for write in each.writes]
    assert [write.name for write in writes if isinstance(write, Delete)] == ["b"]
    assert marks(here, "b") == ("inform", True, True)  # its end still prunes
    here.sync()
    assert here.names == ["a", "c"]


def test_a_template_that_cannot_have_its_way_parks_its_object() -> None:
    for wrong in (
        policy(template(value="{{ x }}"), held=True),
        policy(template(), template(), held=True),
        policy({"objectDefinition": {}}, held=True),
        policy(template(), dependencies=[waits()], held=True),
        policy(held=True),
    ):
        here = released(template())
        here.receive(wrong)
        here.sync()
        assert marks(here) == ("inform", True, True)


def test_an_object_is_parked_also_if_the_cluster_refuses_the_new_content() -> None:
    here = released(template())
    here.receive(policy(template(value="refused"), held=True))
    here.refused["web"] = "Failed to update policy template: no"
    here.sync()
    assert marks(here) == ("inform", True, True)
    assert here.child().spec["object-templates"][0]["objectDefinition"]["data"] == {"value": "1"}


def test_what_somebody_enforces_by_hand_is_set_back() -> None:
    here = released(template("a"), template("b"))
    here.receive(policy(template("a"), held=True))
    here.sync()
    for name in ("a", "b"):
        child = here.child(name)
        here.put({}, child.kind, {**child.document, "spec": {**child.spec, "remediationAction": "Enforce"}})
    here.sync()
    assert marks(here, "a") == marks(here, "b") == ("inform", True, True)


NAMES = st.lists(st.sampled_from("abc"), max_size=3)
VALUES = st.sampled_from(["1", "2", "{{ x }}"])
REPLICAS = st.builds(
    lambda names, value, held, action, blocked: policy(
        *[template(name, value) for name in names],
        held=held,
        action=action,
        dependencies=[waits()] if blocked else [],
    ),
    NAMES,
    VALUES,
    st.booleans(),
    st.sampled_from(["enforce", "inform"]),
    st.booleans(),
)


@given(st.lists(REPLICAS, min_size=1, max_size=6), st.integers(0, 3))
def test_whatever_comes_nothing_is_enforced_or_deleted_while_held(replicas: list[PolicyDocument], steps: int) -> None:
    here = Cluster(replicas[0])
    for replica in replicas:
        here.receive(replica)
        held = HELD in replica.metadata.annotations
        for each in here.plan().writes[: steps or None]:  # a crash may come between any two of them
            for write in each.writes:
                if held:
                    assert not isinstance(write, Delete)
                    enforced = isinstance(write, Create) and write.body["spec"]["remediationAction"] != "inform"
                    assert not enforced
                before = {key: child for key, child in here.children.items() if child.enforced}
                here.apply(write)
                if held:
                    for key in before:
                        after = here.children[key]
                        assert after.enforced or after.annotations.get(ENFORCED_BEFORE) == "true"
        if steps == 0 and held:
            here.sync()
            assert not any(child.enforced for child in here.children.values())


@given(st.lists(REPLICAS, min_size=1, max_size=4))
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(replicas: list[PolicyDocument]) -> None:
    here = Cluster(replicas[0])
    for replica in replicas:
        here.receive(replica)
        assert here.sync().writes == ()
