"""Makes the pictures of the dashboard in docs/images, of a fleet that `echelon up --kubeconfig FILE` runs.

python tools/screenshots.py FILE, with a fleet of which `image *storefront:3.0 fails on` some. It applies examples,
rolls that image out, and drives Chromium. Look at what comes out before you commit it.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.demo import apply
from echelon.cli.examples import example
from echelon.dashboard.server import Dashboard, Settings, serving
from echelon.kube.client import JSONPatch
from echelon.kube.config import ClusterConfig, load
from echelon.kube.errors import Conflict
from echelon.kube.http import HttpClient
from echelon.rollouts.kinds import find
from echelon.rollouts.sharing import svg

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.dashboard.browser import Page, browser, program  # noqa: E402 - it is not installed

IMAGES = ROOT / "docs" / "images"
EXAMPLES = ("canary-then-regions", "with-approval", "policy-drift-in-waves", "deployment-one-budget", "everywhere")
IMAGE = "/spec/manifestWorkTemplate/workload/manifests/1/spec/template/spec/containers/0/image"
STORE = "rollouts/manifestworkreplicaset/shop/storefront"
VIEWS = (
    ("placements/shop/storefront", "placement"),
    ("policies", "policies"),
    ("workloads", "workloads"),
    ("events", "events"),
)


async def take(kubeconfig: Path) -> None:
    """Take all pictures."""
    config = load(kubeconfig)
    path = program()
    if path is None:
        raise SystemExit("there is no browser")
    async with HttpClient(config) as client, serving(config, Settings("127.0.0.1", 0)) as (made, url):
        for name in EXAMPLES:
            with suppress(Conflict):  # it was changed by an earlier run
                await apply(client, _documents(name))
        async with browser(path) as page:
            await page.size(1280, 800)
            await page.open(url)
            await page.until("!!document.querySelector('.login')")
            await shot(page, "login")
            await sign_in(made, config, page, url)
            await change(client, page)
            await pictures(page)
            async with HttpClient(config) as looking:
                _, found = await find(looking, "manifestworkreplicaset/storefront", "shop")
            now = datetime.now(UTC)
            await asyncio.to_thread((IMAGES / "rollout.svg").write_text, svg(found.picture(now), now))
    await of_member(path, kubeconfig)


async def change(client: Any, page: Page) -> None:
    """Wait until the first revision is everywhere, and roll out another that some clusters cannot run."""
    await page.run(f"location.hash = '#/{STORE}'")
    state = "document.querySelector('.head .state')?.textContent"
    for _ in range(6):  # as long as it takes
        try:
            await page.until(state, holds=lambda text: text in ("complete", "stopped"))
            break
        except AssertionError:
            continue
    patch = JSONPatch([{"op": "replace", "path": IMAGE, "value": "registry.example.com/storefront:3.0"}])
    await client.patch(MANIFEST_WORK_REPLICA_SET.untyped(), "storefront", patch, "shop")
    await page.until("!!document.querySelector('.tree .s-failed, .tree .s-timed-out')")


async def pictures(page: Page) -> None:
    """Take pictures of one fleet."""
    await asyncio.sleep(1)
    await shot(page, "rollout")
    await page.size(400, 800)
    await shot(page, "rollout-narrow")
    await page.size(1280, 800)
    await page.run("location.hash = '#/fleet'")
    await page.until("!!document.querySelector('#shows option[value^=rollout]')")
    await page.until(
        "!!document.querySelector('#by option[value^=placement]') && !!document.querySelector('.legend li')"
    )
    for field, value in (
        ("by", "placement:shop/storefront"),
        ("shows", "rollout:manifestworkreplicaset/shop/storefront"),
    ):
        await page.run(
            f"document.getElementById('{field}').value = '{value}';"
            f"document.getElementById('{field}').dispatchEvent(new Event('change'))"
        )
    await asyncio.sleep(2)
    await shot(page, "fleet")
    await page.dark(on=True)
    await shot(page, "fleet-dark")
    await page.run("location.hash = '#/rollouts'")
    await shot(page, "rollouts-dark")
    await page.run(f"location.hash = '#/{STORE}'")
    await shot(page, "rollout-dark")
    await page.dark(on=False)
    await page.run("location.hash = '#/rollouts'")
    await shot(page, "rollouts")
    for view, name in VIEWS:
        await page.run(f"location.hash = '#/{view}'")
        if name == "workloads":
            await page.until("!!document.querySelector('details')")
            await page.run("document.querySelector('details').open = true")
        await shot(page, name)
    await page.run("location.hash = '#/rollouts/manifestworkreplicaset/payments/payments'")
    await page.click("[data-verb=approve]")
    await page.until("document.querySelector('dialog')?.innerText", holds=lambda text: "Then it is" in (text or ""))
    await shot(page, "approve")


async def of_member(path: str, kubeconfig: Path) -> None:
    """Take a picture of a cluster that runs pod cliques, by its own dashboard."""
    config = load(kubeconfig, member_in(kubeconfig))
    async with HttpClient(config) as client:
        await apply(client, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}}])
        await apply(client, _documents("pod-cliques-inference"))
    async with serving(config, Settings("127.0.0.1", 0)) as (made, url), browser(path) as page:
        await page.size(1280, 800)
        await sign_in(made, config, page, url)
        await page.run("location.hash = '#/cliques'")
        await page.until("document.querySelector('main').innerText", holds=lambda text: "Running" in text)
        await shot(page, "cliques")


def member_in(kubeconfig: Path) -> str:
    """Return the context of a member."""
    contexts = yaml.safe_load(kubeconfig.read_text())["contexts"]
    return str(next(each["name"] for each in contexts if "-" in each["name"]))


async def sign_in(made: Dashboard, config: ClusterConfig, page: Page, url: str) -> None:
    """Sign in as whoever the kubeconfig is of."""
    code = await made.link(replace(config.user))
    await page.open("about:blank")
    await page.open(f"{url}/#code={code}")
    await page.until("!!document.querySelector('canvas')")


async def shot(page: Page, name: str) -> None:
    """Take a picture when the page is at rest."""
    await asyncio.sleep(1)
    await page.picture(IMAGES / f"dashboard-{name}.png")


def _documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all(example(f"{name}.yaml").read_text()))


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
