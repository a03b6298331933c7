"""The dashboard as a server: who gets in, what they see, and what no other site can make a browser do."""

import asyncio
from collections.abc import Coroutine, Iterator
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest

from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.rbac import ROLE_BINDING
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.dashboard.credentials import identify
from echelon.engine.rollout.control import PAUSED
from echelon.kube.client import MergePatch
from echelon.kube.config import Impersonation, User
from tests.dashboard.world import Feed, World, grants, world

FLEET = "4 clusters; regions us; environments staging/production; image *:bad* fails on all"
OURS, THEIRS = "payments", "observability"
STEER = {"kind": "manifestworkreplicaset", "namespace": OURS, "name": "payments"}


class Running:
    """A world that several tests share, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._context = world(FLEET)
        self.world: World = self.do(self._context.__aenter__())

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(240)

    def end(self) -> None:
        self.do(self._context.__aexit__(None, None, None))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    made = Running()

    async def fill(world: World) -> None:
        await world.example("with-approval")
        await world.example("everywhere")
        await world.apply(*grants("dev", OURS, "edit"), *grants("looker", OURS, "look"))

    made.do(fill(made.world))
    yield made
    made.end()


def test_every_answer_forbids_what_the_page_does_not_need(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            for path in ("/", "/static/main.js", "/static/nothing.js", "/api/session", "/nothing"):
                async with browser.session.get(f"{world.url}{path}") as answer:
                    policy = answer.headers["Content-Security-Policy"]
                    assert "default-src 'none'" in policy, path
                    assert "script-src 'self';" in policy
                    assert "frame-ancestors 'none'" in policy
                    assert "require-trusted-types-for 'script'" in policy
                    assert "unsafe" not in policy
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
                    assert answer.headers["Referrer-Policy"] == "no-referrer"

    running.do(look(running.world))


def test_who_is_not_signed_in_gets_nothing(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            for path in ("/api/session", "/api/feed", "/api/rollout", "/api/cluster", "/api/explain"):
                assert (await browser.get(path))[0] == 401, path
            for path in ("/api/preview", "/api/act", "/api/logout", "/api/namespaces"):
                assert (await browser.post(path, {}))[0] == 401, path
            assert (await browser.post("/api/login", {"token": "wrong"}))[0] == 401
            assert (await browser.post("/api/login", {}))[0] == 422
            assert (await browser.post("/api/login", {"token": "two words"}))[0] == 422
            assert (await browser.post("/api/login", {"code": "made-up"}))[0] == 401

    running.do(look(running.world))


def test_a_body_that_cannot_be_read_is_refused_and_no_fault_of_the_server(running: Running) -> None:
    async def look(world: World) -> None:
        headers = {"Origin": world.url, "Content-Type": "application/json"}
        async with world.visitor() as browser:
            for body in (b"", b"token", b"[1]", b'{"token": "\xff"}', b'{"a":' * 3000, b"{}" * 1_000_000):
                async with browser.session.post(f"{world.url}/api/login", data=body, headers=headers) as answer:
                    assert answer.status in (400, 413), body[:10]

    running.do(look(running.world))


def test_a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            body, headers = {"token": world.token}, {"Origin": world.url}
            async with browser.session.post(f"{world.url}/api/login", json=body, headers=headers) as answer:
                cookie, told = answer.headers["Set-Cookie"], await answer.text()
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert world.token not in cookie + told
            status, session = await browser.get("/api/session")
            assert status == 200
            browser.csrf = session["csrf"]
            assert (await browser.post("/api/logout", {}))[0] == 200
            assert (await browser.get("/api/session"))[0] == 401

    running.do(look(running.world))


def test_what_another_site_makes_a_browser_send_is_refused(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            await browser.sign_in(token=world.token)
            pause = {**STEER, "verb": "pause"}
            refused = {
                "another origin": await browser.post("/api/act", pause, Origin="http://evil.example"),
                "no origin": await browser.post("/api/act", pause, Origin=""),
                "another site": await browser.post("/api/act", pause, Sec_Fetch_Site="cross-site"),
                "another port": await browser.post("/api/act", pause, Sec_Fetch_Site="same-site"),
                "no token": await browser.post("/api/act", pause, X_Echelon_Token=""),
                "another token": await browser.post("/api/act", pause, X_Echelon_Token="x" * 43),
                "a login of somebody else": await browser.post(
                    "/api/login", {"token": world.token}, Origin="http://evil.example"
                ),
                "a read": await browser.get("/api/session", **{"Sec-Fetch-Site": "cross-site"}),
            }
            assert {why: status for why, (status, _) in refused.items() if status != 403} == {}
            assert (await browser.post("/api/act", pause, Content_Type="text/plain"))[0] == 415
            assert (await browser.post("/api/act", {"x": "y" * 100_000}))[0] == 413
            assert (await browser.post("/api/act", ["pause"]))[0] == 400
            for method in ("PUT", "DELETE", "PATCH"):
                async with browser.session.request(method, f"{world.url}/api/act") as answer:
                    assert answer.status == 405
        found = await world.local.hub.client().get(MANIFEST_WORK_REPLICA_SET, "payments", OURS)
        assert PAUSED not in found.metadata.annotations

    running.do(look(running.world))


def test_a_link_signs_in_once(running: Running) -> None:
    async def look(world: World) -> None:
        code = await world.dashboard.link(User(token=world.token))
        assert code != world.token
        async with world.visitor() as browser:
            assert (await browser.sign_in(code=code))["user"] == "echelon-admin"
            assert (await browser.post("/api/login", {"code": code}))[0] == 401

    running.do(look(running.world))


def test_a_page_is_told_everything_and_then_what_changes(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            await browser.sign_in(token=world.token)
            rollouts = "manifestworkreplicasets.work.open-cluster-management.io"
            feed = await browser.follow(
                lambda feed: len(feed.tables.get("clusters", {})) == 4 and len(feed.tables.get("rollouts", {})) == 2
            )
            assert f"{rollouts}/{OURS}/payments" in feed.tables["rollouts"]
            assert {row[1] for row in feed.tables["clusters"].values()} == {"ok"}

            told, name = asyncio.Event(), next(iter(feed.tables["clusters"]))

            async def move() -> None:
                await told.wait()
                patch = MergePatch({"metadata": {"labels": {"region": "moon"}}})
                await world.local.hub.client().patch(MANAGED_CLUSTER, name, patch)

            def is_moved(feed: Feed) -> bool:
                told.set()
                return any(row[3] == "moon" for row in feed.tables.get("clusters", {}).values())

            _, later = await asyncio.gather(move(), browser.follow(is_moved))
            assert later.messages > 1
            assert len(later.tables["clusters"]) == 4

    running.do(look(running.world))


def test_who_may_look_into_one_namespace_sees_that_and_nothing_else(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            await browser.sign_in(**world.certificate("dev"), namespaces=[OURS, THEIRS, "kube-system"])
            feed = await browser.follow(lambda feed: feed.ready and bool(feed.tables["rollouts"]))
            namespaces = {row["namespace"] for row in feed.tables["rollouts"].values()}
            assert namespaces == {OURS}
            assert {row["namespace"] for row in feed.tables["placements"].values()} == {OURS}
            assert feed.tables["clusters"] == {}
            assert "managedclusters.cluster.open-cluster-management.io" in feed.unseen
            status, told = await browser.get(
                f"/api/rollout?kind=manifestworkreplicaset&namespace={THEIRS}&name=node-agent"
            )
            assert status == 403, told
            assert (await browser.get("/api/cluster?name=us-01"))[0] == 403
            assert (await browser.get(f"/api/explain?namespace={OURS}&name=payments"))[0] == 403
            status, told = await browser.get(f"/api/rollout?kind=manifestworkreplicaset&namespace={OURS}&name=payments")
            assert status == 200
            assert [group["title"] for group in told["groups"]] == ["staging (0)", "production (1)"]
            status, told = await browser.post(
                "/api/act", {**STEER, "namespace": THEIRS, "name": "node-agent", "verb": "pause"}
            )
            assert status == 403, told

    running.do(look(running.world))


def test_who_may_only_look_is_refused_before_the_confirmation_and_after_it(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            await browser.sign_in(**world.certificate("looker"), namespaces=[OURS])
            for path in ("/api/preview", "/api/act"):
                status, told = await browser.post(path, {**STEER, "verb": "pause"})
                assert status == 403, told
                assert "looker" in told["error"]
        found = await world.local.hub.client().get(MANIFEST_WORK_REPLICA_SET, "payments", OURS)
        assert PAUSED not in found.metadata.annotations

    running.do(look(running.world))


def test_verbs_are_previewed_and_then_carried_out_under_the_name_of_the_person(running: Running) -> None:
    async def look(world: World) -> None:
        async with world.visitor() as browser:
            await browser.sign_in(**world.certificate("dev"), namespaces=[OURS])
            await browser.follow(
                lambda feed: any(
                    row["state"] == "awaiting approval" for row in feed.tables.get("rollouts", {}).values()
                )
            )
            status, told = await browser.post("/api/preview", {**STEER, "verb": "approve"})
            assert status == 200, told
            assert set(told["clusters"]) == set(told["starts"]) != set()
            status, answer = await browser.post("/api/act", {**STEER, "verb": "approve", "revision": "another"})
            assert status == 422
            assert "another revision" in answer["error"]
            wish = {**STEER, "verb": "pause", "revision": told["revision"]}
            status, answer = await browser.post("/api/preview", wish)
            assert (status, answer["state"]) == (200, "paused")
            client = world.local.hub.client()
            found = await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), "payments", OURS)
            assert PAUSED not in found["metadata"].get("annotations", {}), "a preview has written"
            assert (await browser.post("/api/act", wish))[0] == 200
            found = await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), "payments", OURS)
            assert found["metadata"]["annotations"][PAUSED] == "true"
            assert (await browser.post("/api/act", {**STEER, "verb": "resume"}))[0] == 200
            assert (await browser.post("/api/act", {**STEER, "verb": "explode"}))[0] == 422
            assert (await browser.post("/api/act", {**STEER, "verb": "undo", "toRevision": "1"}))[0] == 422

    running.do(look(running.world))


def soaking(image: str, deadline: str = "1h") -> JSONObject:
    """Return a work set that soaks for an hour wherever it is, on all clusters, two after two."""
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
    }
    strategy = {"maxConcurrency": 2, "minSuccessTime": "1h", "progressDeadline": deadline}
    placed = {"name": "everywhere", "rolloutStrategy": {"type": "Progressive", "progressive": strategy}}
    return {
        "apiVersion": "work.open-cluster-management.io/v1alpha1",
        "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": "web", "namespace": THEIRS},
        "spec": {"placementRefs": [placed], "manifestWorkTemplate": {"workload": {"manifests": [deployment]}}},
    }


def test_every_verb_tells_what_it_would_do_before_it_does_it(running: Running) -> None:
    """Promote what soaks, retry what failed, abort it, and go back: each is told, tried without an effect, and done."""
    web = {"kind": "manifestworkreplicaset", "namespace": THEIRS, "name": "web"}
    key = f"manifestworkreplicasets.work.open-cluster-management.io/{THEIRS}/web"

    async def look(world: World) -> None:
        client = world.local.hub.client()

        async def annotations() -> dict[str, str]:
            return (await client.get(MANIFEST_WORK_REPLICA_SET, "web", THEIRS)).metadata.annotations

        async with world.visitor() as browser:
            await browser.sign_in(token=world.token)

            async def until(state: str, count: int) -> None:
                def holds(feed: Feed) -> bool:
                    return bool(feed.tables.get("rollouts", {}).get(key, {}).get("counts", {}).get(state, 0) >= count)

                await browser.follow(holds)

            async def told(verb: str, **more: Any) -> JSONObject:
                before = await annotations()
                status, found = await browser.post("/api/preview", {**web, "verb": verb, **more})
                assert status == 200, found
                assert await annotations() == before, f"the preview of {verb} has written"
                return dict(found)

            async def done(verb: str, **more: Any) -> None:
                status, found = await browser.post("/api/act", {**web, "verb": verb, **more})
                assert status == 200, found

            await world.apply(soaking("web:1"))
            await until("soaking", 2)
            found = await told("promote")
            assert (len(found["clusters"]), found["about"]) == (2, "soak, and count as done at once")
            assert len(found["starts"]) == 2
            assert set(found["starts"]).isdisjoint(found["clusters"])
            await done("promote")
            await until("done", 2)
            await until("soaking", 2)
            await done("promote")
            await until("done", 4)

            changed = MergePatch({"spec": soaking("web:bad", deadline="1s")["spec"]})
            await client.patch(MANIFEST_WORK_REPLICA_SET, "web", changed, THEIRS)
            await until("timed out", 2)
            found = await told("retry")
            assert (len(found["clusters"]), found["about"]) == (2, "failed, and are tried again")
            await done("retry")
            found = await told("abort")
            assert (len(found["clusters"]), found["about"]) == (2, "have this revision; put back: revision 1")
            assert found["state"] in ("aborted", "going back")
            await done("abort")
            await until("done", 4)
            found = await told("undo", toRevision=1)
            assert (len(found["clusters"]), found["to_revision"]) == (4, 1)
            assert found["about"] == "all get revision 1, wave by wave as any change"
            await done("undo", toRevision=1)
            stored = await client.get(MANIFEST_WORK_REPLICA_SET.untyped(), "web", THEIRS)
            (manifest,) = stored["spec"]["manifestWorkTemplate"]["workload"]["manifests"]
            assert manifest["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
        await client.delete(MANIFEST_WORK_REPLICA_SET, "web", THEIRS)

    running.do(look(running.world))


def test_a_right_that_is_taken_away_takes_what_it_showed_with_it(running: Running) -> None:
    async def look(world: World) -> None:
        await world.apply(*grants("leaver", OURS, "look"))
        async with world.visitor() as browser:
            await browser.sign_in(**world.certificate("leaver"), namespaces=[OURS])
            await browser.follow(lambda feed: bool(feed.tables.get("rollouts")))
            await world.local.hub.client().delete(ROLE_BINDING, "leaver-look", OURS)
            (session,) = [each for each in world.dashboard.sessions if each.identity.name == "leaver"]
            feed = world.dashboard.feeds.of(session.identity).feed
            await feed.reader.check()
            after = await browser.follow(lambda feed: not feed.tables["rollouts"] and not feed.tables["placements"])
            assert after.tables["events"] == {}
            named = urlencode(STEER)
            assert (await browser.get(f"/api/rollout?{named}"))[0] == 403, "what was drawn before is still shown"
            assert (await browser.get(f"/api/rollout/cluster?{named}&cluster=us-01"))[0] == 403

    running.do(look(running.world))


def test_nobody_is_the_one_whose_kubeconfig_the_server_was_started_with(running: Running) -> None:
    async def look(world: World) -> None:
        with pytest.raises(Exception, match="anonymous"):
            await identify(world.dashboard._hub, User())
        assert world.dashboard._hub.user == User()
        assert world.dashboard._hub.impersonation == Impersonation()

    running.do(look(running.world))
