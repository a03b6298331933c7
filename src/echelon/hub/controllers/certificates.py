"""Signs what was approved, and tidies up behind requests and bootstrap tokens, as kube-controller-manager does.

A request is kept for an hour after it was decided and for a day while it is not; a token goes when it expires. These
are looked at when something of the kind changes, and every few minutes while there are any: nothing waits for them.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from echelon.api.base import JSONObject
from echelon.api.certificates import APPROVED, CLIENT_SIGNER, DENIED, FAILED, GROUP
from echelon.api.times import parse_time
from echelon.hub.access.bootstrap import NAMESPACE, TYPE
from echelon.hub.access.identity import User
from echelon.hub.access.signing import NotSigned, Signer
from echelon.hub.cluster import LogicalCluster
from echelon.hub.controllers.todo import Todo
from echelon.hub.storage.store import Change, Entry, Key
from echelon.hub.verbs import deletion
from echelon.hub.verbs.admission import Request, Target
from echelon.hub.verbs.writing import store_update
from echelon.kube.client import DeleteOptions, EventType, Preconditions

REQUESTS: Final = f"certificatesigningrequests.{GROUP}"
_SECRETS: Final = "secrets"
_KEPT_DECIDED, _KEPT_PENDING = timedelta(hours=1), timedelta(hours=24)
_LOOK_SECONDS: Final = 300.0
_CONTROLLER = Request(User("system:serviceaccount:kube-system:certificate-controller", ("system:masters",)))


class CertificateController:
    """Looks at requests and tokens that change, and at all of them every few minutes. Needs a signer to sign."""

    def __init__(self, cluster: LogicalCluster) -> None:
        self.cluster = cluster
        self.todo = _Timed(f"{cluster.title}: certificate request or bootstrap token", self._settle)

    def follow(self, change: Change) -> None:
        """Learn of a change."""
        key = change.entry.key
        if key.resource == REQUESTS or (key.resource == _SECRETS and _is_token(change.entry)):
            if change.type is EventType.DELETED:
                self.todo.discard(key)
            else:
                self.todo.add(key)

    async def work(self) -> None:
        """Do what is due."""
        await self.todo.work()

    async def _settle(self, key: Key) -> None:
        entry, now = self.cluster.store.latest(key), self.cluster.clock()
        if entry is None:
            return
        if key.resource == REQUESTS and await self._answer(entry, now):
            return
        end = _end(entry)
        if end is None:
            return
        if end <= now:
            await self._delete(entry)
        else:
            self.todo.later(key, (end - now).total_seconds())

    async def _answer(self, entry: Entry, now: datetime) -> bool:
        """Sign a request that is due; say whether it was changed."""
        obj, signer = entry.object, self.cluster.signer
        status = obj.get("status") or {}
        said = {each["type"] for each in status.get("conditions") or ()}
        due = APPROVED in said and not said & {DENIED, FAILED} and not status.get("certificate")
        if signer is None or not due or obj["spec"]["signerName"] != CLIENT_SIGNER:
            return False
        resource = self.cluster.catalogue.find(GROUP, "v1", "certificatesigningrequests")
        new = {**obj, "status": self._signed(signer, obj, status, now)}
        await store_update(self.cluster, Target(resource, "", entry.key.name), entry, new)
        return True

    def _signed(self, signer: Signer, obj: JSONObject, status: JSONObject, now: datetime) -> JSONObject:
        spec = obj["spec"]
        try:
            request = base64.b64decode(spec["request"])
            made = signer.sign(request, spec.get("usages") or [], spec.get("expirationSeconds"), now)
        except NotSigned as error:
            when = self.cluster.timestamp()
            failed = {"type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": str(error)}
            failed |= {"lastUpdateTime": when, "lastTransitionTime": when}
            return {**status, "conditions": [*status["conditions"], failed]}
        return {**status, "certificate": base64.b64encode(made).decode()}

    async def _delete(self, entry: Entry) -> None:
        group, plural = (GROUP, "certificatesigningrequests") if entry.key.resource == REQUESTS else ("", _SECRETS)
        target = Target(self.cluster.catalogue.find(group, "v1", plural), entry.key.namespace, entry.key.name)
        options = DeleteOptions(Preconditions(uid=entry.object["metadata"]["uid"]))
        await deletion.delete(self.cluster, target, options, _CONTROLLER)


class _Timed(Todo[Key]):
    """Keys that are due at a time, besides those that are due now."""

    def __init__(self, what: str, settle: Callable[[Key], Awaitable[None]]) -> None:
        super().__init__(what, settle)
        self._later: dict[Key, float] = {}

    def later(self, key: Key, seconds: float) -> None:
        """Look at something after a time; at most some minutes later, because clocks can be set."""
        self._later[key] = asyncio.get_running_loop().time() + min(seconds + 1.0, _LOOK_SECONDS)

    def discard(self, key: Key) -> None:
        """Forget something that is gone."""
        super().discard(key)
        self._later.pop(key, None)

    @property
    def delay(self) -> float | None:
        """How many seconds there is nothing to do; None while nothing waits."""
        soonest = super().delay
        if not self._later:
            return soonest
        left = max(0.0, min(self._later.values()) - asyncio.get_running_loop().time())
        return left if soonest is None else min(left, soonest)

    async def work(self) -> None:
        """Do what is due."""
        now = asyncio.get_running_loop().time()
        for key in [key for key, due in self._later.items() if due <= now]:
            del self._later[key]
            self.add(key)
        await super().work()


def _is_token(entry: Entry) -> bool:
    return entry.key.namespace == NAMESPACE and entry.object.get("type") == TYPE


def _end(entry: Entry) -> datetime | None:
    """Return when something may go."""
    obj = entry.object
    if entry.key.resource == REQUESTS:
        created = parse_time(obj["metadata"]["creationTimestamp"])
        decided = [parse_time(each.get("lastUpdateTime")) for each in (obj.get("status") or {}).get("conditions") or ()]
        times = [each for each in decided if each is not None]
        if times:
            return max(times) + _KEPT_DECIDED
        return created + _KEPT_PENDING if created is not None else None
    said = (obj.get("data") or {}).get("expiration")
    return parse_time(base64.b64decode(said).decode("utf-8", "replace")) if said else None
