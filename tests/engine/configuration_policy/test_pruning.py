"""Which objects go with a policy or with their place in it, and which never do."""

from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.core import CONFIG_MAP
from echelon.engine.configuration_policy import pruning
from echelon.engine.configuration_policy.evaluate import evaluate
from echelon.engine.configuration_policy.names import FINALIZER, LEDGER_ANNOTATION
from echelon.engine.configuration_policy.requests import Cause, Do, IsGone, Refusal, Request
from echelon.engine.configuration_policy.schedule import Circumstances, next_evaluation
from echelon.engine.plan import Create, Delete, Patch
from tests.engine.configuration_policy.toy_cluster import (
    MANAGER,
    WIDGET,
    Story,
    ToyCluster,
    config_map,
    story,
    template,
)

CREATED, ALL = "DeleteIfCreated", "DeleteAll"


def pruning_story(*names: str, behaviour: str = CREATED, **spec: Any) -> Story:
    return story(*maps(*names), pruneObjectBehavior=behaviour, **spec)


def maps(*names: str) -> list[JSONObject]:
    return [template(config_map(name)) for name in names]


def left(told: Story) -> list[str]:
    return sorted(name for plural, _, name in told.cluster.objects if plural == "configmaps")


def relist(told: Story, *names: str, **spec: Any) -> None:
    told.change(**{"object-templates": maps(*names), **spec})


def deletions(told: Story) -> list[str]:
    return [each for each in told.cluster.writes if each.startswith("Delete")]


def settle(told: Story) -> None:
    """Evaluate until nothing is written any more."""
    for _ in range(5):
        told.evaluate()
        if not told.cluster.writes and next_evaluation(told.policy, Circumstances(), told.now) is None:
            return
    raise AssertionError(told.cluster.writes)


@pytest.mark.parametrize("behaviour", [CREATED, ALL])
def test_a_policy_that_prunes_has_a_finalizer_before_it_creates_anything(behaviour: str) -> None:
    told = pruning_story("x", behaviour=behaviour)
    told.evaluate()
    assert told.cluster.writes == ["Remember", "Create ConfigMap x"]
    assert told.policy.metadata.finalizers == [FINALIZER]


def test_a_policy_that_does_not_prune_has_none() -> None:
    told = pruning_story("x", behaviour="None")
    told.evaluate()
    assert told.cluster.writes == ["Create ConfigMap x"]
    relist(told, "y")
    told.evaluate()
    assert left(told) == ["x", "y"]


def test_a_policy_that_no_longer_prunes_loses_its_finalizer_and_what_it_remembers() -> None:
    told = pruning_story("x")
    settle(told)
    relist(told, "x", pruneObjectBehavior="None")
    told.evaluate()
    assert told.policy.metadata.finalizers == []
    assert LEDGER_ANNOTATION not in told.policy.metadata.annotations


@pytest.mark.parametrize("behaviour", [CREATED, ALL])
def test_an_object_that_leaves_an_enforced_policy_goes(behaviour: str) -> None:
    told = pruning_story("x", "y", behaviour=behaviour)
    settle(told)
    relist(told, "y")
    told.evaluate()
    assert left(told) == ["y"]
    settle(told)
    assert deletions(told) == []


@pytest.mark.parametrize(("behaviour", "expected"), [(CREATED, ["theirs"]), (ALL, [])])
def test_what_the_policy_did_not_create_goes_only_if_everything_does(behaviour: str, expected: list[str]) -> None:
    told = pruning_story("theirs", "ours", behaviour=behaviour)
    told.cluster.put(CONFIG_MAP, "theirs")
    settle(told)
    assert told.end().left == ()
    assert left(told) == expected
    assert told.policy.metadata.finalizers == []


def test_an_object_that_somebody_made_anew_is_not_the_one_that_was_created() -> None:
    told = pruning_story("x")
    settle(told)
    told.cluster.drop(CONFIG_MAP, "x")
    told.cluster.put(CONFIG_MAP, "x")
    told.evaluate()
    told.end()
    assert left(told) == ["x"]


def test_an_informing_policy_prunes_nothing() -> None:
    told = pruning_story("x", behaviour=ALL, remediationAction="inform")
    told.cluster.put(CONFIG_MAP, "x")
    told.evaluate()
    relist(told, "y")
    told.evaluate()
    told.end()
    assert left(told) == ["x"]


@pytest.mark.parametrize("behaviour", [CREATED, ALL])
@pytest.mark.parametrize("held", [True, False])
def test_what_leaves_while_a_policy_informs_goes_when_it_enforces_again(behaviour: str, held: bool) -> None:
    told = pruning_story("x", "y", behaviour=behaviour)
    settle(told)
    relist(told, "y", remediationAction="inform")
    if held:
        told.annotate(held="true", enforced_before="true")
    settle(told)
    relist(told, "y", "z")
    settle(told)
    assert left(told) == ["x", "y"], "nothing changes on a cluster that waits"
    assert told.pending == [("Create", "ConfigMap", "z"), ("Delete", "ConfigMap", "x")]
    told.change(remediationAction="enforce")
    told.annotate(held="")
    told.evaluate()
    assert left(told) == ["y", "z"]


@pytest.mark.parametrize("behaviour", [CREATED, ALL])
def test_what_leaves_while_a_policy_is_held_goes_at_its_end_if_it_was_enforced_before(behaviour: str) -> None:
    told = pruning_story("x", "y", behaviour=behaviour)
    settle(told)
    told.annotate(held="true", enforced_before="true")
    relist(told, "y", remediationAction="inform")
    settle(told)
    assert told.end().left == ()
    assert left(told) == []


def test_the_end_of_a_policy_that_was_only_ever_held_prunes_nothing() -> None:
    told = pruning_story("x", behaviour=ALL, remediationAction="inform")
    told.annotate(held="true")
    told.cluster.put(CONFIG_MAP, "x")
    settle(told)
    assert told.end().left == ()
    assert left(told) == ["x"]


def test_the_end_of_a_policy_that_was_enforced_once_and_informs_by_choice_prunes_nothing() -> None:
    told = pruning_story("x")
    settle(told)
    relist(told, "x", remediationAction="inform")
    settle(told)
    told.end()
    assert left(told) == ["x"]


def test_what_was_only_looked_at_is_never_pruned() -> None:
    """A held revision that names a wrong object, and is corrected before it is released, must not cost that object."""
    told = pruning_story("ours", behaviour=ALL)
    told.cluster.put(CONFIG_MAP, "theirs")
    settle(told)
    told.annotate(held="true", enforced_before="true")
    relist(told, "ours", "theirs", remediationAction="inform")
    settle(told)
    relist(told, "ours")
    settle(told)
    told.annotate(held="")
    relist(told, "ours", remediationAction="enforce")
    settle(told)
    assert left(told) == ["ours", "theirs"]
    told.end()
    assert left(told) == ["theirs"]


def test_what_comes_back_into_the_list_stays() -> None:
    told = pruning_story("x", "y")
    settle(told)
    told.annotate(held="true", enforced_before="true")
    relist(told, "y", remediationAction="inform")
    settle(told)
    relist(told, "x", "y", remediationAction="enforce")
    told.annotate(held="")
    settle(told)
    assert left(told) == ["x", "y"]
    told.end()
    assert left(told) == [], "and it is still known who created it"


def test_nothing_is_pruned_while_a_template_is_not_understood() -> None:
    told = pruning_story("x", "y")
    settle(told)
    told.change(**{"object-templates": [template(config_map("y", data={"a": "{{ x }}"}))]})
    settle(told)
    assert left(told) == ["x", "y"]
    relist(told, "y")
    settle(told)
    assert left(told) == ["y"]


def test_nothing_is_pruned_because_no_namespace_is_selected_any_more() -> None:
    told = story(
        template(config_map(namespace=None)),
        namespaceSelector={"matchLabels": {"team": "a"}},
        pruneObjectBehavior=CREATED,
    )
    told.cluster.namespace("one", team="a")
    settle(told)
    told.cluster.namespace("one")
    settle(told)
    assert left(told) == ["x"]
    told.cluster.namespace("two", team="a")
    settle(told)
    assert sorted(told.cluster.objects) == [
        ("configmaps", "two", "x"),
        ("namespaces", "", "default"),
        ("namespaces", "", "one"),
        ("namespaces", "", "two"),
    ]


def test_an_object_that_loses_its_label_was_let_go_and_stays() -> None:
    selected = template(config_map(None, data={"a": "1"}), objectSelector={"matchLabels": {"app": "web"}})
    told = story(selected, pruneObjectBehavior=ALL)
    told.cluster.put(CONFIG_MAP, "x", metadata={"labels": {"app": "web"}})
    settle(told)
    told.live(CONFIG_MAP, "x")["metadata"]["labels"] = {}
    settle(told)
    assert left(told) == ["x"]


def test_an_unwanted_object_is_not_the_policys_to_prune() -> None:
    told = story(template(config_map("x"), "mustnothave"), pruneObjectBehavior=ALL)
    settle(told)
    relist(told, "y")
    told.cluster.put(CONFIG_MAP, "x")
    settle(told)
    assert left(told) == ["x", "y"]


def test_what_a_search_came_across_is_not_the_policys_to_prune() -> None:
    told = story(template(config_map(None, data={"a": "1"})), template(config_map("y")), pruneObjectBehavior=ALL)
    told.cluster.put(CONFIG_MAP, "x", data={"a": "1"})
    settle(told)
    relist(told, "y")
    settle(told)
    assert left(told) == ["x", "y"]


def test_a_kind_that_is_gone_has_no_objects() -> None:
    widget = {**WIDGET.type_meta, "metadata": {"name": "w", "namespace": "default"}}
    told = story(template(widget), pruneObjectBehavior=ALL)
    settle(told)
    told.cluster.kinds = [each for each in told.cluster.kinds if each is not WIDGET]
    assert told.end().left == ()


def test_a_policy_waits_for_objects_that_do_not_go() -> None:
    told = pruning_story("x")
    settle(told)
    told.cluster.stuck.add("x")
    assert told.end().left == ("configmaps [x] in namespace default waits for its finalizers",)
    assert told.policy.metadata.finalizers == [FINALIZER]
    assert deletions(told) == ["Delete ConfigMap x"]
    told.end()
    assert deletions(told) == [], "it was asked to go already"
    told.cluster.drop(CONFIG_MAP, "x")
    assert told.end().left == ()


def test_what_may_not_be_deleted_is_told_and_tried_again() -> None:
    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Do) and isinstance(request.write, Delete):
            return Refusal(Cause.REFUSED, "no right to delete")
        return None

    told = pruning_story("x", "y")
    settle(told)
    relist(told, "y")
    told.cluster.refuse = refuse
    for _ in range(2):
        conclusion = told.evaluate()
        assert told.state == "NonCompliant"
        assert told.reasons[-1] == "Error cleaning up child objects"
        assert "no right to delete" in told.messages[-1]
    assert conclusion.reports == (), "said once"
    assert told.end().left == (
        "configmaps [x] in namespace default: no right to delete",
        "configmaps [y] in namespace default: no right to delete",
    )
    told.cluster.refuse = lambda _: None
    settle(told)
    assert left(told) == ["y"]
    assert told.state == "Compliant"


def test_a_server_that_shows_the_past_does_not_make_us_forget_what_is_there() -> None:
    told = pruning_story("x", "y")
    settle(told)
    relist(told, "y")

    hidden = told.cluster.objects.pop(("configmaps", "default", "x"))

    def blind(request: Request) -> Refusal | None:
        # Only an attempt to write finds out.
        return Refusal(Cause.TROUBLE, "it is there") if isinstance(request, IsGone) else None

    told.cluster.refuse = blind
    told.evaluate()
    assert told.end().left != ()
    told.cluster.objects["configmaps", "default", "x"] = hidden
    told.cluster.refuse = lambda _: None
    settle(told)
    assert left(told) == ["y"]


class Died(Exception):
    """The agent ends between a write and the status."""


def die_after_creating(told: Story) -> None:
    """Let the agent create what is missing, and end before it can tell so."""
    before = told.policy

    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Do) and isinstance(request.write, Create):
            told.cluster._answer(request)
            raise Died
        return None

    told.cluster.refuse = refuse
    with pytest.raises(Died):
        told.evaluate()
    told._remember()
    assert told.policy.status == before.status
    told.cluster.refuse = lambda _: None


def test_an_agent_that_dies_after_a_creation_still_knows_whose_object_it_is() -> None:
    told = pruning_story("x")
    told.cluster.put(CONFIG_MAP, "y")
    die_after_creating(told)
    settle(told)
    ledger = pruning.read_ledger(told.policy)
    assert ledger is not None
    assert ledger.objects == (), "the status knows it by now"
    told.end()
    assert left(told) == ["y"]


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_read_of_the_past_does_not_settle_which_object_was_created(known: bool, held: bool) -> None:
    """Under one intent two were made, for people deleted the first; it is the second that has to go."""
    told = pruning_story("x")
    if known:
        settle(told)
        told.cluster.drop(CONFIG_MAP, "x")
    place = ("configmaps", "default", "x")
    die_after_creating(told)
    first = told.cluster.objects.pop(place)
    die_after_creating(told)
    told.cluster.past[place] = first
    if held:
        told.annotate(held="true", enforced_before="true")
        relist(told, "x", remediationAction="inform")
    told.evaluate()
    told.cluster.past.clear()
    if held:
        told.annotate(held="")
    relist(told, "y", remediationAction="enforce")
    settle(told)
    assert left(told) == ["y"]


def test_what_could_not_be_confirmed_is_asked_again_whatever_the_interval() -> None:
    told = pruning_story("x", evaluationInterval={"compliant": "never"})
    die_after_creating(told)
    away = Refusal(Cause.TROUBLE, "the server is away")
    told.cluster.refuse = lambda request: away if isinstance(request, IsGone) else None
    evaluation = told.cluster.carry_out(evaluate(told.policy, told.now, MANAGER))
    assert evaluation.failed
    told.evaluate()
    assert told.state == "Compliant"
    assert "will not be evaluated again" not in told.policy.status.history[0].message
    told.cluster.refuse = lambda _: None
    assert not told.cluster.carry_out(evaluate(told.policy, told.now, MANAGER)).failed
    settle(told)
    told.end()
    assert left(told) == []


@pytest.mark.parametrize("behaviour", [CREATED, ALL, "None"])
def test_what_goes_while_it_is_mended_is_made_anew_and_remembered_before(behaviour: str) -> None:
    told = story(template(config_map("x", data={"a": "1"})), pruneObjectBehavior=behaviour)
    settle(told)
    told.live(CONFIG_MAP, "x")["data"] = {"a": "2"}
    writes = list[str]()

    def meddle(request: Request) -> Refusal | None:
        if isinstance(request, Do) and isinstance(request.write, Patch):
            told.cluster.drop(CONFIG_MAP, "x")
        if isinstance(request, Do) and isinstance(request.write, Create):
            told.cluster._answer(request)
            writes.extend(told.cluster.writes)
            raise Died
        return None

    told.cluster.refuse = meddle
    with pytest.raises(Died):
        told.evaluate()
    remembered = [] if behaviour == "None" else ["Remember"]
    assert writes == ["Patch ConfigMap x", *remembered, "Create ConfigMap x"]
    told._remember()
    told.cluster.refuse = lambda _: None
    settle(told)
    told.end()
    assert left(told) == (["x"] if behaviour == "None" else [])


def test_an_object_that_another_made_while_we_were_about_to_is_not_ours() -> None:
    told = pruning_story("x")

    def refuse(request: Request) -> Refusal | None:
        if isinstance(request, Do) and isinstance(request.write, Create):
            told.cluster.put(CONFIG_MAP, "x")
        return None

    told.cluster.refuse = refuse
    settle(told)
    told.end()
    assert left(told) == ["x"]


def test_what_another_controller_enforced_before_us_is_known_from_the_status() -> None:
    told = pruning_story("x", "y", behaviour=ALL)
    settle(told)
    told.annotate(held="true", enforced_before="true")
    del told.policy.metadata.annotations[LEDGER_ANNOTATION]
    relist(told, "y", remediationAction="inform")
    settle(told)
    assert ("Delete", "ConfigMap", "x") in told.pending


def test_too_much_to_remember_is_told_and_what_was_created_is_remembered_first() -> None:
    names = [f"a-config-map-with-quite-a-long-name-{number}" for number in range(700)]
    told = pruning_story(*names, behaviour=ALL)
    told.cluster.put(CONFIG_MAP, "theirs")
    settle(told)
    relist(told, remediationAction="inform", **{"object-templates": maps("theirs")})
    told.evaluate()
    ledger = pruning.read_ledger(told.policy)
    assert ledger is not None
    assert len(told.policy.metadata.annotations[LEDGER_ANNOTATION]) <= pruning.MOST_BYTES
    assert ledger.dropped == len(names) - len(ledger.objects) > 0
    assert f"{ledger.dropped} objects will not be pruned" in told.policy.status.history[0].message


def test_a_ledger_that_somebody_edited_prunes_nothing_and_breaks_nothing() -> None:
    told = pruning_story("x", behaviour=ALL)
    settle(told)
    told.policy.metadata.annotations[LEDGER_ANNOTATION] = '{"objects": 7}'
    relist(told, "y", remediationAction="inform")
    settle(told)
    assert left(told) == ["x"]


def test_nothing_is_remembered_again_and_again() -> None:
    told = pruning_story("x", cluster=ToyCluster())
    settle(told)
    for _ in range(3):
        told.evaluate()
        assert told.cluster.writes == []
