"""Policies come to a cluster, are kept as the hub says, and go again."""

from typing import Any

import pytest

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.crd import crd
from echelon.api.events import EVENT
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import GROUP, POLICY
from echelon.kube.errors import Forbidden, Unavailable
from tests.agent.policy.world import LABELS, NAME, Looker, PolicyWorld, template, told
from tests.agent.world import CLUSTER, Way


def test_a_replica_is_copied_and_its_templates_become_objects_of_the_policy() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        copy, replica, child = await here.copy(), await here.replica(), await here.child()
        assert copy["spec"] == replica["spec"]
        assert (copy["metadata"]["labels"], copy["metadata"].get("annotations")) == (
            replica["metadata"]["labels"],
            replica["metadata"].get("annotations"),
        )
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (copy["metadata"]["uid"], True)
        assert child["spec"]["remediationAction"] == "enforce"
        assert await here.here.member.has(NAMESPACE, CLUSTER)
        defined = await here.here.member.get(CUSTOM_RESOURCE_DEFINITION, CONFIGURATION_POLICY.resource)
        assert defined["metadata"]["labels"][f"{GROUP}/policy-type"] == "template"

    told(story)


def test_changes_of_a_replica_follow() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template("a"), template("b"))
        await here.write(template("a", "2"), template("c"), action="inform", annotations={"note": "x"})
        assert await here.children() == ["a", "c"]
        child = await here.child("a")
        assert child["spec"]["remediationAction"] == "inform"
        assert child["spec"]["object-templates"][0]["objectDefinition"]["data"] == {"value": "2"}
        await here.here.hub.patch(POLICY, NAME, {"metadata": {"labels": {"team": "web"}}}, CLUSTER)
        await here.settle()
        meta = (await here.copy())["metadata"]
        assert (meta["labels"]["team"], meta["annotations"]) == ("web", {"note": "x"})

    told(story)


@pytest.mark.parametrize(
    "edit",
    [
        {"spec": {"remediationAction": "inform"}},
        {"spec": {"policy-templates": []}},
        {"metadata": {"labels": {f"{GROUP}/root-policy": None, "mine": "1"}}},
        {"metadata": {"annotations": {"echelon.dev/held": "true"}}},
    ],
)
def test_a_copy_that_is_edited_is_put_back(edit: JSONObject) -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        before = await here.copy()
        await here.here.member.patch(POLICY, NAME, edit, CLUSTER)
        await here.settle()
        after = await here.copy()
        assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
        assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
        assert (await here.child())["spec"]["remediationAction"] == "enforce"

    told(story)


def test_a_copy_and_an_object_that_are_deleted_are_made_anew() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        first = await here.copy()
        await here.here.member.delete(CONFIGURATION_POLICY, "web", CLUSTER)
        await here.settle()
        assert await here.children() == ["web"]
        await here.here.member.delete(POLICY, NAME, CLUSTER)
        await here.settle(30)
        copy, child = await here.copy(), await here.child()
        assert copy["metadata"]["uid"] != first["metadata"]["uid"]
        assert child["metadata"]["ownerReferences"][0]["uid"] == copy["metadata"]["uid"]

    told(story)


def test_the_cluster_namespace_comes_back_with_everything_in_it() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        await here.here.member.delete(NAMESPACE, CLUSTER)
        await here.settle(90)
        assert await here.children() == ["web"]

    told(story)


@pytest.mark.parametrize("kind", [POLICY, CONFIGURATION_POLICY])
def test_definitions_that_somebody_deletes_are_made_anew(kind: Kind[Any]) -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        before = await here.here.member.get(CUSTOM_RESOURCE_DEFINITION, kind.resource)
        await here.here.member.delete(CUSTOM_RESOURCE_DEFINITION, kind.resource)
        await here.settle(300)
        after = await here.here.member.get(CUSTOM_RESOURCE_DEFINITION, kind.resource)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"] == before["spec"]
        assert await here.children() == ["web"]
        assert (await here.status())["compliant"] == "Compliant"

    told(story)


def test_a_replica_that_is_gone_takes_objects_first_and_then_its_copy() -> None:
    looker = Looker()

    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        mark = len(here.here.member.commits)
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        await here.settle(30)
        assert await here.children() == []
        assert not await here.here.member.has(POLICY, NAME, CLUSTER)
        assert looker.pruned == ["web"]
        gone = [each for each in here.here.member.commits[mark:] if each.startswith("DELETED")]
        assert [each.split()[2] for each in gone] == ["web", NAME]

    told(story, looker=looker)


def test_what_went_while_the_agent_was_away_is_removed_when_it_is_back() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        await here.here.stop()
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        here.start()
        await here.settle(30)
        assert await here.children() == []
        assert not await here.here.member.has(POLICY, NAME, CLUSTER)

    told(story)


def test_while_the_hub_is_out_of_reach_nothing_is_deleted_and_edits_are_put_back() -> None:
    async def story(here: PolicyWorld) -> None:
        way = Way(here.here.hub)
        here.start(hub=way)
        await here.write(template())
        way.reach.set(offline=True)
        await here.here.member.patch(POLICY, NAME, {"spec": {"policy-templates": []}}, CLUSTER)
        await here.settle(600)
        assert await here.children() == ["web"]
        assert len((await here.copy())["spec"]["policy-templates"]) == 1
        await here.here.hub.patch(POLICY, NAME, {"spec": {"remediationAction": "inform"}}, CLUSTER)
        way.reach.set(offline=False)
        await here.settle(90)
        assert (await here.child())["spec"]["remediationAction"] == "inform"

    told(story, started=False)


def test_a_hub_that_serves_no_policies_any_more_has_deleted_none() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        hub = here.here.hub
        # In one step: what is deleted while policies are served is deleted.
        await hub.delete(POLICY, NAME, CLUSTER)
        hub.cluster.catalogue.withdraw(POLICY.resource)
        await here.settle(600)
        assert await here.children() == ["web"]

    told(story)


def test_an_agent_that_loses_its_rights_with_its_replicas_believes_that_they_are_gone() -> None:
    async def story(here: PolicyWorld) -> None:
        way = Way(here.here.hub)
        here.start(hub=way)
        await here.write(template())
        way.refuse("", POLICY.plural, Forbidden("no cluster of this fleet"))
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        await here.settle(30)
        assert await here.children() == []
        assert not await here.here.member.has(POLICY, NAME, CLUSTER)
        way.relent()

    told(story, started=False)


def test_an_agent_that_loses_its_rights_and_heard_of_no_end_removes_nothing() -> None:
    async def story(here: PolicyWorld) -> None:
        way = Way(here.here.hub)
        here.start(hub=way)
        await here.write(template())
        way.reach.set(offline=True)
        await here.settle()
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        way.refuse("", POLICY.plural, Forbidden("no cluster of this fleet"))
        way.reach.set(offline=False)
        await here.settle(600)
        assert await here.children() == ["web"]
        way.relent()
        await here.settle(600)
        assert await here.children() == []

    told(story, started=False)


def test_policies_that_are_no_replicas_are_nobodys_business() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        spec = {"disabled": False, "remediationAction": "inform", "policy-templates": []}
        own = {**POLICY.type_meta, "metadata": {"name": "own", "namespace": CLUSTER}, "spec": spec}
        await here.here.member.create(own)
        await here.here.hub.create({**own, "metadata": {"name": "root", "namespace": CLUSTER}})
        labels = {**LABELS, f"{GROUP}/root-policy": "another.name"}
        odd = {"name": "policies.odd", "namespace": CLUSTER, "labels": labels}
        await here.here.hub.create({**own, "metadata": odd})
        await here.settle()
        found = await here.here.member.client.list(POLICY, CLUSTER)
        assert sorted(each.metadata.name for each in found.items) == ["own", NAME]

    told(story)


def test_what_the_cluster_does_not_take_is_told_by_an_event() -> None:
    async def story(here: PolicyWorld) -> None:
        here.here.way.refuse("create", NAME, Forbidden("no policies here"))
        await here.write(template())
        notes = await notes_on(here)
        assert any("The cluster does not take the policy: no policies here" in each for each in notes)
        here.here.way.relent()
        await here.settle(120)
        assert await here.children() == ["web"]

    told(story)


async def notes_on(here: PolicyWorld) -> list[str]:
    found = await here.here.hub.client.list(EVENT.untyped(), CLUSTER)
    return [str(each.get("note", "")) for each in found.items]


def test_trouble_of_servers_is_waited_for() -> None:
    async def story(here: PolicyWorld) -> None:
        here.here.way.refuse("create", "web", Unavailable("restarts"), times=4)
        await here.write(template(), said="Progressing")
        await here.settle(60)
        assert (await here.status())["rolloutStatus"] == "Succeeded"
        assert not any("template-error" in each for each in await here.messages())

    told(story)


def pruning(*fields: str) -> JSONObject:
    """Return a definition of policies as others have it, without some fields of the status."""
    definition = crd(POLICY)
    properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for field in fields:
        del properties["status"]["properties"][field]
    del properties["spec"]["properties"]["rolloutStrategy"]
    return definition


OURS = ("rolloutStatus", "rolloutLastTransitionTime", "observedGeneration", "conditions", "rollout")


@pytest.mark.parametrize("side", ["hub", "member"])
def test_definitions_of_others_that_prune_lead_to_no_second_write(side: str) -> None:
    async def story(here: PolicyWorld) -> None:
        server: Any = getattr(here.here, side)
        definition = pruning(*OURS)
        if side == "hub":
            await server.client.delete(CUSTOM_RESOURCE_DEFINITION, POLICY.resource)
            await here.settle(2)
        await server.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition)
        hub, member = Way(here.here.hub), here.here.way
        here.start(hub=hub)
        await here.write(template(), held=True, rolloutStrategy={"type": "Progressive"}, said="ToApply")
        await here.write(template(), rolloutStrategy={"type": "Progressive"}, said="Progressing")
        status = await here.status()
        assert status["compliant"] == "Compliant"
        assert status.get("rolloutStatus") == (None if side == "hub" else "Succeeded")
        marks = len(hub.requests), len(member.requests)
        await here.touch_children()
        later = [*hub.requests[marks[0] :], *member.requests[marks[1] :]]
        assert not [each for each in later if each[0] == "patch" and each[1] in ("policies", "configurationpolicies")]

    told(story, started=False)
