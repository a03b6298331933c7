"""What the hub hears of a policy: compliance, histories, and what is wrong with templates."""

from typing import Any

from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP, EVENT
from echelon.api.crd import crd
from echelon.api.kinds import Kind
from echelon.api.policy import GROUP, POLICY
from echelon.fleet.loop import running
from tests.agent.policy.world import NAME, Looker, PolicyWorld, tell, template, told
from tests.agent.world import CLUSTER

ERROR = "NonCompliant; template-error; "


async def both(here: PolicyWorld, name: str = NAME) -> JSONObject:
    """Return the status of a replica, which is that of its copy."""
    hub, member = await here.status(name), (await here.copy(name)).get("status", {})
    assert hub == member
    return hub


def test_compliance_goes_to_the_hub_and_back_again() -> None:
    looker = Looker(verdicts={"web": "Compliant"})

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), action="inform")
        assert (await both(here))["compliant"] == "Compliant"
        for state in ("NonCompliant", "Compliant") * 7:
            looker.verdicts["web"] = state
            await here.touch_children()
            assert (await both(here))["compliant"] == state
        (detail,) = (await both(here))["details"]
        assert detail["templateMeta"] == {"name": "web"}
        times = [each["lastTimestamp"] for each in detail["history"]]
        assert len(times) == 10
        assert times == sorted(times, reverse=True)
        assert detail["history"][0]["message"] == "Compliant; looked"

    told(story, looker=looker)


def test_a_policy_says_nothing_before_all_of_its_templates_have() -> None:
    looker = Looker(verdicts={"a": "Compliant", "b": None})

    async def story(here: PolicyWorld) -> None:
        await here.write(template("a"), template("b"), action="inform")
        status = await both(here)
        assert "compliant" not in status
        assert [each.get("compliant") for each in status["details"]] == ["Compliant", None]
        assert status["observedGeneration"] == -1
        looker.verdicts["b"] = "NonCompliant"
        await here.touch_children()
        status = await both(here)
        assert (status["compliant"], status["observedGeneration"]) == ("NonCompliant", 1)
        await here.write(template("a"), action="inform")
        status = await both(here)
        assert (status["compliant"], len(status["details"]), status["observedGeneration"]) == ("Compliant", 1, 2)

    told(story, looker=looker, quiet=False)


def test_that_nobody_has_looked_yet_is_not_worth_a_report() -> None:
    looker = Looker(verdicts={"web": None})

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), held=True, said="ToApply")
        assert (await here.status()).keys() == {"rolloutStatus", "rolloutLastTransitionTime"}
        assert "status" not in await here.copy()
        looker.verdicts["web"] = "Compliant"
        await here.touch_children()
        assert (await both(here))["compliant"] == "Compliant"

    told(story, looker=looker)


def test_a_policy_without_templates_is_compliant() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write()
        assert (await both(here))["compliant"] == "Compliant"

    told(story)


def test_a_history_outlives_its_events_and_strange_events_are_not_part_of_it() -> None:
    looker = Looker(verdicts={"web": "Compliant"})

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), action="inform")
        member, before = here.here.member, await both(here)
        for each in (await member.client.list(EVENT, CLUSTER)).items:
            await member.delete(EVENT, each.metadata.name, CLUSTER)
        owner = {"name": NAME, "uid": "another"}
        await tell(member.client, owner, "web", "NonCompliant; of another policy", running().clock.now())
        await here.settle()
        assert await both(here) == before
        owner["uid"] = (await here.copy())["metadata"]["uid"]
        await tell(member.client, owner, "web", "NonCompliant; late", running().clock.now())
        await here.settle()
        assert (await here.messages())[0] == "NonCompliant; late"

    told(story, looker=looker)


def test_statuses_that_are_edited_are_put_right() -> None:
    looker = Looker(verdicts={"web": "Compliant"})

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), action="inform")
        before = await both(here)
        edit = {"status": {"compliant": "NonCompliant", "details": None}}
        await here.here.member.patch(POLICY, NAME, edit, CLUSTER, "status")
        await here.settle()
        assert await both(here) == before
        await here.here.hub.patch(POLICY, NAME, edit, CLUSTER, "status")
        await here.settle()
        assert await both(here) == before

    told(story, looker=looker)


def test_what_is_wrong_with_a_template_is_told_once_and_stops_no_other() -> None:
    async def story(here: PolicyWorld) -> None:
        wrong = template("wrong")
        wrong["objectDefinition"]["spec"]["nonsense"] = 1
        missing = {"objectDefinition": {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "missing"}}}
        config = {"objectDefinition": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}}}
        nameless = {"objectDefinition": {"apiVersion": "x.io/v1", "kind": "Thing"}}
        listed = [template("good"), wrong, missing, config, template("filled", "{{ x }}"), nameless]
        await here.write(*listed, said="Progressing")
        assert await here.children() == ["good"]
        said = {each["templateMeta"]["name"]: each["history"] for each in (await both(here))["details"]}
        assert {name: len(history) for name, history in said.items() if name != "good"} == dict.fromkeys(
            ("wrong", "missing", "config", "filled", "template-5"), 1
        )
        latest = {name: history[0]["message"].removeprefix(ERROR) for name, history in said.items()}
        assert latest["wrong"].startswith("Failed to create policy template: ")
        assert "nonsense" in latest["wrong"]
        assert latest["missing"].startswith("Mapping not found, check if you have the CRD deployed: ")
        assert latest["config"] == "policy-template kind is not supported: v1, Kind=ConfigMap"
        assert latest["filled"].endswith("templates are not filled in on this cluster")
        assert latest["template-5"] == "Failed to get name from policy template at index 5"
        assert (await both(here))["rolloutStatus"] == "Failed"
        mark = len(here.here.member.commits)
        await here.settle(600)
        assert here.here.member.commits[mark:] == []

    told(story)


def test_a_template_reports_anew_when_it_is_right_again() -> None:
    looker = Looker(verdicts={"web": "Compliant"})

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), action="inform")
        await here.write(template(value="{{ x }}"), action="inform")
        assert (await both(here))["compliant"] == "NonCompliant"
        await here.write(template(), action="inform")
        status = await both(here)
        assert (status["compliant"], len(status["details"][0]["history"])) == ("Compliant", 3)

    told(story, looker=looker)


def test_two_policies_cannot_have_the_same_object() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        await here.write(template(value="2"), name="policies.db")
        (said,) = await here.messages(name="policies.db")
        assert said.endswith(f"kind: ConfigurationPolicy name: web already exists in policy {NAME}")
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        await here.settle(30)
        child = await here.child()
        assert child["metadata"]["labels"][f"{GROUP}/policy"] == "policies.db"
        assert (await here.status("policies.db"))["compliant"] == "Compliant"

    told(story)


def test_a_policy_waits_for_another_and_loses_its_objects_when_that_turns_bad() -> None:
    looker = Looker(verdicts={"first": "NonCompliant", "second": "Compliant"})

    async def story(here: PolicyWorld) -> None:
        other = {"apiVersion": f"{GROUP}/v1", "kind": "Policy", "name": NAME, "compliance": "Compliant"}
        await here.write(template("first"), action="inform")
        await here.write(template("second"), name="policies.db", dependencies=[other], said="Progressing")
        pending = f"Pending; Dependencies were not satisfied: 1 is still pending (Policy {NAME})"
        assert await here.messages("second", "policies.db") == [pending]
        assert (await both(here, "policies.db"))["compliant"] == "Pending"
        assert (await both(here, "policies.db"))["rolloutStatus"] == "Progressing"
        looker.verdicts["first"] = "Compliant"
        await here.touch_children()
        assert (await both(here, "policies.db"))["rolloutStatus"] == "Succeeded"
        looker.verdicts["first"] = "NonCompliant"
        await here.touch_children()
        assert await here.children() == ["first"]
        assert (await both(here, "policies.db"))["compliant"] == "Pending"
        # A report that comes too late is put right.
        owner = {"name": "policies.db", "uid": (await here.copy("policies.db"))["metadata"]["uid"]}
        await tell(here.here.member.client, owner, "second", "Compliant; late", running().clock.now())
        await here.settle()
        assert (await here.messages("second", "policies.db"))[:2] == [pending, "Compliant; late"]

    told(story, looker=looker)


def test_a_template_waits_for_an_object_of_any_kind() -> None:
    async def story(here: PolicyWorld) -> None:
        found = {"apiVersion": "v1", "kind": "ConfigMap", "name": "ready", "namespace": "default"}
        unknown = {"apiVersion": "x.io/v1", "kind": "Thing", "name": "t"}
        waiting = template(
            extraDependencies=[{**found, "compliance": "Compliant"}, {**unknown, "compliance": "Pending"}]
        )
        await here.write(waiting)
        assert (await here.messages())[0].endswith("2 are still pending (ConfigMap ready, Thing t)")
        await here.here.member.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ready", "namespace": "default"}}
        )
        await here.write(template(extraDependencies=[{**found, "compliance": "Compliant"}]))
        assert await here.children() == []  # it has no such state
        assert await here.here.member.has(CONFIG_MAP, "ready")

    told(story)


OTHER: Kind[Any] = Kind(
    GROUP, "v1", "CertificatePolicy", "certificatepolicies", CONFIGURATION_POLICY.type, status=True,
    crd_labels=CONFIGURATION_POLICY.crd_labels,
)  # fmt: skip


def test_a_kind_of_others_can_be_a_template_as_soon_as_it_is_there() -> None:
    async def story(here: PolicyWorld) -> None:
        listed = template("cert")
        listed["objectDefinition"]["kind"] = "CertificatePolicy"
        await here.write(listed, said="Progressing")
        assert "Mapping not found" in (await here.messages("cert"))[0]
        member = here.here.member
        await member.client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), crd(OTHER))
        await here.settle(20)
        assert await member.has(OTHER, "cert", CLUSTER)
        uid = (await here.copy())["metadata"]["uid"]
        await tell(member.client, {"name": NAME, "uid": uid}, "cert", "Compliant; fine", running().clock.now())
        await member.patch(OTHER, "cert", {"status": {"compliant": "Compliant"}}, CLUSTER, "status")
        await here.settle()
        assert (await both(here))["rolloutStatus"] == "Succeeded"
        await here.write(template())
        assert not await member.has(OTHER, "cert", CLUSTER)

    told(story)
