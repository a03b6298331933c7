"""How rollouts of policies look while their controller works: whoever looks comes to the same conclusions."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import PolicyWorld, told
from tests.controllers.test_policy_foreign_hub import ALLOWING, FOREIGN, asked, overwrite
from tests.controllers.work_world import per_group, progressive

from echelon.api.policy import POLICY
from echelon.api.rbac import ROLE, ROLE_BINDING
from echelon.cli.rollout_tree import headline, tree
from echelon.cli.terminal import plain
from echelon.engine.rollout import control
from echelon.hub.access.identity import User
from echelon.hub.client import InProcessClient
from echelon.kube.client import Reader
from echelon.rollouts.picture import Picture
from echelon.rollouts.policies import found_policy
from echelon.rollouts.policy_reading import read_policy
from echelon.rollouts.reading import Found

Story = Callable[[PolicyWorld], Awaitable[None]]
DEVELOPER = User("developer")


async def found(world: PolicyWorld, client: Reader | None = None) -> Found:
    reader = client or world.hub.client
    document = await reader.get(POLICY.untyped(), "audit", NS)
    return found_policy(await read_policy(reader, document, now()), now())


async def drawn(world: PolicyWorld, client: Reader | None = None) -> Picture:
    return (await found(world, client)).picture(now())


def lines(picture: Picture, *, everything: bool = False) -> list[str]:
    return [plain(line) for line in tree(picture, everything=everything)]


async def started(world: PolicyWorld, groups: Any, strategy: Any = None, **fields: Any) -> None:
    await world.place(groups)
    await world.write(strategy=strategy, **fields)
    await world.bind()
    world.start()
    await world.settle()


def test_before_anybody_is_enforced_everybody_waits_for_those_that_have_yet_to_look() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write(strategy=progressive())
        await world.bind()
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("rolling out", False)
        assert picture.message == "2 clusters have yet to get the policy as inform; nobody is enforced before that"
        assert picture.counts == {"waiting": 2}

    told(story)


def test_a_cluster_in_flight_is_named_and_the_others_say_what_they_wait_for() -> None:
    async def story(world: PolicyWorld) -> None:
        await started(world, [("canary", ["c2"]), ("", ["c1", "c3"])], per_group())
        await world.report("c1", compliant="NonCompliant")
        shown = lines(await drawn(world), everything=True)
        assert shown[1] == "rolling out: 0 of 3 done, 1 in flight, 2 waiting"
        assert shown[3:] == [
            "├─ ▶ canary (0)  0 of 1 done, 1 in flight",
            "│  └─ ▶ c2  in flight 5s",
            "│       its agent has not reported on it yet; progressing since 5s, no deadline",
            "│     └─ ▶ ConfigurationPolicy demo  not reported on yet",
            "└─ · group 1  0 of 2 done, 2 waiting  waits for group canary (0): c2 progressing",
            "   ├─ · c1  waiting  waits for group canary (0): c2 progressing",
            "   │  └─ · ConfigurationPolicy demo  NonCompliant; notification - it is so",
            "   └─ · c3  waiting  waits for group canary (0): c2 progressing",
            "      └─ · ConfigurationPolicy demo  not reported on yet",
        ]
        assert max(map(len, shown)) <= 80

    told(story)


def test_a_canary_that_fails_stops_it_and_shows_the_template_that_does() -> None:
    async def story(world: PolicyWorld) -> None:
        await started(world, [("canary", ["c2"]), ("", ["c1", "c3"])], per_group())
        await world.report("c2", compliant="NonCompliant")
        await world.settle()
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("stopped", True)
        assert "│       demo: NonCompliant; notification - it is so; failed since 5s, no" in lines(picture)
        assert headline(picture).startswith("stopped, 0 of 3 done, 1 failed, 2 waiting")
        await world.report("c2")

    told(story)


def test_an_inform_policy_is_complete_though_its_clusters_violate_it() -> None:
    async def story(world: PolicyWorld) -> None:
        await started(world, [("", ["c1", "c2"])], progressive(), spec={"remediationAction": "inform"})
        await world.report("c1", "c2", compliant="NonCompliant")
        await world.settle()
        picture = await drawn(world)
        assert (picture.state, picture.counts) == ("complete", {"done": 2})
        assert "NonCompliant" not in " ".join(lines(picture))

    told(story)


async def developer(world: PolicyWorld) -> InProcessClient:
    """Return the client of somebody who may see what is in the policy's namespace, and nothing else."""
    groups = ["policy.open-cluster-management.io", "cluster.open-cluster-management.io", "apps"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list"]}]
    await world.hub.create(ROLE, "look", NS, rules=rules)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DEVELOPER.name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"}
    await world.hub.create(ROLE_BINDING, "look", NS, roleRef=role, subjects=[subject])
    return InProcessClient(world.hub.client._cluster, DEVELOPER)


def test_rights_in_the_namespace_of_a_policy_are_enough_to_see_how_far_it_is() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await developer(world)
        strategy = progressive(maxConcurrency=2, maxFailures=2, progressDeadline="1h", minSuccessTime="10s")
        await started(world, [("", ["c1", "c2", "c3", "c4"])], strategy)
        seen = []
        for compliant in ("Compliant", "NonCompliant", "Compliant", "Compliant"):
            busy = [cluster for cluster, status in (await world.stored()).items() if status == "Progressing"]
            await world.report(*busy[:1], compliant=compliant)
            for _ in range(4):
                await world.settle()
                whole, part = await drawn(world), await drawn(world, client)
                assert (part.state, part.counts, part.message) == (whole.state, whole.counts, whole.message)
                assert [each.message for each in part.groups] == [each.message for each in whole.groups]
                assert not whole.note
                assert "may not be listed: this is what the policy's status says" in part.note
                seen.append(headline(whole))
        await world.settle(3700)
        whole, part = await drawn(world), await drawn(world, client)
        assert whole.counts.get("timed out")
        assert (part.state, part.counts) == (whole.state, whole.counts)
        assert len(set(seen)) > 5, "there was something to see"
        await world.finish()
        assert (await drawn(world, client)).state == (await drawn(world)).state == "complete"

    told(story)


def test_what_the_status_does_not_tell_yet_is_not_guessed() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await developer(world)
        await started(world, [("", ["c1", "c2"])])
        await world.finish()
        await world.hub.stop()
        await world.upgrade("2")
        assert (await drawn(world, client)).counts == (await drawn(world)).counts == {"waiting": 2}

    told(story)


@pytest.mark.parametrize(
    ("change", "state", "said"),
    [
        ({"disabled": True}, "disabled", "spec.disabled is true"),
        ({"rolloutStrategy": progressive(mandatoryDecisionGroups=[{"groupName": "canari"}])}, "held", "canari"),
    ],
)
def test_a_policy_that_nobody_can_get_says_why(change: Any, state: str, said: str) -> None:
    async def story(world: PolicyWorld) -> None:
        await started(world, [("", ["c1", "c2"])], progressive())
        await world.change(**change)
        await world.settle()
        picture = await drawn(world)
        assert (picture.state, picture.over) == (state, True)
        assert said in headline(picture)
        assert picture.total == (0 if state == "disabled" else 2)

    told(story)


def test_a_policy_that_no_binding_names_has_no_clusters() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.write()
        picture = await drawn(world)
        assert (picture.state, picture.message) == ("no clusters", "nothing says which clusters are to have it")

    told(story)


def test_an_abort_without_a_way_back_holds_again_and_is_over_then() -> None:
    async def story(world: PolicyWorld) -> None:
        await started(world, [("", ["c1", "c2"])], progressive())
        await world.hub.stop()
        await world.annotate(dict(control.abort((await found(world)).subject.revision)))
        picture = await drawn(world)
        assert (picture.state, picture.over) == ("going back", False)
        assert picture.message.endswith("so c1 are held again")
        await world.restart()
        await world.settle()
        picture = await drawn(world)
        assert (picture.state, picture.over, picture.counts) == ("aborted", True, {"waiting": 2})

    told(story)


async def both(world: PolicyWorld, client: Reader) -> Picture:
    """Return what somebody sees who may see everything, having checked that others see the same."""
    whole, part = await drawn(world), await drawn(world, client)
    assert (part.state, part.counts, part.message) == (whole.state, whole.counts, whole.message)
    return whole


def test_where_the_hub_may_have_dropped_a_strategy_the_policy_is_held_and_says_what_helps() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await developer(world)
        await started(world, [("", ["c1", "c2"])], progressive())
        picture = await both(world, client)
        assert (picture.state, picture.over, picture.counts) == ("held", True, {"waiting": 2})
        assert "--allow-all" in picture.message

    told(story, crds=FOREIGN)


def test_on_such_a_hub_the_annotations_tell_how_far_it_is() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await developer(world)
        strategy = per_group(minSuccessTime="60s")
        await started(world, [("canary", ["c2"]), ("", ["c1"])], annotations=asked(strategy))
        assert (await both(world, client)).counts == {"in flight": 1, "waiting": 1}
        await overwrite(world, "c2", "Compliant")
        await world.settle()
        assert (await both(world, client)).counts == {"soaking": 1, "waiting": 1}
        await world.settle(61)
        await overwrite(world, "c1", "Compliant")
        await world.settle(61)
        assert (await both(world, client)).state == "complete"

    told(story, crds=FOREIGN)


def test_controllers_that_let_policies_go_everywhere_are_known_by_what_they_do() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", ["c1", "c2"])])
        await world.write()
        await world.bind()
        world.hub.start("policies", settings=ALLOWING)
        await world.settle()
        picture = await both(world, await developer(world))
        assert (picture.state, picture.counts) == ("rolling out", {"in flight": 2})

    told(story, crds=FOREIGN)
