"""The dashboard in a real browser, as somebody uses it: one story."""

import asyncio
import json
import os
from typing import Any

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.events import EVENT
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.engine.cluster_health import AVAILABLE
from echelon.engine.rollout.control import PAUSED
from echelon.kube.client import MergePatch
from echelon.kube.config import User
from tests.dashboard.browser import ABSENCE, REQUIRED, Page, browser, program
from tests.dashboard.world import World, grants, world

FLEET = "6 clusters; regions us; environments staging/production"
SIZE = 1000
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\' & <b>bold</b>'
NS = "payments"
ROLLOUT = "#/rollouts/manifestworkreplicaset/payments/payments"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def chromium() -> str:
    found = program()
    if found is None and os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and there is {ABSENCE}", pytrace=False)
    if found is None:
        pytest.skip(ABSENCE)
    return found


def test_a_person_looks_steers_and_is_refused(chromium: str) -> None:
    async def story() -> None:
        async with world(FLEET) as made:
            await _fill(made)
            async with browser(chromium) as page:
                await _looks_and_steers(made, page)
                await _is_refused(made, page)
                # What the server refused is told by the browser, too; nothing else may be.
                assert [each for each in page.heard if '"source": "network"' not in each] == []

    asyncio.run(story())


async def _fill(made: World) -> None:
    """Make a thousand clusters of which six are alive, and let one and an event speak in markup."""
    await made.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}},
        *grants("looker", NS, "look"),
    )
    client = made.local.hub.client()
    for number in range(SIZE - len(made.local.fleet)):
        body = {
            **MANAGED_CLUSTER.type_meta,
            "metadata": {"name": f"far-{number:03}", "labels": {"region": "far"}},
            "spec": {"hubAcceptsClient": True},
        }
        await client.create(MANAGED_CLUSTER, body)
    condition = {
        "type": AVAILABLE,
        "status": "False",
        "reason": "Hostile",
        "message": HOSTILE,
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    }
    told = MergePatch({"status": {"conditions": [condition], "version": {"kubernetes": HOSTILE}}})
    await client.patch(MANAGED_CLUSTER, "far-000", told, subresource="status")
    event: dict[str, Any] = {
        **EVENT.type_meta,
        "metadata": {"name": "hostile", "namespace": NS},
        "eventTime": "2026-11-01T00:00:00.000000Z",
        "reportingController": "example.com/member",
        "reportingInstance": "member",
        "action": "Attack",
        "reason": "Attack",
        "regarding": {"kind": "ManifestWorkReplicaSet", "namespace": NS, "name": "payments"},
        "note": HOSTILE,
        "type": "Warning",
    }
    await client.create(EVENT, event, NS)


async def _looks_and_steers(made: World, page: Page) -> None:
    code = await made.dashboard.link(User(token=made.token))
    await page.size(1280, 800)
    await page.open(f"{made.url}/#code={code}")
    await page.until("document.querySelector('canvas')?.dataset.cells", holds=lambda cells: cells == str(SIZE))
    assert "code" not in await page.run("location.href"), "the code stays in the address"

    await page.run("document.querySelector('canvas').focus()")
    await page.key("ArrowRight")
    await page.until("document.getElementById('told').textContent", holds=lambda text: "far-000: not available" in text)
    await page.key("Enter")
    await page.until(f"document.querySelector('.panel')?.innerText.includes({json.dumps(HOSTILE)})")
    await page.key("Escape")
    assert await page.run("document.querySelector('.panel').hidden && document.activeElement.tagName === 'CANVAS'")

    await page.run("location.hash = '#/events'")
    await page.until(f"document.querySelector('main').innerText.includes({json.dumps(HOSTILE)})")

    await page.run(f"location.hash = {json.dumps(ROLLOUT)}")
    await made.example("with-approval")
    await page.run("location.hash = '#/rollouts'")
    await page.until("document.querySelector('main').innerText", holds=lambda text: "awaiting approval" in text)
    await _stays_where_it_is(made, page)
    await _fits_a_narrow_screen(page)
    await page.run(f"location.hash = {json.dumps(ROLLOUT)}")
    await _does(page, "pause", "paused")
    assert await _is_paused(made)
    await _does(page, "resume", "awaiting approval")
    assert not await _is_paused(made)
    await page.until(f"document.querySelector('.timeline')?.textContent.includes({json.dumps(HOSTILE)})")
    await _does(page, "approve", "complete")
    assert await page.run("window.hacked") is None
    assert await page.run("document.querySelectorAll('main img, main script, main b > *').length") == 0


async def _stays_where_it_is(made: World, page: Page) -> None:
    """Whoever walks through a list with the keyboard stays where they are when it is drawn anew."""
    await page.run(f"document.querySelector('main a[href={json.dumps(ROLLOUT)}]').focus()")
    client = made.local.hub.client()
    for value, state in (("true", "paused"), (None, "awaiting approval")):
        told = MergePatch({"metadata": {"annotations": {PAUSED: value}}})
        await client.patch(MANIFEST_WORK_REPLICA_SET, "payments", told, NS)
        await page.until("document.querySelector('main .state').textContent", holds=state.__eq__)
        assert await page.run("document.activeElement.getAttribute('href')") == ROLLOUT


async def _fits_a_narrow_screen(page: Page) -> None:
    """Nothing has to be scrolled to the side, what a cell means is beside it, and a table is read out as one."""
    await page.size(400, 800)
    for view in ("fleet", "rollouts", "placements", "policies", "workloads", "cliques", "events"):
        await page.run("scrollTo(0, 100)")
        await page.run(f"location.hash = '#/{view}'")
        await page.until("document.querySelector('nav [aria-current]').hash", holds=f"#/{view}".__eq__)
        wide = "[document.documentElement, ...document.querySelectorAll('.scroll')].map((each) => each.scrollWidth)"
        assert max(await page.run(wide)) <= 400, view
        assert await page.run("scrollY") == 0, view
    await page.until("!!document.querySelector('td')")
    roles = "['table', 'rowgroup', 'row', 'cell'].every((role) => document.querySelector(`[role=${role}]`))"
    assert await page.run(roles)
    assert await page.run("document.querySelector('td').dataset.label") == "When"
    await page.size(1280, 800)


async def _does(page: Page, verb: str, state: str) -> None:
    """Ask for a verb, read what it would do, confirm, and see the rollout follow."""
    await page.click(f"[data-verb={verb}]")
    await page.until("document.querySelector('dialog')?.innerText", holds=lambda text: "Then it is" in (text or ""))
    await page.click("dialog .primary")
    await page.until("!document.querySelector('dialog')", why=f"{verb} is not confirmed")
    await page.until("document.querySelector('.head .state')?.textContent", holds=lambda text: text == state)


async def _is_paused(made: World) -> bool:
    found = await made.local.hub.client().get(MANIFEST_WORK_REPLICA_SET, "payments", NS)
    return found.metadata.annotations.get(PAUSED) == "true"


async def _is_refused(made: World, page: Page) -> None:
    pair = made.certificate("looker")
    await page.run("[...document.querySelectorAll('#person button')].at(-1).click()")
    await page.click(".login .link")
    for field, text in (("certificate", pair["certificate"]), ("key", pair["key"]), ("namespaces", NS)):
        await page.run(f"document.getElementById('{field}').value = {json.dumps(text)}")
    await page.click(".login .primary")
    await page.until("document.querySelector('.user')?.textContent", holds=lambda text: text == "looker")
    # Who may not list clusters sees those that a placement of the namespace selects.
    await page.run("location.hash = '#/fleet'")
    await page.until("document.querySelector('canvas')?.dataset.cells", holds=lambda cells: cells == "6")
    await page.run("location.hash = '#/rollouts/manifestworkreplicaset/payments/payments'")
    await made.local.hub.client().patch(
        MANIFEST_WORK_REPLICA_SET,
        "payments",
        MergePatch({"spec": {"manifestWorkTemplate": {"deleteOption": {"propagationPolicy": "Orphan"}}}}),
        NS,
    )
    await page.click("[data-verb=pause]")
    await page.until(
        "document.querySelector('dialog .wrong')?.textContent", holds=lambda text: "looker" in (text or "")
    )
    assert await page.run("document.querySelector('dialog .primary').disabled")
    assert not await _is_paused(made)
