"""Makes the pictures of the dashboard in docs/images, of a fleet that `echelon up --kubeconfig FILE` runs.

python tools/screenshots.py FILE, with a fleet of 150 clusters that was just started and in which `slow starts on 6` and
`image *storefront:3.* fails on 4`. It applies examples, changes what they roll out, and drives Chromium: every view by
day, by night and on a narrow screen, each while something is going on in it. Look at what comes out before you commit
it.
"""

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from echelon.api.apps import DEPLOYMENT
from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.kinds import Kind
from echelon.api.policy import POLICY
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.cli.demo import apply
from echelon.cli.examples import example
from echelon.dashboard.server import Dashboard, Settings, serving
from echelon.kube.client import Client, JSONPatch
from echelon.kube.config import ClusterConfig, load
from echelon.kube.errors import Conflict
from echelon.kube.http import HttpClient
from echelon.rollouts.kinds import find
from echelon.rollouts.sharing import svg

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.dashboard.browser import Page, browser, program  # noqa: E402 - it is not installed
from tools.small_png import small  # noqa: E402

IMAGES = ROOT / "docs" / "images"
EXAMPLES = ("canary-then-regions", "with-approval", "policy-drift-in-waves", "deployment-one-budget", "everywhere")
MANIFEST = "/spec/manifestWorkTemplate/workload/manifests/1/spec/template/spec/containers/0/image"
CONTAINER = "/spec/template/spec/containers/0/image"
DATA = "/spec/policy-templates/0/objectDefinition/spec/object-templates/0/objectDefinition/data/idle-minutes"
CLIQUE = "/spec/template/cliques/0/spec/podSpec/containers/0/image"
BUDGET = "/spec/placementRefs/0/rolloutStrategy/progressivePerGroup/maxFailures"
STORE = "rollouts/manifestworkreplicaset/shop/storefront"
OVER = ("complete", "stopped", "finished, not everywhere")
STATE = "document.querySelector('.head .state')?.textContent"


@dataclass(frozen=True)
class Look:
    """How a page is looked at; the `number` makes what is rolled out another one each time."""

    number: int
    suffix: str
    width: int = 1280
    dark: bool = False


LOOKS = (Look(1, ""), Look(2, "-dark", dark=True), Look(3, "-narrow", width=400))


async def take(kubeconfig: Path) -> None:
    """Take all pictures."""
    path = program()
    if path is None:
        raise SystemExit("there is no browser")
    config = load(kubeconfig)
    async with HttpClient(config) as client, serving(config, Settings("127.0.0.1", 0)) as (made, url):
        for name in EXAMPLES:
            with suppress(Conflict):  # it was changed by an earlier run
                await apply(client, _documents(name))
        await replaced(client, MANIFEST_WORK_REPLICA_SET, "storefront", "shop", {BUDGET: 5})
        async with browser(path) as page:
            for look in LOOKS:
                await page.open(url)
                await seen(page, look)
                await page.until("!!document.querySelector('.login')")
                await shot(page, look, "login")
                await sign_in(made, config, page, url)
                await rollout(client, page, look)
                await others(client, page, look)
                await page.run("[...document.querySelectorAll('#person button')].at(-1).click()")
            _, found = await find(client, "manifestworkreplicaset/storefront", "shop")
            now = datetime.now(UTC)
            await asyncio.to_thread((IMAGES / "rollout.svg").write_text, svg(found.picture(now), now))
    await of_member(path, kubeconfig)


async def rollout(client: Client, page: Page, look: Look) -> None:
    """Take pictures of a rollout while clusters move, and some have failed."""
    await view(page, STORE)
    await page.until(STATE, holds=lambda text: text in OVER, seconds=600)
    await replaced(client, MANIFEST_WORK_REPLICA_SET, "storefront", "shop", {MANIFEST: f"storefront:3.{look.number}"})
    await page.until("!document.querySelector('.progress .s-timed-out')")  # the page has the new revision
    third = "document.querySelector('.card:nth-of-type(3) .bar')"
    mixed = f"{third}?.querySelector('.s-done') && {third}.querySelector('.s-in-flight')"
    await page.until(f"!!(document.querySelector('.progress .s-timed-out') && {mixed})", seconds=600)
    await shot(page, look, "rollout")
    await view(page, "fleet")
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
    await page.until("!!document.querySelector('.legend .s-timed-out')")
    await shot(page, look, "fleet")
    await view(page, "rollouts")
    await shot(page, look, "rollouts")
    await view(page, "fleet")
    await page.until("!!document.querySelector('.legend .s-timed-out')")
    # The cluster that has failed is the one that somebody would open.
    await page.run(
        "(async () => { const canvas = document.querySelector('canvas'), told = document.getElementById('told');"
        "canvas.focus(); for (let at = 0; at < 150 && !told.textContent.includes('timed out'); at++)"
        "canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true })); })()"
    )
    await page.key("Enter")
    await page.until("!!document.querySelector('.panel .facts')")
    await shot(page, look, "cluster", whole=True)


async def others(client: Client, page: Page, look: Look) -> None:
    """Take pictures of the other views, each with something to see."""
    await view(page, "placements")
    await shot(page, look, "placements")
    await view(page, "placements/payments/payments")
    await page.until("!!document.querySelector('table')")
    await shot(page, look, "placement")

    await replaced(client, POLICY, "session-limits", "guardrails", {DATA: str(9 + look.number)})
    await view(page, "policies")
    half = "document.querySelector('.bar .s-done') && document.querySelector('.bar .s-failed')"
    await page.until(f"!!({half})")
    await shot(page, look, "policies")

    await view(page, "workloads")
    await page.until("!!document.querySelector('details')")
    await page.run("document.querySelector('details').open = true")
    await replaced(client, DEPLOYMENT, "demo", "budgets", {CONTAINER: f"nginx:v{1 + look.number}"})
    await page.until(
        "document.querySelector('.figures')?.innerText", holds=lambda text: _is_between(text or ""), seconds=120
    )
    await shot(page, look, "workloads")

    await view(page, "events")
    await shot(page, look, "events")
    await view(page, "rollouts/manifestworkreplicaset/payments/payments")
    await page.click("[data-verb=approve]")
    await page.until("document.querySelector('dialog')?.innerText", holds=lambda text: "Then it is" in (text or ""))
    await shot(page, look, "approve", whole=True)
    await page.click("dialog button")


def _is_between(text: str) -> bool:
    """Whether some pods have the new template, others have not, and some of the budget is used."""
    return any(f"\n{number} of 10\n" in text for number in range(3, 8)) and "0 of 2 used" not in text


async def of_member(path: str, kubeconfig: Path) -> None:
    """Take pictures of a cluster that runs pod cliques, by its own dashboard, while replicas are replaced."""
    config = load(kubeconfig, member_in(kubeconfig))
    async with HttpClient(config) as client:
        await apply(client, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference"}}])
        with suppress(Conflict):
            await apply(client, _documents("pod-cliques-inference"))
        async with serving(config, Settings("127.0.0.1", 0)) as (made, url), browser(path) as page:
            for look in LOOKS:
                await page.open(url)
                await seen(page, look)
                await sign_in(made, config, page, url)
                await view(page, "cliques")
                await page.until("document.querySelector('.card .state')?.textContent", holds="complete".__eq__)
                image = {CLIQUE: f"chat-router:1.{4 + look.number}"}
                await replaced(client, POD_CLIQUE_SET, "chat", "default", image)
                await page.until("!!document.querySelector('.card .bar .s-in-flight')")
                await shot(page, look, "cliques")
                await page.run("[...document.querySelectorAll('#person button')].at(-1).click()")


async def replaced(client: Client, kind: Kind[Any], name: str, namespace: str, values: dict[str, Any]) -> None:
    """Change an object, so that something is rolled out."""
    told = {path: f"registry.example.com/{value}" if "/image" in path else value for path, value in values.items()}
    patch = JSONPatch([{"op": "replace", "path": path, "value": value} for path, value in told.items()])
    await client.patch(kind.untyped(), name, patch, namespace)


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


async def view(page: Page, name: str) -> None:
    """Open a view."""
    await page.run(f"location.hash = '#/{name}'")


async def seen(page: Page, look: Look) -> None:
    """Let a page be looked at so."""
    await page.size(look.width, 800)
    await page.dark(on=look.dark)


async def shot(page: Page, look: Look, name: str, *, whole: bool = False) -> None:
    """Take a picture when the page is at rest, as high as what is on it, or the `whole` window."""
    await asyncio.sleep(0.5)
    bottom = await page.run("Math.ceil(Math.min(document.getElementById('main').getBoundingClientRect().bottom, 800))")
    path = IMAGES / f"dashboard-{name}{look.suffix}.png"
    await page.picture(path, height=0 if whole else max(bottom, 300))
    await asyncio.to_thread(lambda: path.write_bytes(small(path.read_bytes())))


def _documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all(example(f"{name}.yaml").read_text()))


if __name__ == "__main__":
    asyncio.run(take(Path(sys.argv[1])))
