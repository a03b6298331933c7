"""An agent evaluates policies: it mends what they enforce, tells what it found, and is quiet otherwise."""

from datetime import timedelta
from typing import Any

import pytest

from echelon.agent.settings import Settings
from echelon.api.apps import DEPLOYMENT
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import CONFIG_MAP, SECRET
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.api.times import format_time, parse_time
from echelon.engine.configuration_policy.names import FINALIZER
from echelon.engine.configuration_policy.status import changed_something
from echelon.engine.configuration_policy.templates import TEMPLATE_ERROR
from echelon.fleet.loop import running
from echelon.kube import errors
from tests.agent.configuration_policy.world import FAMILIES, events, message, policy, seen, state, template, told
from tests.agent.world import CLUSTER, World, config_map, deployment


def test_a_missing_object_is_created_and_the_events_come_before_the_status() -> None:
    async def story(here: World) -> None:
        mark = len(here.member.commits)
        found = await policy(here, template(config_map("x", a="1")))
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "1"}
        assert found.status.compliant == "Compliant"
        assert found.status.last_evaluated_generation == found.metadata.generation
        first, second, third = await events(here)
        assert first["message"] == "NonCompliant; violation - configmaps [x] not found in namespace default"
        assert second["message"].startswith("Compliant; notification - configmaps [x] was created successfully")
        assert third["message"].startswith("Compliant; notification - configmaps [x] found as specified")
        assert [each["type"] for each in (first, second, third)] == ["Warning", "Normal", "Normal"]
        assert first["reason"] == f"policy: {CLUSTER}/p"
        assert first["action"] == "ComplianceStateUpdate"
        assert first["involvedObject"] == {
            "apiVersion": "policy.open-cluster-management.io/v1",
            "kind": "Policy",
            "name": "policies.web",
            "namespace": CLUSTER,
            "uid": "parent-uid",
        }
        assert first["related"]["uid"] == found.metadata.uid
        assert [each.message for each in found.status.history] == [each["message"] for each in (third, second, first)]
        written = [each.split()[1] for each in here.member.commits[mark:]]
        name = "configurationpolicies.policy.open-cluster-management.io"
        resources = [each for each in written if each in ("configmaps", "events", name)]
        assert resources == [name, "configmaps", "events", "events", name, "events", name]

    told(story)


def test_what_drifts_is_put_back_within_seconds() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x", a="1")))
        await here.settle(10)
        await here.member.patch(CONFIG_MAP, "x", {"data": {"a": "2", "b": "theirs"}})
        await here.settle(6)
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "1", "b": "theirs"}
        await here.settle(10)
        await here.member.delete(CONFIG_MAP, "x")
        await here.settle(6)
        assert await here.member.has(CONFIG_MAP, "x")
        await here.settle(10)
        assert await state(here) == "Compliant"

    told(story)


def test_what_goes_between_the_first_look_and_its_watch_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("x", a="1"))
        listed, gone = here.way.list, list[str]()

        async def late(kind: Kind[Any], namespace: str = "", **query: Any) -> Any:
            if kind.plural == "configmaps" and not gone:
                gone.append("x")
                await here.member.delete(CONFIG_MAP, "x")
            return await listed(kind, namespace, **query)

        monkeypatch.setattr(here.way, "list", late)
        await policy(here, template(config_map("x", a="1")), settle=20)
        assert gone
        assert await here.member.has(CONFIG_MAP, "x")

    told(story)


def test_an_unwanted_object_goes_and_goes_again() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("x"))
        await policy(here, template(config_map("x"), "mustnothave"))
        assert not await here.member.has(CONFIG_MAP, "x")
        await here.settle(10)
        await here.member.create(config_map("x"))
        await here.settle(7)
        assert not await here.member.has(CONFIG_MAP, "x")
        await here.settle(10)
        assert await state(here) == "Compliant"

    told(story)


def test_a_deployment_is_not_written_again_for_what_the_server_fills_in() -> None:
    async def story(here: World) -> None:
        await policy(here, template(deployment("web")), template(deployment("web"), "mustonlyhave"))
        first = await here.member.get(DEPLOYMENT, "web")
        await here.settle(60)
        assert (await here.member.get(DEPLOYMENT, "web"))["metadata"]["generation"] == first["metadata"]["generation"]
        assert await state(here) == "Compliant"

    told(story)


def test_one_who_informs_writes_nothing_but_what_it_tells() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("drifted", a="2"))
        mark = len(here.member.commits)
        found = await policy(
            here,
            template(config_map("missing")),
            template(config_map("drifted", a="1")),
            template(deployment("web")),
            remediationAction="inform",
        )
        assert found.status.compliant == "NonCompliant"
        assert not [each for each in here.member.commits[mark:] if "configmaps" in each or "deployments" in each]
        assert [(each.change, each.name) for each in found.status.pending_changes] == [
            ("Create", "missing"),
            ("Update", "drifted"),
            ("Create", "web"),
        ]
        assert "+  revisionHistoryLimit: 10" in found.status.pending_changes[2].diff, "as the server would make it"
        assert len(await events(here)) == 1

    told(story)


def test_what_is_announced_is_what_a_real_server_does() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("drifted", a="2"))
        await here.member.create(config_map("unwanted"))
        templates = (
            template(config_map("drifted", a="1")),
            template(config_map("unwanted"), "mustnothave"),
            template({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}),
            template(config_map("inside", "new")),
        )
        held = {"annotations": {"echelon.dev/held": "true"}}
        found = await policy(here, *templates, remediationAction="inform", metadata=held)
        announced = {f"{each.change} {each.kind} {each.name}" for each in found.status.pending_changes}
        mark = len(here.member.commits)
        await policy(here, *templates, metadata={"annotations": {"echelon.dev/held": None}})
        words = {"ADDED": "Create", "MODIFIED": "Update", "DELETED": "Delete"}
        kinds = {"configmaps": "ConfigMap", "namespaces": "Namespace"}
        done = [each.split() for each in here.member.commits[mark:]]
        changed = {f"{words[verb]} {kinds[what]} {name}" for verb, what, name in done if what in kinds}
        assert announced == changed - {"Update Namespace new", "Create ConfigMap kube-root-ca.crt"}
        assert await state(here) == "Compliant"

    told(story)


def test_a_held_policy_enforces_nothing_until_it_is_released() -> None:
    async def story(here: World) -> None:
        held = {"annotations": {"echelon.dev/held": "true"}}
        await policy(here, template(config_map("x")), metadata=held)
        assert not await here.member.has(CONFIG_MAP, "x")
        released = {"metadata": {"annotations": {"echelon.dev/held": None}}, "spec": {"severity": "low"}}
        await here.member.patch(CONFIGURATION_POLICY, "p", released, CLUSTER)
        await here.settle(10)
        assert await here.member.has(CONFIG_MAP, "x")

    told(story)


def test_namespaces_that_come_and_go_are_noticed_whatever_the_interval() -> None:
    async def story(here: World) -> None:
        definition = config_map("x")
        del definition["metadata"]["namespace"]
        await policy(
            here,
            template(definition),
            namespaceSelector={"matchLabels": {"team": "a"}},
            evaluationInterval={"compliant": "never", "noncompliant": "never"},
        )
        assert (await seen(here)).status.compliancy_details[0].conditions[0].reason == "K8s missing namespace"
        await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": "one", "labels": {"team": "a"}}})
        await here.settle(10)
        assert await here.member.has(CONFIG_MAP, "x", "one")
        assert await state(here) == "Compliant"

    told(story)


def test_objects_without_a_name_are_watched_as_a_kind() -> None:
    async def story(here: World) -> None:
        search = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}, "data": {"bad": "yes"}}
        await policy(here, template(search, "mustnothave"))
        assert await state(here) == "Compliant"
        await here.member.create(config_map("culprit", bad="yes"))
        await here.settle(10)
        assert await message(here) == "configmaps [culprit] found in namespace default"
        assert await here.member.has(CONFIG_MAP, "culprit")
        await here.member.delete(CONFIG_MAP, "culprit")
        await here.settle(10)
        assert await state(here) == "Compliant"

    told(story)


def test_many_namespaces_are_watched_through_one_stream() -> None:
    async def story(here: World) -> None:
        for number in range(12):
            await here.member.client.create(NAMESPACE.untyped(), {"metadata": {"name": f"team-{number}"}})
        definition = config_map("x", a="1")
        del definition["metadata"]["namespace"]
        await policy(here, template(definition), namespaceSelector={"include": ["team-*"]})
        assert len(here.running[0].context.object_watches) == 2, "namespaces, and the objects"
        await here.settle(10)
        await here.member.patch(CONFIG_MAP, "x", {"data": {"a": "2"}}, "team-7")
        await here.settle(7)
        assert (await here.member.get(CONFIG_MAP, "x", "team-7"))["data"] == {"a": "1"}

    told(story)


def test_what_cannot_be_watched_is_looked_at_every_ten_seconds() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x", a="1")))
        await here.settle(30)
        await here.member.patch(CONFIG_MAP, "x", {"data": {"a": "2"}})
        await here.settle(13)
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "1"}

    told(story, settings=Settings(max_watches=0))


def test_a_typing_mistake_is_told_with_the_words_of_the_server() -> None:
    async def story(here: World) -> None:
        wrong = deployment("web")
        wrong["spec"]["replcias"] = 3
        await policy(here, template(wrong), template(config_map("x")))
        assert await state(here) == "NonCompliant"
        assert 'unknown field "spec.replcias"' in await message(here)
        assert not await here.member.has(DEPLOYMENT, "web")
        assert await here.member.has(CONFIG_MAP, "x")

    told(story)


@pytest.mark.parametrize(
    "error", [errors.forbidden("configmaps", "", "x", "no right to create"), errors.Unavailable("etcd is away")]
)
def test_a_refusal_ends_in_the_status_and_is_tried_again(error: errors.ApiError) -> None:
    async def story(here: World) -> None:
        here.way.refuse("create", "configmaps", error)
        await policy(here, template(config_map("x")), settle=20)
        assert await state(here) == "NonCompliant"
        assert error.message in await message(here)
        assert not changed_something((await seen(here)).status)
        tries = sum(each[:2] == ("create", "configmaps") for each in here.way.requests)
        await here.settle(600)
        more = sum(each[:2] == ("create", "configmaps") for each in here.way.requests) - tries
        assert 5 < more < 80, "again and again, and not all the time"
        here.way.relent()
        await here.settle(100)
        assert await state(here) == "Compliant"

    told(story)


def test_a_server_that_is_away_for_a_moment_is_no_violation() -> None:
    async def story(here: World) -> None:
        here.way.refuse("create", "configmaps", errors.Unavailable("away"), times=2)
        await policy(here, template(config_map("x")))
        states = [each["message"].partition(";")[0] for each in await events(here)]
        assert states == ["NonCompliant", "Compliant", "Compliant"]

    told(story)


def test_one_policys_trouble_holds_up_no_other() -> None:
    async def story(here: World) -> None:
        here.way.refuse("create", "bad", errors.Unavailable("away"))
        for number in range(15):
            await policy(here, template(config_map("bad")), name=f"bad-{number}", settle=0)
        await policy(here, template(config_map("good")), name="good", settle=60)
        assert await here.member.has(CONFIG_MAP, "good")

    told(story)


def test_no_status_is_written_if_the_event_could_not_be() -> None:
    async def story(here: World) -> None:
        here.way.refuse("create", "events", errors.forbidden("events", "", "", "no right to tell"))
        found = await policy(here, template(config_map("x")))
        assert found.status.compliant == ""
        assert await here.member.has(CONFIG_MAP, "x")
        here.way.relent()
        await here.settle(100)
        assert await state(here) == "Compliant"
        assert len(await events(here)) == 1

    told(story)


def test_a_policy_that_is_made_from_no_other_is_told_in_its_status_alone() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), metadata={"ownerReferences": []})
        assert await state(here) == "Compliant"
        assert await events(here) == []

    told(story)


def test_a_retry_is_evaluated_at_once_whatever_the_interval() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), evaluationInterval={"compliant": "never"})
        await here.member.delete(CONFIG_MAP, "x")
        await here.settle(100)
        assert not await here.member.has(CONFIG_MAP, "x")
        # By a clock that is ahead of ours.
        asked = {"echelon.dev/retried-at": format_time(running().clock.now() + timedelta(seconds=40))}
        await here.member.patch(CONFIGURATION_POLICY, "p", {"metadata": {"annotations": asked}}, CLUSTER)
        await here.settle(2)
        assert await here.member.has(CONFIG_MAP, "x")
        mark = len(here.member.commits)
        await here.settle(100)
        assert here.member.commits[mark:] == []

    told(story)


def test_an_interval_is_kept_and_needs_no_watch() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x", a="1")), evaluationInterval={"compliant": "2m"})
        assert len(here.running[0].context.object_watches) == 0
        await here.member.patch(CONFIG_MAP, "x", {"data": {"a": "2"}})
        await here.settle(60)
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "2"}
        await here.settle(80)
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "1"}
        await here.settle(130)

    told(story)


def test_a_state_that_somebody_took_back_is_told_again() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")), evaluationInterval={"compliant": "never"})
        count = len(await events(here))
        await here.member.patch(CONFIGURATION_POLICY, "p", {"status": {"compliant": None}}, CLUSTER, "status")
        await here.settle(7)
        assert await state(here) == "Compliant"
        assert len(await events(here)) == count + 1

    told(story)


def test_two_who_want_something_else_do_not_write_without_end() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x", a="1")), name="one", settle=0)
        await policy(here, template(config_map("x", a="2")), name="two")
        await here.settle(600)
        mark = len(here.member.commits)
        await here.settle(600)
        assert len([each for each in here.member.commits[mark:] if "configmaps" in each]) < 20
        await here.member.delete(CONFIGURATION_POLICY, "two", CLUSTER)
        await here.settle(600)  # the pause of the one that is left may be long by now
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "1"}

    told(story)


def test_a_secret_is_enforced_and_never_told() -> None:
    async def story(here: World) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "default"},
            "stringData": {"password": "hunter2-hunter2"},
        }
        await policy(here, template(secret), remediationAction="inform")
        await policy(here, template(secret))
        assert (await here.member.get(SECRET, "s"))["data"] == {"password": "aHVudGVyMi1odW50ZXIy"}
        await here.settle(10)
        await here.member.patch(SECRET, "s", {"data": {"password": "c3BhbQ=="}})
        await here.settle(7)
        assert (await here.member.get(SECRET, "s"))["data"] == {"password": "aHVudGVyMi1odW50ZXIy"}
        told_of = repr((await seen(here)).status) + repr(await events(here))
        for text in ("hunter2", "aHVudGVy", "c3BhbQ", "spam"):
            assert text not in told_of

    told(story)


def test_braces_are_a_template_error_and_nothing_is_made_of_them() -> None:
    async def story(here: World) -> None:
        found = await policy(here, template(config_map("x", a="{{ fromSecret }}")))
        assert found.status.compliancy_details[0].conditions[0].reason == TEMPLATE_ERROR
        assert not await here.member.has(CONFIG_MAP, "x")

    told(story)


def test_an_agent_that_comes_back_finds_everything_told() -> None:
    async def story(here: World) -> None:
        await policy(here, template(config_map("x")))
        await policy(here, template(config_map("y")), name="informing", remediationAction="inform")
        await here.settle(10)
        mark = len(here.member.commits)
        await here.stop()
        here.start(families=FAMILIES)
        await here.settle(60)
        assert here.member.commits[mark:] == []
        await here.member.delete(CONFIG_MAP, "x")
        await here.settle(7)
        assert await here.member.has(CONFIG_MAP, "x")

    told(story)


def test_the_time_of_an_evaluation_is_told() -> None:
    async def story(here: World) -> None:
        found = await policy(here, template(config_map("x")))
        at = parse_time(found.status.last_evaluated)
        assert at is not None
        assert running().clock.now() - at < timedelta(seconds=30)
        assert FINALIZER not in found.metadata.finalizers

    told(story)


def test_a_policy_that_is_held_in_the_middle_of_its_evaluation_changes_nothing_more() -> None:
    async def story(here: World) -> None:
        here.way.reach.delay = lambda: 1.0
        await policy(here, *(template(config_map(f"x{number}")) for number in range(6)), settle=0)
        while not await here.member.has(CONFIG_MAP, "x2"):
            await here.settle(0.1)
        held = {"metadata": {"annotations": {"echelon.dev/held": "true"}}, "spec": {"remediationAction": "inform"}}
        await here.member.patch(CONFIGURATION_POLICY, "p", held, CLUSTER)
        await here.settle(60)
        # One more write may have been on its way.
        assert not await here.member.has(CONFIG_MAP, "x4")
        assert [each.name for each in (await seen(here)).status.pending_changes][-2:] == ["x4", "x5"]

    told(story)


def test_a_policy_that_was_replaced_while_it_was_evaluated_is_told_nothing_of_it() -> None:
    async def story(here: World) -> None:
        here.way.reach.delay = lambda: 1.0
        await policy(here, template(config_map("old")), settle=0)
        while not await here.member.has(CONFIG_MAP, "old"):
            await here.settle(0.1)
        await here.member.delete(CONFIGURATION_POLICY, "p", CLUSTER)
        await policy(here, template(config_map("new")), settle=60)
        assert all("[old]" not in each.message for each in (await seen(here)).status.history)
        assert await state(here) == "Compliant"

    told(story)


def test_secrets_are_watched_as_a_kind_only_while_a_policy_searches_them() -> None:
    async def story(here: World) -> None:
        search = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default"}, "type": "bad"}
        named = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
        await policy(here, template(search, "mustnothave"), name="search")
        await policy(here, template(named), name="named")
        assert len(here.running[0].context.object_watches) == 1
        await here.member.delete(CONFIGURATION_POLICY, "search", CLUSTER)
        await here.settle(10)
        mark = len(here.way.requests)
        await here.settle(700)
        watched = {
            name for verb, what, name in here.way.requests[mark:] if verb in ("list", "watch") and what == "secrets"
        }
        assert watched == {"metadata.name=s"}

    told(story)


def test_without_policies_there_is_one_stream_and_nothing_else() -> None:
    async def story(here: World) -> None:
        mark = len(here.way.requests)
        await here.settle(3000)
        asked = {(verb, what) for verb, what, _ in here.way.requests[mark:]}
        registration = {
            ("document", "/version"),
            ("list", "nodes"),
            ("list", "clusterclaims"),
            ("get", "namespaces"),
        }
        assert asked - registration == {("watch", "configurationpolicies")}

    told(story)


def test_policies_that_report_at_the_same_moment_are_all_heard() -> None:
    async def story(here: World) -> None:
        names = {f"p{number}" for number in range(40)}
        for name in sorted(names):
            await policy(here, template(config_map(name)), name=name, settle=0, remediationAction="inform")
        await here.settle(10)
        assert {each["reason"] for each in await events(here)} == {f"policy: {CLUSTER}/{name}" for name in names}

    told(story)


def test_an_object_that_is_replaced_while_it_is_looked_at_is_looked_at_again() -> None:
    async def story(here: World) -> None:
        await here.member.create(config_map("x", a="2"))
        here.way.reach.delay = lambda: 1.0
        await policy(here, template(config_map("x", a="1")), settle=0)
        while ("patch", "configmaps", "x") not in here.way.requests:
            await here.settle(0.1)
        await here.member.delete(CONFIG_MAP, "x")
        await here.member.create(config_map("x", a="3", b="theirs"))
        await here.settle(60)
        assert (await here.member.get(CONFIG_MAP, "x"))["data"] == {"a": "1", "b": "theirs"}
        assert all("immutable" not in each["message"] for each in await events(here))

    told(story)
