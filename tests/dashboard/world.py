"""A small fleet with its hub, the dashboard in front of it, and people with different rights."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from echelon.api.base import JSONObject
from echelon.cli.demo import apply
from echelon.dashboard.server import Dashboard, Settings, serving
from echelon.fleet.local import Local
from echelon.fleet.local import Settings as FleetSettings
from echelon.install.hub import HUB
from echelon.kube.config import ClusterConfig, Impersonation, User

EXAMPLES = Path(__file__).parents[2] / "examples"
RBAC = "rbac.authorization.k8s.io"
PATIENCE_SECONDS = 120.0


LOOK = frozenset(("get", "list", "watch"))


def grants(user: str, namespace: str, role: str) -> list[JSONObject]:
    """Return what gives somebody `edit` of the installed roles in a namespace; with `look`, only the reading of it."""
    installed = HUB.manifests({"image": {"repository": "registry.example/echelon"}})
    gathered = [each for each in installed if f"{RBAC}/aggregate-to-edit" in each["metadata"].get("labels", {})]
    built_in = {"apiGroups": ["apps"], "resources": ["controllerrevisions"], "verbs": [*LOOK]}
    meta = {"name": f"{user}-{role}", "namespace": namespace}
    rules = [rule for each in gathered for rule in each["rules"]] + [built_in]
    if role == "look":
        read = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb in LOOK]} for rule in rules]
        rules = [rule for rule in read if rule["verbs"]]
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    return [
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": meta["name"]},
            "subjects": [subject],
        },
    ]


@dataclass
class Feed:
    """What a page knows: the tables, as they are after all messages so far."""

    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: int = 0
    unseen: dict[str, str] = field(default_factory=dict)
    ready: bool = False
    over: bool = False

    def take(self, message: JSONObject) -> None:
        self.messages += 1
        self.ready = message["ready"]
        self.unseen = message.get("unseen", self.unseen)
        for name, change in message.items():
            if isinstance(change, dict) and "gone" in change:
                table = {} if message.get("full") else self.tables.get(name, {})
                kept = {key: row for key, row in table.items() if key not in change["gone"]}
                self.tables[name] = kept | change["set"]


class Visitor:
    """A browser without a window: it keeps cookies, and sends what the page would send."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url, self.csrf = session, url, ""

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(f"{self.url}{path}", headers=headers) as answer:
            return answer.status, await _body(answer)

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        usual = {"Origin": self.url, "X-Echelon-Token": self.csrf, "Content-Type": "application/json"}
        said = {key.replace("_", "-"): value for key, value in headers.items()}
        sent = {key: value for key, value in (usual | said).items() if value}
        async with self.session.post(f"{self.url}{path}", data=json.dumps(body), headers=sent) as answer:
            return answer.status, await _body(answer)

    async def sign_in(self, **credential: Any) -> JSONObject:
        status, told = await self.post("/api/login", credential)
        assert status == 200, told
        self.csrf = told["csrf"]
        return dict(told)

    async def follow(self, until: Callable[[Feed], bool]) -> Feed:
        """Follow the feed until it shows something."""
        feed = Feed()
        async with asyncio.timeout(PATIENCE_SECONDS), self.session.get(f"{self.url}/api/feed") as answer:
            assert answer.status == 200, await answer.text()
            assert answer.headers["Content-Type"] == "text/event-stream"
            async for message in _messages(answer):
                feed.take(message)
                if until(feed):
                    return feed
        feed.over = True
        return feed


async def _messages(answer: aiohttp.ClientResponse) -> AsyncIterator[JSONObject]:
    text = b""
    async for chunk in answer.content.iter_any():
        text += chunk
        while b"\n\n" in text:
            message, _, text = text.partition(b"\n\n")
            if message.startswith(b"event: over"):
                return
            if message.startswith(b"data: "):
                yield json.loads(message[6:])


async def _body(answer: aiohttp.ClientResponse) -> Any:
    text = await answer.text()
    return json.loads(text) if answer.content_type == "application/json" else text


@dataclass
class World:
    """Everything."""

    local: Local
    dashboard: Dashboard
    url: str

    @asynccontextmanager
    async def visitor(self) -> AsyncIterator[Visitor]:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield Visitor(session, self.url)

    @property
    def token(self) -> str:
        return self.local.hub.admin_token

    def certificate(self, user: str) -> dict[str, str]:
        issued = self.local.hub.keys.client_certificate(user, (), datetime.now(UTC))
        return {"certificate": issued.certificate_pem.decode(), "key": issued.key_pem.decode()}

    async def apply(self, *documents: JSONObject) -> None:
        await apply(self.local.hub.client(field_manager="kubectl"), documents)

    async def example(self, name: str) -> None:
        await self.apply(*yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


@asynccontextmanager
async def world(fleet: str) -> AsyncIterator[World]:
    local = await Local.start(FleetSettings(fleet))
    try:
        await local.wait_joined()
        hub = local.hub
        # With the administrator's token and somebody to act as, as a kubeconfig may have them.
        config = ClusterConfig(
            hub.url(),
            authority=hub.keys.authorities_pem,
            user=User(token=hub.admin_token),
            impersonation=Impersonation(user="somebody-else", groups=("system:masters",)),
        )
        async with serving(config, Settings("127.0.0.1", 0)) as (dashboard, url):
            yield World(local, dashboard, url)
    finally:
        await local.stop()
