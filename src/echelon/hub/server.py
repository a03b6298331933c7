"""The hub as a whole: a log, logical clusters with their controllers, and one HTTPS server in front of them."""

import asyncio
import contextlib
import copy
import errno
import ipaddress
import logging
import random
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from aiohttp import web
from prometheus_client import ProcessCollector

from echelon.api.base import JSONObject
from echelon.hub.access import authorities, pki
from echelon.hub.access.audit import AuditLog, Policy
from echelon.hub.access.bootstrap import NAMESPACE as TOKENS
from echelon.hub.access.bootstrap import bootstrap_user
from echelon.hub.access.identity import (
    ADMINISTRATOR,
    AUTHENTICATED,
    MASTERS,
    Authenticator,
    StaticTokens,
    User,
    open_token_file,
    token_for_cluster,
)
from echelon.hub.access.private import DIRECTORY_MODE
from echelon.hub.access.roles import bootstrap_objects
from echelon.hub.access.signing import Signer
from echelon.hub.access.tokens import AccountTokens
from echelon.hub.address import PortTaken, remember_port, remembered_port
from echelon.hub.client import InProcessClient
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers import run_controllers
from echelon.hub.controllers.events import expire_events
from echelon.hub.controllers.root_authority import publish
from echelon.hub.schema.metadata import name_errors
from echelon.hub.storage.log import Log
from echelon.hub.storage.store import HISTORY, Key, Store
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.breaks import to_the_end
from echelon.hub.verbs.writing import create
from echelon.hub.web import resources_api
from echelon.hub.web.documents import Documents
from echelon.hub.web.doors import Doors
from echelon.hub.web.health import Health, Probe
from echelon.hub.web.http import Gate, Served
from echelon.hub.web.limits import Bounds, Limits
from echelon.hub.web.metrics import HubMetrics, Stored
from echelon.kube import errors
from echelon.kube.health import Heartbeat
from echelon.kube.metrics import Metrics

ROOT = User(ADMINISTRATOR, (MASTERS, AUTHENTICATED))
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
# How late the event loop may be before the hub calls itself dead. The largest body that a client may send takes a
# second on a machine that has nothing else to do, and nobody may have the hub ended by sending some.
_LAG_LIMIT_SECONDS = 30.0
_RENEWAL_SECONDS = 3600.0

_log = logging.getLogger(__name__)
# What a client sends that is no HTTP gets its answer; a traceback of each would only let it fill the disk.
_wire_log = logging.getLogger(f"{__name__}.wire")
_wire_log.setLevel(logging.CRITICAL)
# Selectors and continue tokens travel in the address.
_LONGEST_LINE = 64 * 1024


@dataclass(frozen=True)
class Settings:
    """How a hub runs. Without a data directory everything is in memory and gone at the end."""

    data: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    clusters: Sequence[str] = ()
    server_names: Sequence[str] = ()  # further names and addresses that the certificate is good for
    full_sync: bool = False
    audit: Policy = "writes"
    anonymous: bool = True
    event_seconds: float = 3600.0  # how long an event is kept after its last change, as in kube-apiserver
    bounds: Bounds = field(default_factory=Bounds)
    authority: authorities.RotationStep | None = None  # a step of the exchange of the authority, taken before the start
    keep_objects: bool = (
        False  # decoded, for a process whose own controllers and agents read more than the network does
    )


@dataclass
class Hub:
    """A running hub. Make one with `start`, end it with `stop`."""

    settings: Settings
    keys: pki.Pki
    admin_token: str
    _tokens: StaticTokens
    _log: Log | None
    _audit: AuditLog | None
    _served: dict[str, Served] = field(default_factory=dict)
    _controllers: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _web: web.Server | None = None
    _listener: asyncio.Server | None = None
    _heart: asyncio.Task[None] | None = None
    _stopping: bool = False
    _tls: ssl.SSLContext = field(init=False)
    _chores: list[asyncio.Task[None]] = field(default_factory=list)
    limits: Limits = field(init=False)

    @classmethod
    async def start(cls, settings: Settings) -> "Hub":
        """Open or make the data, start the clusters and listen."""
        now = datetime.now(UTC)
        hosts = _hosts(settings)
        if settings.data is None:
            token = secrets.token_urlsafe(32)
            hub = cls(settings, pki.make_pki(hosts, now), token, StaticTokens({token: ROOT}), None, None)
        else:
            # A directory that the user had before stays as open as it was: every file in it is closed by itself.
            directory = settings.data
            directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            users, token = open_token_file(directory / "tokens.csv")
            if settings.authority is not None:
                _log.info("%s", authorities.take(settings.authority, directory / "pki", now))
            authorities.settle(directory / "pki")
            keys = pki.open_pki(directory / "pki", hosts, now)
            hub = cls(
                settings,
                replace(keys, others=authorities.others(directory / "pki")),
                token,
                StaticTokens(users),
                Log(directory / "hub.db", full_sync=settings.full_sync),
                AuditLog(directory / "audit.log", policy=settings.audit),
            )
        try:
            await hub._open()
        except BaseException:
            await hub.stop()
            raise
        return hub

    async def _open(self) -> None:
        stored = self._log.clusters() if self._log is not None else []
        for name in dict.fromkeys(("", *stored, *self.settings.clusters)):
            await self.add_cluster(name)
        metrics = Metrics()
        heartbeat = Heartbeat(metrics, limit=_LAG_LIMIT_SECONDS)
        self._heart = asyncio.create_task(heartbeat.run(), name="heartbeat")
        health = Health(heartbeat, self._probes())
        ProcessCollector(registry=metrics.registry)
        documents = Documents(health, lambda: [name for name in self.cluster_names() if name], metrics.registry)
        self.limits = Limits.of(self.settings.bounds)
        gate = Gate(
            self._served.get,
            resources_api.serve,
            documents.serve,
            audit_log=self._audit,
            limits=self.limits,
            metrics=HubMetrics(metrics.registry, self._stored),
        )
        self._web = Doors(
            gate.handle,
            self.settings.bounds.request_seconds,
            handler_cancellation=True,
            access_log=None,
            logger=_wire_log,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            keepalive_timeout=120,
            auto_decompress=False,  # as in kube-apiserver: nothing that a client sends is larger than it looks
        )
        await self._listen(self._web)
        for chore, name in (
            (self._renew_certificates(), "renewals of the certificate"),
            (expire_events(self._clusters, self.settings.event_seconds), "expiries of events"),
        ):
            task = asyncio.create_task(chore, name=name)
            task.add_done_callback(_tell_failure)
            self._chores.append(task)

    def _clusters(self) -> list[LogicalCluster]:
        return [served.cluster for served in self._served.values()]

    async def _renew_certificates(self) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            try:
                await asyncio.to_thread(self.renew_certificate, datetime.now(UTC))
            except OSError as error:
                _log.error("the serving certificate cannot be renewed, will try again: %s", error)

    def renew_certificate(self, now: datetime) -> None:
        """Serve with a new certificate if the present one is about to end; open connections stay as they are."""
        directory = self.settings.data / "pki" if self.settings.data is not None else None
        if (keys := pki.renewed(self.keys, directory, _hosts(self.settings), now)) is not None:
            pki.serve_with(self._tls, keys.serving)
            self.keys = keys
            _log.info("the serving certificate was renewed, until %s", keys.serving.certificate.not_valid_after_utc)

    def _stored(self) -> Stored:
        stores = [served.cluster.store for served in self._served.values()]
        return Stored(
            objects=sum(store.count(resource) for store in stores for resource in store.resources()),
            revisions=sum(store.revision - store.compacted for store in stores),
            compacted=sum(store.compacted for store in stores),
            file_bytes=self._log.size() if self._log is not None else 0,
        )

    def _probes(self) -> dict[str, Probe]:
        async def controllers() -> str:
            ended = [task.get_name() for task in self._controllers.values() if task.done() and not self._stopping]
            return f"ended: {', '.join(ended)}" if ended else ""

        async def shutdown() -> str:
            return "the hub is stopping" if self._stopping else ""

        probes: dict[str, Probe] = {"controllers": controllers, "shutdown": shutdown}
        return probes if self._log is None else {**probes, "log": self._log.problem}

    async def _listen(self, serve: Callable[[], asyncio.Protocol]) -> None:
        host, port, data = self.settings.host, self.settings.port, self.settings.data
        before = remembered_port(data) if data is not None and not port else 0
        self._tls = context = pki.server_ssl_context(self.keys)
        loop = asyncio.get_running_loop()
        try:
            self._listener = await loop.create_server(serve, host, port or before, ssl=context, backlog=1024)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(host, port or before, remembered=bool(before)) from error
            raise
        if data is not None:
            remember_port(data, self.port)

    async def add_cluster(
        self, name: str, *, history: int = HISTORY, fill: Callable[[LogicalCluster], Awaitable[None]] | None = None
    ) -> LogicalCluster:
        """Open a logical cluster, new or stored; the empty name is the hub's own. `fill` is for one that is new."""
        if name in self._served:
            return self._served[name].cluster
        if name and (found := name_errors(name, "label")):
            raise errors.BadRequest(f'the logical cluster name "{name}" is invalid: {found[0]}')
        issuer = f"https://echelon/clusters/{name}" if name else "https://echelon"
        accounts = AccountTokens(self.keys.signing_key, issuer, now=time.time)
        store = Store(self._log, name, keep_objects=self.settings.keep_objects, history=history)
        # All logical clusters trust one authority. Who may approve in one of them must not make users of the hub.
        signer = None if name else Signer(self.keys.authority)
        cluster = LogicalCluster(name, store, accounts=accounts, signer=signer, beside=to_the_end)
        if fill is not None and not store.revision:
            await fill(cluster)
        await bootstrap(cluster)
        await publish(cluster, self.keys.authorities_pem, Request(ROOT, field_manager="echelon"))
        authenticator = Authenticator(
            now=time.time,
            authority=self.keys.authority.certificate,
            other_authorities=self.keys.others,
            tokens=self._tokens_of(name),
            accounts=accounts,
            lookup=lambda resource, namespace, account: uid_of(cluster, Key(resource, namespace, account)),
            bootstrap=lambda token: bootstrap_user(token, lambda secret: _secret(cluster, secret), cluster.clock()),
            anonymous=self.settings.anonymous,
        )
        self._served[name] = Served(cluster, authenticator)
        controllers = asyncio.create_task(run_controllers(cluster), name=f"controllers of {name or 'the hub'}")
        controllers.add_done_callback(_tell_failure)
        self._controllers[name] = controllers
        return cluster

    def _tokens_of(self, cluster: str) -> StaticTokens:
        token = self.admin_token_for(cluster)
        return self._tokens.with_token(token, ROOT) if cluster and token else self._tokens

    def admin_token_for(self, cluster: str) -> str:
        """Return the administrator's token that is good for this logical cluster, and for no other if it has a name."""
        return token_for_cluster(self.admin_token, cluster)

    def cluster(self, name: str = "") -> LogicalCluster:
        """Return a logical cluster."""
        return self._served[name].cluster

    def cluster_names(self) -> list[str]:
        """Return the names of all logical clusters; the hub's own is the empty one."""
        return sorted(self._served)

    def client(self, name: str = "", user: User = ROOT, *, field_manager: str = "echelon") -> InProcessClient:
        """Return a client for a logical cluster that needs no connection."""
        return InProcessClient(self.cluster(name), user, field_manager=field_manager)

    @property
    def port(self) -> int:
        """Where the hub listens."""
        if self._listener is None:
            raise RuntimeError("the hub does not listen yet")
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def url(self, name: str = "") -> str:
        """Return the address of a logical cluster, for clients on this machine."""
        host = self.settings.host
        if _is_any(host):
            host = "localhost"
        elif ":" in host:
            host = f"[{host}]"
        return f"https://{host}:{self.port}" + (f"/clusters/{name}" if name else "")

    async def stop(self) -> None:
        """End watches, finish what is under way, and close the log."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        for served in self._served.values():
            served.cluster.store.close()
        for task in (*self._chores, *self._controllers.values()):
            await _ended(task)
        if self._web is not None:
            await self._web.shutdown(timeout=5)
        if self._heart is not None:
            await _ended(self._heart)
        if self._log is not None:
            await self._log.close()
        if self._audit is not None:
            await asyncio.to_thread(self._audit.close)


def memory_cluster(
    name: str = "", *, clock: Callable[[], datetime] | None = None, seed: int | None = None
) -> LogicalCluster:
    """Return a logical cluster without a server around it: in memory, objects kept decoded, repeatable by seed."""
    store = Store(None, name, keep_objects=True)
    chance = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311 - a simulation wants repeats
    if clock is None:
        return LogicalCluster(name, store, random=chance)
    return LogicalCluster(name, store, clock=clock, random=chance)


async def bootstrap(cluster: LogicalCluster) -> None:
    """Make what every cluster has: the system namespaces, roles and bindings."""
    request = Request(ROOT, field_manager="echelon")
    for body in _born_with():
        group, _, version = body["apiVersion"].rpartition("/")
        resource = cluster.catalogue.of_kind(group, version, body["kind"])
        if resource is None:
            raise LookupError(f"{body['kind']} is not served")
        target = Target(resource)
        if cluster.store.latest(Key(resource.stored_as, "", body["metadata"]["name"])) is None:
            await create(cluster, target, copy.deepcopy(body), request)


@cache  # a thousand clusters begin in one process, most of them with all of it
def _born_with() -> tuple[JSONObject, ...]:
    wanted = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES]
    return (*wanted, *bootstrap_objects())


def uid_of(cluster: LogicalCluster, key: Key) -> str | None:
    """Return the uid of an object, if there is one."""
    entry = cluster.store.get(key)
    return entry.object["metadata"]["uid"] if entry else None


def _hosts(settings: Settings) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_names_of(settings.host), *settings.server_names)))


def _secret(cluster: LogicalCluster, name: str) -> JSONObject | None:
    entry = cluster.store.get(Key("secrets", TOKENS, name))
    return entry.object if entry else None


def _names_of(host: str) -> tuple[str, ...]:
    return () if _is_any(host) else (host,)


def _is_any(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return not host


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _tell_failure(task: asyncio.Task[None]) -> None:
    """Say at once that something has ended that should not: a probe says it later, and only to who asks."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s have failed", task.get_name(), exc_info=error)
