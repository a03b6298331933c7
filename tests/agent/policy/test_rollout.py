"""A cluster's turn: held, released, judged."""

from collections.abc import Mapping

from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.policy import POLICY
from echelon.fleet.loop import running
from tests.agent.policy.world import NAME, Looker, PolicyWorld, template, told
from tests.agent.world import CLUSTER

HELD, ENFORCED_BEFORE, RETRIED = "echelon.dev/held", "echelon.dev/enforced-before", "echelon.dev/retried-at"


async def notes(here: PolicyWorld, name: str = "web") -> Mapping[str, str]:
    found: Mapping[str, str] = (await here.child(name))["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if key.startswith("echelon.dev/")}


async def rollout(here: PolicyWorld) -> tuple[str, bool]:
    """Return what is said of the rollout, and whether that is about the present content."""
    replica = await here.replica()
    status = replica["status"]
    return status.get("rolloutStatus", ""), status.get("observedGeneration") == replica["metadata"]["generation"]


def test_a_cluster_is_held_released_and_succeeds() -> None:
    looker = Looker()

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), held=True, said="ToApply")
        assert await rollout(here) == ("ToApply", True)
        assert await notes(here) == {HELD: "true"}
        (detail,) = (await here.status())["details"]
        assert detail["pendingChanges"][0]["diff"] == "-a\n+b"
        assert (await here.status())["compliant"] == "NonCompliant"
        await here.write(template(), said="Progressing")
        assert await rollout(here) == ("Succeeded", True)
        assert await notes(here) == {}
        (detail,) = (await here.status())["details"]
        assert "pendingChanges" not in detail
        assert looker.evaluated == [("web", "inform"), ("web", "enforce"), ("web", "enforce")]

    told(story, looker=looker)


def test_a_change_that_enforcing_cannot_make_is_a_failure_until_it_is_made() -> None:
    looker = Looker(enforcing_helps=False)

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), said="Progressing")
        assert await rollout(here) == ("Failed", True)
        looker.verdicts["web"] = "Compliant"
        await here.touch_children()
        assert await rollout(here) == ("Succeeded", True)
        assert (await here.status())["rolloutLastTransitionTime"] != ""

    told(story, looker=looker)


def test_no_failure_is_told_on_the_way_to_a_success() -> None:
    said: list[str] = []

    async def story(here: PolicyWorld) -> None:
        def heard(change: object) -> None:
            entry = change.entry  # type: ignore[attr-defined]  # a change of the store
            if entry.key.name == NAME:
                said.append(entry.object.get("status", {}).get("rolloutStatus", ""))

        here.here.hub.cluster.store.on_commit(heard)
        for value in ("1", "2"):
            await here.write(template(value=value), held=True, said="ToApply")
            await here.write(template(value=value), said="Progressing")
        assert said[-1] == "Succeeded"
        assert "Failed" not in said

    told(story)


def test_an_inform_policy_has_succeeded_when_it_was_looked_at() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template(), action="inform", said="Progressing")
        assert await rollout(here) == ("Succeeded", True)
        assert (await here.status())["compliant"] == "NonCompliant"

    told(story)


def test_a_time_out_becomes_a_success_and_nothing_else() -> None:
    looker = Looker(enforcing_helps=False)

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), said="TimeOut")
        assert await rollout(here) == ("TimeOut", True)
        looker.verdicts["web"] = "Compliant"
        await here.touch_children()
        assert await rollout(here) == ("Succeeded", True)

    told(story, looker=looker)


def test_a_hub_that_knows_no_rollouts_gets_no_word_about_one() -> None:
    async def story(here: PolicyWorld) -> None:
        await here.write(template())
        status = await here.status()
        assert status["compliant"] == "Compliant"
        assert {"rolloutStatus", "rolloutLastTransitionTime"}.isdisjoint(status)
        await here.write(template(value="2"))
        assert {"rolloutStatus", "rolloutLastTransitionTime"}.isdisjoint(await here.status())

    told(story)


def test_content_that_nobody_evaluates_gets_no_verdict() -> None:
    looker = Looker()

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), said="Progressing")
        assert await rollout(here) == ("Succeeded", True)
        looker.verdicts["web"] = None
        await here.write(template(value="2"), said="Progressing")
        assert await rollout(here) == ("Progressing", False)
        await here.settle(300)
        assert await rollout(here) == ("Progressing", False)

    told(story, looker=looker, quiet=False)


def test_on_a_held_cluster_nothing_is_pruned_before_its_turn() -> None:
    looker = Looker()

    async def story(here: PolicyWorld) -> None:
        await here.write(template("kept"), template("left"), said="Progressing")
        await here.write(template("kept", "2"), template("new"), held=True, said="ToApply")
        await here.settle(300)
        assert await here.children() == ["kept", "left", "new"]
        assert await notes(here, "kept") == await notes(here, "left") == {HELD: "true", ENFORCED_BEFORE: "true"}
        assert await notes(here, "new") == {HELD: "true"}
        assert {(await here.child(name))["spec"]["remediationAction"] for name in ("kept", "left", "new")} == {"inform"}
        assert looker.pruned == []
        await here.write(template("kept", "2"), template("new"), said="Progressing")
        assert await here.children() == ["kept", "new"]
        assert looker.pruned == ["left"]
        assert await notes(here, "kept") == {}

    told(story, looker=looker)


def test_what_was_enforced_is_pruned_when_a_held_policy_ends() -> None:
    looker = Looker()

    async def story(here: PolicyWorld) -> None:
        await here.write(template("old"), said="Progressing")
        await here.write(template("old", "2"), template("new"), held=True, said="ToApply")
        await here.here.hub.delete(POLICY, NAME, CLUSTER)
        await here.settle(30)
        assert await here.children() == []
        assert looker.pruned == ["old"]

    told(story, looker=looker)


def test_a_retry_leads_to_another_evaluation_before_anything_is_said() -> None:
    looker = Looker(enforcing_helps=False)

    async def story(here: PolicyWorld) -> None:
        await here.write(template(), said="Progressing")
        assert await rollout(here) == ("Failed", True)
        looker.verdicts["web"] = None
        note = {"metadata": {"annotations": {RETRIED: running().clock.now().isoformat()}}}
        await here.here.hub.patch(POLICY, NAME, note, CLUSTER)
        await here.say("Progressing")
        await here.settle()
        assert await rollout(here) == ("Progressing", True)
        assert set(await notes(here)) == {RETRIED}
        looker.verdicts["web"] = "Compliant"
        await here.touch_children()
        assert await rollout(here) == ("Succeeded", True)
        child = await here.here.member.get(CONFIGURATION_POLICY, "web", CLUSTER)
        assert child["metadata"]["generation"] == 1

    told(story, looker=looker)
