"""Policies on hubs that do not take some of their writes: budgets hold, others go on, and the status tells."""

import asyncio
from collections.abc import Callable
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.controller_revisions import CONTROLLER_REVISION
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.policy import POLICY
from echelon.engine.policy.names import HASH_LABEL
from echelon.engine.rollout.control import abort, retry
from echelon.engine.rollout.failed_writes import FAILED_WRITES, decode
from echelon.kube.errors import ApiError, Conflict, Forbidden, ServerTimeout, Unavailable
from tests.controllers.hub import NS, now
from tests.controllers.policy_world import PolicyWorld, told
from tests.controllers.refusing import Refusal, Refusing, start_refusing
from tests.controllers.work_world import progressive

FOUR = ["a", "b", "c", "d"]


def forbidden() -> ApiError:
    return Forbidden('policies "apps.audit" is forbidden: quota exceeded')


def unavailable() -> ApiError:
    return Unavailable("the webhook does not answer")


def refusing(
    *clusters: str, error: Callable[[], ApiError] = forbidden, when: Callable[[str, JSONObject], bool]
) -> Refusal:
    """Take no write of replicas of these clusters that is of a kind."""

    def refuses(verb: str, kind: Kind[Any], namespace: str, body: JSONObject) -> ApiError | None:
        return error() if kind.resource == POLICY.resource and namespace in clusters and when(verb, body) else None

    return refuses


def content(verb: str, body: JSONObject) -> bool:
    return verb != "delete" and "spec" in body


def release(_: str, body: JSONObject) -> bool:
    return bool(body.get("spec", {}).get("remediationAction") == "enforce")


def to_apply(_: str, body: JSONObject) -> bool:
    return bool(body.get("status", {}).get("rolloutStatus") == "ToApply")


def deletion(verb: str, _: JSONObject) -> bool:
    return verb == "delete"


async def begin(world: PolicyWorld, strategy: JSONObject | None, refuses: Refusal | None) -> Refusing:
    await world.place([("", FOUR)])
    await world.write(strategy=strategy)
    await world.bind()
    client = start_refusing(world.hub, "policies", refuses)
    await world.settle()
    return client


async def restart(world: PolicyWorld, refuses: Refusal | None) -> Refusing:
    await world.hub.stop()
    world.hub.controllers.clear()
    client = start_refusing(world.hub, "policies", refuses)
    await world.settle()
    return client


async def stored(world: PolicyWorld) -> set[str]:
    return set(decode((await world.policy()).metadata.annotations.get(FAILED_WRITES, "")))


async def why(world: PolicyWorld, cluster: str) -> tuple[str, str, str]:
    """Return status, reason and message of a cluster, as the policy tells them."""
    rollout = (await world.policy()).status.rollout
    assert rollout is not None
    found = next(each for each in rollout.clusters if cluster in each.names)
    return found.status, found.reason, found.message


def test_a_cluster_that_cannot_be_given_it_to_look_at_has_failed_in_the_words_of_the_server() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, progressive(), refusing("b", when=content))
        assert await world.reach() == ["a", "c", "d"]
        assert await why(world, "b") == ("Failed", "WriteRefused", str(forbidden()))
        assert "quota exceeded" in (await world.condition("PlacementVerified")).message
        assert await stored(world) == {"b"}
        assert await world.enforced() == []
        assert await world.said("RolloutBlocked") == ("True", "MaxFailuresExceeded")
        client.refuses = None
        await world.settle(70)
        assert await world.reach() == FOUR
        assert await stored(world) == set()
        assert await world.enforced() == ["a"]

    told(story)


def test_who_did_not_take_an_older_content_is_waited_for_with_the_new_one() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, progressive(maxConcurrency=4), None)
        trouble, done = [unavailable(), *[Conflict("somebody was faster") for _ in range(3)]], list[str]()
        upgrades: list[asyncio.Task[None]] = []

        def refuses(verb: str, kind: Kind[Any], namespace: str, body: JSONObject) -> ApiError | None:
            if kind.resource != POLICY.resource or namespace not in FOUR or not content(verb, body):
                return None
            if namespace == "b" and trouble:
                if not upgrades:  # before anybody has stored that this one was not taken
                    upgrades.append(asyncio.create_task(world.upgrade("3")))
                return trouble.pop(0)
            done.append(f"{'release' if release(verb, body) else 'hold'} {namespace}")
            return None

        client.refuses = refuses
        await world.upgrade("2")
        await world.settle()
        assert not trouble
        assert done.index("hold b") < done.index("release a")

    told(story)


def test_who_cannot_be_held_again_after_an_abort_is_tried_now_and_then_and_told() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, progressive(), None)
        assert await world.enforced() == ["a"]

        def refuses(verb: str, kind: Kind[Any], namespace: str, body: JSONObject) -> ApiError | None:
            refused = kind.resource == POLICY.resource and namespace == "a" and content(verb, body)
            return forbidden() if refused and client.asked < 100 else None

        client.refuses = refuses
        (stored_revision,) = await world.revisions()
        await world.annotate(abort(stored_revision.metadata.labels[HASH_LABEL]))
        await world.settle(60)
        assert 1 < client.asked < 12
        assert await world.enforced() == ["a"]
        said = await world.condition("PlacementVerified")
        assert "replicas of a are not" in said.message
        assert "quota exceeded" in said.message
        client.refuses = None
        await world.settle(70)
        assert await world.enforced() == []
        assert "quota exceeded" not in (await world.condition("PlacementVerified")).message

    told(story)


def test_whose_hold_was_written_and_never_answered_waits_for_its_turn_like_the_others() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", FOUR)])
        await world.write(strategy=progressive())
        await world.bind()
        client = start_refusing(world.hub, "policies")
        lost = {"b", "c", "d"}

        async def create(kind: Kind[Any], body: JSONObject, namespace: str = "", **options: Any) -> Any:
            made = await Refusing.create(client, kind, body, namespace, **options)
            if kind.resource == POLICY.resource and namespace in lost:
                lost.discard(namespace)
                raise ServerTimeout("the connection was lost before the answer came")
            return made

        client.create = create  # type: ignore[method-assign]  # the server makes them, and the answers are lost
        for _ in range(20):
            await world.settle(5)
            assert len(await world.enforced()) <= 1
        assert await world.enforced() == ["a"]
        assert await stored(world) == set()

    told(story)


def test_a_write_that_is_tried_again_is_no_news() -> None:
    async def story(world: PolicyWorld) -> None:
        await begin(world, None, refusing("b", when=content))
        told_of = await world.count("PolicyPropagation")
        await world.settle(600)
        assert await world.count("PolicyPropagation") == told_of

    told(story)


def test_a_refused_cluster_keeps_nobody_waiting_while_the_budget_has_room_for_it() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.place([("", FOUR)])
        await world.write(strategy=progressive(maxFailures=1, maxConcurrency=2))
        await world.bind()
        start_refusing(world.hub, "policies", refusing("b", when=content))
        await world.settle()
        assert await world.enforced() == ["a"]
        await world.report("a")
        await world.settle()
        assert await world.enforced() == ["a", "c"]
        await world.report("c")
        await world.settle()
        assert await world.enforced() == ["a", "c", "d"]
        await world.hub.stop()
        world.hub.controllers.clear()

    told(story)


def test_a_restart_does_not_loosen_what_failed_writes_have_stopped() -> None:
    async def story(world: PolicyWorld) -> None:
        refuses = refusing("b", when=content)
        await begin(world, progressive(maxConcurrency=2), refuses)
        for _ in range(3):
            await restart(world, refuses)
            await world.report("a", "c", "d")
            await world.settle(70)
            assert await world.enforced() == []
            assert await stored(world) == {"b"}
        await world.hub.stop()
        world.hub.controllers.clear()

    told(story)


def test_a_release_that_is_refused_is_a_failure_that_takes_its_place() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, progressive(maxFailures=1, maxConcurrency=2), refusing("a", when=release))
        assert await world.enforced() == ["b"]
        assert (await why(world, "a"))[:2] == ("Failed", "WriteRefused")
        assert (await world.stored())["a"] == "ToApply"
        await world.report("b")
        await world.settle()
        assert await world.enforced() == ["b", "c"]
        client.refuses = None
        await world.settle(70)
        assert await world.enforced() == ["a", "b", "c"]
        await world.finish()
        assert await world.verdict() == "Succeeded"

    told(story)


def test_a_release_that_gets_no_answer_is_in_flight_and_runs_against_its_deadline() -> None:
    async def story(world: PolicyWorld) -> None:
        refuses = refusing("a", error=unavailable, when=release)
        client = await begin(world, progressive(progressDeadline="60s"), refuses)
        assert (await why(world, "a"))[:2] == ("Progressing", "WriteFailed")
        assert await world.enforced() == []
        await world.settle(65)
        assert (await why(world, "a"))[0] == "TimeOut"
        assert await world.verdict() == "Failed"
        client.refuses = None
        await world.settle(70)
        assert await world.enforced() == []
        await world.annotate(retry(now()))
        await world.settle()
        assert await world.enforced() == ["a"]
        await world.report("a")
        await world.settle()
        assert await world.enforced() == ["a", "b"]
        await world.hub.stop()
        world.hub.controllers.clear()

    told(story)


def test_who_cannot_be_told_to_wait_is_in_flight_and_never_released_beyond_the_limit() -> None:
    async def story(world: PolicyWorld) -> None:
        most: list[int] = []
        enforced: set[str] = set()

        def look(change: Any) -> None:
            entry = change.entry
            if entry.key.name == f"{NS}.audit" and change.type != "DELETED":
                acts = entry.object["spec"].get("remediationAction") == "enforce"
                (enforced.add if acts else enforced.discard)(entry.key.namespace)
                most.append(len(enforced))

        world.hub.client._cluster.store.on_commit(look)
        client = await begin(world, progressive(maxConcurrency=1), refusing("c", "d", when=to_apply))
        assert await world.enforced() == []
        assert "quota exceeded" in (await world.condition("PlacementVerified")).message
        client.refuses = None
        await world.settle(120)
        assert max(most) == 1
        await world.finish()
        assert await world.enforced() == FOUR
        assert await stored(world) == set()

    told(story)


def test_one_that_cannot_be_told_to_wait_leaves_the_places_of_others() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, progressive(maxConcurrency=2), refusing("d", when=to_apply))
        assert await world.enforced() == ["a"]
        await world.report("a")
        await world.settle()
        assert await world.enforced() == ["a", "b"]
        await restart(world, client.refuses)
        assert await world.enforced() == ["a", "b"]
        await restart(world, None)
        await world.settle(70)
        await world.finish()
        assert await world.enforced() == FOUR

    told(story)


def test_a_deletion_that_is_refused_is_told_and_the_cluster_stays_listed() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, None, refusing("d", when=deletion))
        await world.finish()
        await world.decide([("", ["a", "b"])])
        await world.settle()
        assert await world.reach() == ["a", "b", "d"]
        assert list(await world.told()) == ["a", "b", "d"]
        assert "quota exceeded" in (await world.condition("PlacementVerified")).message
        client.refuses = None
        await world.settle(70)
        assert await world.reach() == ["a", "b"]

    told(story)


def test_a_disabled_policy_tells_where_it_could_not_be_taken_off() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, None, refusing("d", when=deletion))
        await world.change(disabled=True)
        await world.settle()
        assert await world.reach() == ["d"]
        assert list(await world.told()) == ["d"]
        found = await world.condition("PlacementRolledOut")
        assert found.reason == "Disabled"
        assert f"the replicas of d are not removed: {forbidden()}" in found.message
        client.refuses = None
        await world.settle(70)
        assert await world.reach() == []
        assert await world.told() == {}
        assert "quota" not in (await world.condition("PlacementRolledOut")).message

    told(story)


def test_the_replicas_of_a_deleted_policy_go_when_the_server_lets_them() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, None, refusing("d", when=deletion))
        await world.hub.delete(POLICY, "audit", NS)
        await world.settle()
        assert await world.reach() == ["d"]
        client.refuses = None
        await world.settle(600)
        assert await world.reach() == []

    told(story)


def test_nothing_reaches_a_cluster_before_its_revision_is_stored() -> None:
    async def story(world: PolicyWorld) -> None:
        def refuses(_: str, kind: Kind[Any], __: str, ___: JSONObject) -> ApiError | None:
            return forbidden() if kind.resource == CONTROLLER_REVISION.resource else None

        client = await begin(world, progressive(), refuses)
        assert await world.reach() == []
        assert await world.said("RolloutBlocked") == ("True", "WriteFailed")
        client.refuses = None
        await world.settle(70)
        assert await world.enforced() == ["a"]

    told(story)


def test_everywhere_at_once_a_refused_cluster_keeps_nobody_waiting() -> None:
    async def story(world: PolicyWorld) -> None:
        client = await begin(world, None, refusing("b", when=content))
        assert await world.reach() == ["a", "c", "d"]
        await world.report("a", "c", "d")
        await world.settle()
        assert await world.verdict() == "Failed"
        client.refuses = None
        await world.settle(70)
        await world.finish()
        assert await world.verdict() == "Succeeded"

    told(story)


def test_a_cluster_whose_namespace_is_missing_gets_the_policy_when_it_is_made() -> None:
    async def story(world: PolicyWorld) -> None:
        await world.join(["a"])
        await world.placing.place([("", ["a", "missing"])], fresh=False)
        await world.write(strategy=progressive(maxFailures=1, maxConcurrency=2))
        await world.bind()
        world.start()
        await world.settle()
        assert await world.enforced() == ["a"]
        assert (await why(world, "missing"))[:2] == ("Failed", "WriteRefused")
        assert 'namespaces "missing" not found' in (await why(world, "missing"))[2]
        await world.hub.client.create(NAMESPACE.untyped(), {"metadata": {"name": "missing"}})
        await world.settle(70)
        assert await world.enforced() == ["a", "missing"]

    told(story)
