"""Answers what an evaluation asks: from watches where there are some, else by asking the cluster.

A server that is away for a moment says nothing about a policy, so it is asked again before a failure is told. One that
stays away must not hold up the policies that wait behind this one: after a few such failures nothing more is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from echelon.agent.configuration_policy.watched_objects import ALL_NAMESPACES, Looks, WatchedObjects
from echelon.agent.discovery import ServedKinds, UnknownKind
from echelon.agent.manifest_result import is_transient
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.engine.configuration_policy.namespaces import NamespaceFacts
from echelon.engine.configuration_policy.requests import (
    Cause,
    Do,
    FindKind,
    Get,
    IsGone,
    List,
    ListNamespaces,
    Pause,
    Refusal,
    Remember,
    Request,
    Steps,
    Try,
)
from echelon.engine.work.reporting import Present
from echelon.kube.client import Client, DeleteOptions, Preconditions, WriteOptions
from echelon.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Invalid, NotFound
from echelon.kube.write import write

T = TypeVar("T")

PAUSES_SECONDS = (0.5, 2.0)  # before a server that is in trouble is asked again
CONFLICT_SECONDS = 0.2
MOST_TROUBLE = 3  # failures of an evaluation after which the server is left alone
PAGE_SIZE = 500
_AT_ONCE = 50  # answers that cost nothing before others have their turn
_NO_DRY_RUN = "does not support dry run"


class Answers:
    """What one evaluation asks for, and what it is answered.

    `remember` writes on the policy; `before_write` raises if the policy is no longer the one that is evaluated.
    """

    def __init__(
        self,
        member: Client,
        kinds: ServedKinds,
        watched: WatchedObjects,
        manager: str,
        *,
        remember: Callable[[Remember], Awaitable[None]],
        before_write: Callable[[], Awaitable[None]],
    ) -> None:
        self.looks = Looks()
        self._member = member
        self._kinds = kinds
        self._watched = watched
        self._strict = WriteOptions(field_manager=manager, field_validation="Strict")
        self._trial = WriteOptions(dry_run=True, field_manager=manager, field_validation="Strict")
        self._remember = remember
        self._before_write = before_write
        self._trouble: list[str] = []

    async def carry_out(self, steps: Steps[T]) -> T:
        """Answer everything to the end, and return what came of it."""
        answer: Any = None
        number = 0
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as stop:
                result: T = stop.value
                return result
            self.looks.note(request)
            answer = await self._answer(request)
            number += 1
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _answer(self, request: Request) -> Any:
        match request:
            case Pause():
                await asyncio.sleep(0)
                return None
            case Remember():
                await self._remember(request)
                return None
            case Get(fresh=False) if (known := self._watched.get(request)) is not None:
                return known.object if isinstance(known, Present) else None
            case List() if (listed := self._watched.list(request)) is not None:
                return listed
        if isinstance(request, Do):
            await self._before_write()
        return await self._ask(request)

    async def _ask(self, request: Request) -> Any:
        """Ask the cluster, more than once if that may help."""
        if len(self._trouble) >= MOST_TROUBLE:
            return Refusal(Cause.TROUBLE, f"not tried, because the server is in trouble: {self._trouble[-1]}")
        for pause in (*PAUSES_SECONDS, None):
            try:
                return await self._send(request)
            except ApiError as error:
                refusal = _refusal(request, error)
                if refusal.cause is not Cause.TROUBLE or pause is None:
                    break
                await asyncio.sleep(max(pause, min(error.retry_after, PAUSES_SECONDS[-1])))
        if refusal.cause is Cause.TROUBLE:
            self._trouble.append(refusal.message)
        if refusal.cause is Cause.CONFLICT:
            await asyncio.sleep(CONFLICT_SECONDS)  # whoever writes there should come to an end first
        return refusal

    async def _send(self, request: Request) -> Any:
        match request:
            case FindKind():
                return await self._find_kind(request)
            case ListNamespaces():
                return await self._namespaces()
            case Get(kind, namespace, name):
                return await self._get(kind, namespace, name)
            case IsGone():
                return await self._is_gone(request)
            case List(kind, namespace):
                return await list_all(self._member, kind, namespace)
            case Try():
                return await write(request.write, self._member, self._trial)
            case Do():
                return await write(request.write, self._member, self._strict)
        raise AssertionError(f"nobody answers {request}")

    async def _find_kind(self, request: FindKind) -> Kind[JSONObject] | None:
        try:
            return await self._kinds.find(request.api_version, request.kind)
        except UnknownKind:
            return None

    async def _get(self, kind: Kind[Any], namespace: str, name: str) -> JSONObject | None:
        try:
            found: JSONObject = await self._member.get(kind, name, namespace)
        except NotFound as error:
            if not error.details.get("name"):
                self._kinds.forget(kind.api_version)  # it is the kind that is gone
            return None
        return found

    async def _is_gone(self, request: IsGone) -> bool:
        """Make sure that an object is gone: a read may be of the past, an attempt to write is not."""
        options = DeleteOptions(Preconditions(uid=request.uid), dry_run=True)
        try:
            await self._member.delete(request.kind, request.name, request.namespace, options=options)
        except NotFound:
            return True
        except Conflict as error:
            if not request.uid or request.uid not in error.message:
                raise  # it lost against another write
            return True  # the name is another's by now, as both uids in the message say
        return False

    async def _namespaces(self) -> Sequence[NamespaceFacts]:
        known = self._watched.list(List(ALL_NAMESPACES.kind, ""))
        return facts_of(await list_all(self._member, ALL_NAMESPACES.kind, "") if known is None else known)


def facts_of(namespaces: Sequence[JSONObject]) -> list[NamespaceFacts]:
    """Return what there is to know of namespaces."""
    found = [msgspec.convert(each, NAMESPACE.type) for each in namespaces]
    return [
        NamespaceFacts(
            each.metadata.name,
            each.metadata.labels,
            bool(each.metadata.deletion_timestamp) or each.status.phase == "Terminating",
        )
        for each in found
    ]


async def list_all(member: Client, kind: Kind[Any], namespace: str) -> list[JSONObject]:
    """Return all objects of a kind in a namespace, page by page."""
    found: list[JSONObject] = []
    token = ""
    while True:
        page = await member.list(kind, namespace, limit=PAGE_SIZE, continue_=token)
        found += page.items
        token = page.continue_
        if not token:
            return found


def _refusal(request: Request, error: ApiError) -> Refusal:
    cause = Cause.REFUSED
    if isinstance(error, Conflict | AlreadyExists) or _is_of_another_object(error):
        cause = Cause.CONFLICT
    elif isinstance(error, NotFound):
        cause = Cause.NOT_FOUND
    elif isinstance(error, Invalid | BadRequest):
        unanswerable = isinstance(request, Try) and _NO_DRY_RUN in error.message
        cause = Cause.NO_DRY_RUN if unanswerable else Cause.INVALID
    elif is_transient(error):
        cause = Cause.TROUBLE
    return Refusal(cause, error.message)


def _is_of_another_object(error: ApiError) -> bool:
    """Whether a patch met another object of the same name: servers say that a uid may not change."""
    causes = error.details.get("causes") or () if isinstance(error, Invalid) else ()
    return any(isinstance(each, dict) and each.get("field") == "metadata.uid" for each in causes)
