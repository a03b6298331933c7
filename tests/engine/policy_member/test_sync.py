"""From a policy on a cluster to the objects of its templates."""

from dataclasses import replace
from typing import Any

import pytest

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.kinds import Kind
from echelon.engine.plan import Create, Delete, Patch
from echelon.engine.policy_member.children import kept_of
from echelon.engine.policy_member.dependencies import DependencyKey
from echelon.engine.policy_member.documents import Child, ChildKey
from echelon.engine.policy_member.sync import TemplateView, UnusableKind, sync_templates
from tests.engine.policy_member.world import CLUSTER, NAME, PARENT, RETRIED, Cluster, policy, template

API = CONFIGURATION_POLICY.api_version
OTHER = DependencyKey(API, "ConfigurationPolicy", "", "other")


def waits(compliance: str = "Compliant", name: str = "other", **more: Any) -> JSONObject:
    return {"apiVersion": API, "kind": "ConfigurationPolicy", "name": name, "compliance": compliance, **more}


def messages(here: Cluster) -> list[str]:
    return [each.message for each in here.plan().states]


def synced(*templates: JSONObject, **more: Any) -> Cluster:
    here = Cluster(policy(*templates, **more))
    done = here.sync()
    assert not done.writes
    return here


def changed(here: Cluster, *templates: JSONObject, **more: Any) -> Cluster:
    here.receive(policy(*templates, **more))
    return here


def test_a_template_is_made_updated_and_deleted() -> None:
    here = synced(template("a"), template("b"))
    assert here.names == ["a", "b"]
    assert all(each.synced for each in here.plan().states)
    changed(here, template("a", "2")).sync()
    assert here.names == ["a"]
    assert here.child("a").spec["object-templates"][0]["objectDefinition"]["data"] == {"value": "2"}


def test_a_renamed_template_has_a_new_object_and_the_old_one_goes() -> None:
    here = synced(template("a"))
    changed(here, template("b")).sync()
    assert here.names == ["b"]


def test_defaults_of_a_server_are_no_difference() -> None:
    here = synced(template(), action="")
    bare = here.child()
    spec = {key: value for key, value in bare.spec.items() if key not in ("pruneObjectBehavior", "remediationAction")}
    here.put({}, bare.kind, {**bare.document, "spec": spec})
    assert here.plan().writes == ()


def test_what_others_put_on_an_object_stays_and_what_was_edited_is_put_back() -> None:
    here = synced(template())
    child = here.child()
    labels = {key: value for key, value in child.labels.items() if key != "cluster-name"} | {"mine": "1"}
    edited = {**child.metadata, "labels": labels, "annotations": {"note": "x"}}
    here.put({}, child.kind, {**child.document, "metadata": edited, "spec": {**child.spec, "severity": "low"}})
    here.sync()
    assert (here.child().labels["cluster-name"], here.child().labels["mine"]) == (CLUSTER, "1")
    assert here.child().annotations == {"note": "x"}
    assert "severity" not in here.child().spec


OWNER = {"apiVersion": API, "kind": "Policy", "uid": "u1", "name": NAME, "controller": True}


@pytest.mark.parametrize(
    ("owners", "label", "said"),
    [
        ([OWNER], NAME, ""),
        ([OWNER], "", ""),
        ([{**OWNER, "uid": "of a predecessor"}], NAME, ""),
        ([], NAME, ""),  # lost, and restored
        ([{**OWNER, "apiVersion": "v1", "kind": "Thing", "controller": False, "uid": "t"}], NAME, ""),
        ([{**OWNER, "name": "policies.db", "uid": "u9"}], NAME, "in policy policies.db"),
        ([], "policies.db", "in policy policies.db"),
        ([], "", "outside of a Policy"),
        ([{**OWNER, "apiVersion": "apps/v1", "kind": "Deployment", "uid": "d"}], NAME, "outside of a Policy"),
    ],
)
def test_whose_an_object_is(owners: list[JSONObject], label: str, said: str) -> None:
    here = synced(template())
    child = here.child()
    meta = {**child.metadata, "ownerReferences": owners, "labels": {PARENT: label} if label else {}}
    here.put({}, child.kind, {**child.document, "metadata": meta})
    before = here.child()
    done = here.sync()
    if said:
        unique = "Template name must be unique. Policy template with kind: ConfigurationPolicy name: web already exists"
        assert [each.message for each in done.states] == [f"NonCompliant; template-error; {unique} {said}"]
        assert here.child() == before
    else:
        assert done.states[0].synced
        assert here.child().has_owner(here.policy)
        assert [each for each in owners if each["kind"] == "Thing"] == here.child().other_owners


def test_one_wrong_template_does_not_stop_the_others() -> None:
    here = synced(template("a"), {"objectDefinition": {}}, template("c", "{{ x }}"), template("d"))
    assert here.names == ["a", "d"]
    assert [bool(each.message) for each in here.plan().states] == [False, True, True, False]


def test_objects_that_may_be_those_of_an_unreadable_template_are_kept() -> None:
    here = synced(template("a"), template("b"))
    nameless = template("b")
    del nameless["objectDefinition"]["metadata"]["name"]
    changed(here, template("a"), nameless).sync()
    assert here.names == ["a", "b"]
    changed(here, template("a"), template("a")).sync()
    assert here.names == ["a", "b"]
    changed(here, template("a")).sync()
    assert here.names == ["a"]


def test_a_kind_that_is_missing_or_no_template_is_told() -> None:
    thing = {"objectDefinition": {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}}}
    here = Cluster(policy(thing))
    assert messages(here) == [""]  # nobody knows yet
    assert not here.plan().states[0].synced
    here.kinds["x.io/v1", "Thing"] = UnusableKind("policy-template kind is not supported: x.io/v1, Kind=Thing")
    expected = "NonCompliant; template-error; policy-template kind is not supported: x.io/v1, Kind=Thing"
    assert messages(here) == [expected]


def test_what_the_cluster_refuses_is_told_and_not_asked_for_again_in_the_same_breath() -> None:
    here = Cluster(policy(template()))
    here.refused["web"] = "Failed to create policy template: unknown field"
    assert messages(here) == ["NonCompliant; template-error; Failed to create policy template: unknown field"]
    assert here.plan().writes == ()


def test_what_the_cluster_makes_of_an_object_is_asked_for_once() -> None:
    here = Cluster(policy(template()))
    (wanted,) = here.plan().writes
    here.sync()
    child = here.child()
    here.put({}, child.kind, {**child.document, "spec": {**child.spec, "filledIn": True}})
    assert wanted.wanted is not None
    kept = kept_of(wanted.wanted, here.child())
    assert kept is not None
    view = TemplateView(here.policy, here.children, here.kinds)
    assert sync_templates(view).writes
    assert not sync_templates(replace(view, kept={here.child().key: kept})).writes
    assert kept_of(wanted.wanted, child) is None


def test_a_template_waits_for_its_dependencies_and_its_object_goes_when_they_turn_bad() -> None:
    here = Cluster(policy(template(), dependencies=[waits()]))
    here.sync()
    pending = "Dependencies were not satisfied: 1 is still pending (ConfigurationPolicy other)"
    assert (here.names, messages(here)) == ([], [f"Pending; {pending}"])
    here.compliance[OTHER] = "NonCompliant"
    assert messages(here) == [f"Pending; {pending}"]
    here.compliance[OTHER] = "Compliant"
    here.sync()
    assert (here.names, messages(here)) == (["web"], [""])
    here.compliance[OTHER] = "Pending"
    here.sync()
    assert (here.names, messages(here)) == ([], [f"Pending; {pending}"])


def test_every_unmet_dependency_is_named_once() -> None:
    listed = template(extraDependencies=[waits(name="third"), waits()])
    here = Cluster(policy(listed, template("free"), dependencies=[waits()]))
    first, second = messages(here)
    names = "ConfigurationPolicy other, ConfigurationPolicy third"
    assert first == f"Pending; Dependencies were not satisfied: 2 are still pending ({names})"
    assert second.endswith("1 is still pending (ConfigurationPolicy other)")


def test_a_wait_can_be_ignored() -> None:
    here = Cluster(policy(template(ignorePending=True), dependencies=[waits()]))
    (said,) = messages(here)
    assert said.startswith("Compliant; Dependencies were not satisfied")
    assert said.endswith(" but ignorePending is true")
    here.sync()
    assert here.names == []


def test_one_object_cannot_be_in_two_states() -> None:
    here = Cluster(policy(template(extraDependencies=[waits("NonCompliant")]), dependencies=[waits()]))
    text = "Dependency on ConfigurationPolicy other is asked to be both Compliant and NonCompliant"
    assert messages(here) == [f"NonCompliant; template-error; {text}"]


def test_objects_of_our_group_are_looked_for_in_the_cluster_namespace_and_others_where_they_are() -> None:
    elsewhere = waits(kind="Policy", name="ns.db", namespace="ignored")
    foreign = {**waits(name="t"), "apiVersion": "x.io/v1", "kind": "Thing", "namespace": "there"}
    here = Cluster(policy(template(extraDependencies=[elsewhere, foreign])))
    here.compliance = {
        DependencyKey(API, "Policy", "", "ns.db"): "Compliant",
        DependencyKey("x.io/v1", "Thing", "there", "t"): "Compliant",
    }
    assert messages(here) == [""]


def test_an_object_whose_template_the_hub_could_not_fill_in_goes_and_prunes_nothing() -> None:
    here = synced(template())
    child = here.child()
    here.put({}, child.kind, {**child.document, "spec": {**child.spec, "pruneObjectBehavior": "DeleteAll"}})
    wrong = template()
    notes = {"policy.open-cluster-management.io/hub-templates-error": "oh no"}
    wrong["objectDefinition"]["metadata"]["annotations"] = notes
    changed(here, wrong)
    ((first, second),) = [each.writes for each in here.plan().writes]
    assert isinstance(first, Patch)
    assert first.body == {"spec": {"pruneObjectBehavior": "None"}}
    assert isinstance(second, Delete)
    here.sync()
    assert (here.names, messages(here)) == ([], ["NonCompliant; template-error; oh no"])


def test_a_template_with_something_to_fill_in_leaves_its_object_as_it_was() -> None:
    here = synced(template())
    before = here.child()
    changed(here, template(value="{{ x }}")).sync()
    assert here.child() == before


def test_an_object_that_goes_is_waited_for() -> None:
    here = synced(template())
    here.finalizer = True
    here.apply(Delete(CONFIGURATION_POLICY, "web", CLUSTER, here.child().metadata["uid"]))
    assert here.plan().writes == ()
    (state,) = here.plan().states
    assert not state.synced
    here.children.clear()
    ((write,),) = [each.writes for each in here.plan().writes]
    assert isinstance(write, Create)


def test_an_object_reports_anew_when_the_trouble_of_its_template_is_over() -> None:
    here = synced(template())
    here.report("Compliant", history=[{"message": "Compliant; fine"}])
    here.tell("NonCompliant; template-error; something")
    ((write,),) = [each.writes for each in here.plan().writes]
    assert isinstance(write, Patch)
    assert (write.body, write.subresource) == ({"status": {"compliant": None}}, "status")
    assert not here.plan().states[0].synced
    here.apply(write)
    assert here.plan().writes == ()
    # What the object says itself is no such trouble, whatever it sounds like.
    again = {"message": "NonCompliant; template-error; something", "lastTimestamp": "2026-01-01T00:00:00Z"}
    here.report("NonCompliant", history=[again])
    assert here.plan().writes == ()
    assert here.plan().states[0].synced


def test_a_retry_is_handed_on_after_the_verdict_that_it_is_not_about_was_taken_back() -> None:
    here = synced(template())
    here.report("NonCompliant")
    changed(here, template(), annotations={RETRIED: "now"}).sync(1)
    assert (here.child().compliant, here.child().annotations) == ("", {})
    assert not here.plan().states[0].synced
    here.sync()
    assert here.child().annotations == {RETRIED: "now"}
    assert here.plan().states[0].synced
    here.report("NonCompliant")
    assert here.plan().writes == ()
    assert here.child().generation == 1
    changed(here, template()).sync()
    assert here.child().annotations == {}


def test_a_retry_takes_back_no_success_for_others_may_wait_for_that() -> None:
    here = synced(template())
    here.report("Compliant")
    changed(here, template(), annotations={RETRIED: "now"}).sync()
    assert (here.child().compliant, here.child().annotations) == ("Compliant", {RETRIED: "now"})
    assert synced(template(), annotations={RETRIED: "now"}).child().annotations == {RETRIED: "now"}


THING: Kind[Any] = Kind("x.io", "v1", "ThingPolicy", "thingpolicies", dict[str, Any], status=True)


def test_a_kind_that_tells_no_generation_has_its_latest_report_noted_with_each_change() -> None:
    def listed(value: int) -> JSONObject:
        meta = {"name": "t"}
        return {
            "objectDefinition": {"apiVersion": "x.io/v1", "kind": "ThingPolicy", "metadata": meta, "spec": {"v": value}}
        }

    here = Cluster(policy(listed(1)), kinds={("x.io/v1", "ThingPolicy"): THING})
    here.sync()
    here.tell("Compliant; fine", "t")
    assert here.plan().writes == ()
    changed(here, listed(2)).sync()
    child: Child = here.children[ChildKey("x.io", "ThingPolicy", "t")]
    assert child.annotations == {"echelon.dev/report-before-change": "policies.web.1"}
    assert child.spec == {"v": 2, "remediationAction": "enforce"}
