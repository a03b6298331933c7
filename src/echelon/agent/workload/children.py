"""What is under way below a workload: its ReplicaSets or pods, listed after the object was read.

A list is what proves anything: a cache may be older than the object. So caches only tell that it is worth asking
again, and keep of each child no more than whose it is. There is a limit to them, as to all watches.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from echelon.agent.context import AgentContext
from echelon.api import labels
from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.versions import newer
from echelon.engine.align.interpreters import Interpreter
from echelon.engine.align.under_way import (
    PODS,
    REPLICA_SETS,
    ChildKind,
    PodFacts,
    SetFacts,
    UnderWay,
    children_of,
    read_pod,
    read_replica_set,
    under_pods,
    under_replica_sets,
)
from echelon.engine.work.health_state import number, part, text
from echelon.kube.errors import Forbidden, Gone, NotFound, Unavailable
from echelon.kube.informer import Delta, Informer

PAGE_SIZE = 500
_MOST_RESTARTS = 3
_SECONDS_EACH = 1e-4  # roughly, to read a child without its template
_SECONDS_PER_BYTE = 1e-8
_TEMPLATES_KEPT = 16  # of one workload: a Deployment keeps ten ReplicaSets of the past, unless somebody says otherwise

_log = logging.getLogger(__name__)


class _Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    uid: str = ""
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    owner_references: list[_Owner] = []


class _Trace(msgspec.Struct, frozen=True):
    """What is kept of a child: that it is there, and whose it is."""

    metadata: _Meta = _Meta()


_KINDS: dict[ChildKind, Kind[JSONObject]] = {
    REPLICA_SETS: Kind[Any]("apps", "v1", "ReplicaSet", "replicasets", dict[str, Any], status=True),
    PODS: Kind[Any]("", "v1", "Pod", "pods", dict[str, Any], status=True),
}


class _Scope(NamedTuple):
    """What one watch covers."""

    children: ChildKind
    namespace: str
    selector: str


class CannotTell(Exception):
    """The children may not be read, or are of a kind that is not known."""


class NotYet(Exception):
    """What is under way cannot be said before the controller has observed the object."""


class Children:
    """Reads and watches what is below the workloads of one agent."""

    def __init__(self, context: AgentContext, changed: Callable[[str], None]) -> None:
        """`changed` hears the name of a work below whose workload something has changed."""
        self._context = context
        self._changed = changed
        self._watches: dict[_Scope, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # those that have not come to their end yet, wanted or not
        self._scopes: dict[str, tuple[_Scope, str]] = {}  # by work: what it watches, and the uid of its workload
        self._templates: dict[str, OrderedDict[str, str]] = {}  # by work: hashes of the templates of ReplicaSets
        self._generations: dict[str, tuple[str, OrderedDict[int, str]]] = {}  # by work: its templates, and whose
        self._listed: dict[str, int] = {}  # by work: how many children the last list had
        self._sizes: dict[str, int] = {}  # by work: of the present template, in bytes
        self._told = False

    def watch(self, name: str, obj: JSONObject, interpreter: Interpreter) -> bool:
        """Watch what is below the workload of a work; tell whether changes are heard of."""
        scope = _scope(obj, interpreter)
        if scope is None:
            self.forget(name)
            return False
        wanted = (scope, text(part(obj, "metadata"), "uid"))
        if self._scopes.get(name) != wanted:
            self._scopes[name] = wanted
            self._end_unused()
        if scope not in self._watches and len(self._watches) < self._context.settings.max_watches:
            self._watches[scope] = self._start(scope)
        return scope in self._watches

    def template(self, name: str, obj: JSONObject, interpreter: Interpreter) -> str:
        """Return the hash of the template that a workload has, and remember it for its generation."""
        meta = part(obj, "metadata")
        uid, generation = text(meta, "uid"), number(meta, "generation")
        whose, known = self._generations.get(name, ("", OrderedDict()))
        if whose != uid:
            known = OrderedDict()
            self._generations[name] = (uid, known)
        template = known.get(generation)
        if template is None:
            template = known[generation] = interpreter.template_hash(obj)
            self._sizes[name] = len(msgspec.json.encode(part(obj, "spec", "template")))
            while len(known) > _TEMPLATES_KEPT:
                known.popitem(last=False)
        return template

    def forget(self, name: str) -> None:
        """Let go of what is known for a work."""
        self._scopes.pop(name, None)
        self._templates.pop(name, None)
        self._generations.pop(name, None)
        self._listed.pop(name, None)
        self._sizes.pop(name, None)
        self._end_unused()

    def cost(self, name: str) -> float:
        """Return how many seconds of work the last look below the workload of a work was, as an estimate."""
        return self._listed.get(name, 0) * (_SECONDS_EACH + self._sizes.get(name, 0) * _SECONDS_PER_BYTE)

    async def close(self) -> None:
        """End all watches."""
        self._watches.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def read(self, name: str, obj: JSONObject, interpreter: Interpreter) -> UnderWay:
        """Return what is under way below a workload that was read before. Raises CannotTell, NotYet, ApiError."""
        scope = _scope(obj, interpreter)
        if scope is None:
            raise CannotTell(interpreter.kind)
        try:
            found = await self._read(name, obj, interpreter, scope)
        except (Forbidden, NotFound) as error:
            if not self._told:
                _log.warning("what is under way cannot be told: %s", error, extra={"cluster": self._context.cluster})
                self._told = True
            raise CannotTell(str(error)) from error
        if newer(text(part(obj, "metadata"), "resourceVersion"), str(found.version)):
            raise Unavailable(f"the list of {scope.children.kind} is older than the object: the server lags behind")
        return found

    async def _read(self, name: str, obj: JSONObject, interpreter: Interpreter, scope: _Scope) -> UnderWay:
        owner, spec = text(part(obj, "metadata"), "uid"), part(obj, "spec")
        if scope.children == REPLICA_SETS:
            sets, version = await self._sets(name, scope, owner)
            self._listed[name] = len(sets)
            self.template(name, obj, interpreter)
            found = under_replica_sets(obj, sets, version, self._generations[name][1])
            if found is None:
                raise NotYet(name)
            return found
        wait, now = number(spec, "minReadySeconds"), self._context.clock.now().timestamp()
        pods: list[PodFacts] = []

        def take(pod: JSONObject) -> None:
            if (facts := read_pod(pod, owner, wait, now)) is not None:
                pods.append(facts)

        version = await self._list(scope, take, pods.clear)
        self._listed[name] = len(pods)
        return under_pods(obj, interpreter, pods, version)

    async def _sets(self, name: str, scope: _Scope, owner: str) -> tuple[list[SetFacts], int]:
        sets: list[SetFacts] = []
        templates = self._templates.setdefault(name, OrderedDict())

        def take(found: JSONObject) -> None:
            uid = text(part(found, "metadata"), "uid")
            facts = read_replica_set(found, owner, templates.get(uid))
            if facts is None:
                return
            templates[uid] = facts.template
            templates.move_to_end(uid)
            sets.append(facts)

        version = await self._list(scope, take, sets.clear)
        while len(templates) > max(_TEMPLATES_KEPT, len(sets)):
            templates.popitem(last=False)
        return sets, version

    async def _list(self, scope: _Scope, take: Callable[[JSONObject], None], anew: Callable[[], None]) -> int:
        """Go through a list page by page, from the beginning if the server forgets what it was turning over."""
        kind, token, restarts = _KINDS[scope.children], "", 0
        while True:
            try:
                page = await self._context.member.list(
                    kind, scope.namespace, labels=scope.selector, limit=PAGE_SIZE, continue_=token
                )
            except Gone:
                if not token or restarts == _MOST_RESTARTS:
                    raise
                token, restarts = "", restarts + 1
                anew()
                continue
            for each in page.items:
                take(each)
            token = page.continue_
            if not token:
                return int(page.resource_version) if page.resource_version.isdecimal() else 0

    def _start(self, scope: _Scope) -> asyncio.Task[None]:
        listed = _KINDS[scope.children]
        kind = Kind(listed.group, listed.version, listed.kind, listed.plural, _Trace)
        context = self._context
        informer: Informer[_Trace] = context.make_informer(
            context.member,
            kind,
            scope.namespace,
            labels=scope.selector,
            random=context.random,
            metrics=context.metrics,
        )

        def changed(delta: Delta[_Trace]) -> None:
            owners = {each.uid for each in delta.object.metadata.owner_references if each.controller}
            for name, (wanted, uid) in self._scopes.items():
                if wanted == scope and uid in owners:
                    self._changed(name)

        informer.on_change(changed)
        task = asyncio.create_task(informer.run(), name=f"informer of {kind.plural}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s ended: %r", task.get_name(), error, extra={"cluster": self._context.cluster})

    def _end_unused(self) -> None:
        used = {scope for scope, _ in self._scopes.values()}
        for scope in [scope for scope in self._watches if scope not in used]:
            self._watches.pop(scope).cancel()


def _scope(obj: JSONObject, interpreter: Interpreter) -> _Scope | None:
    children = children_of(interpreter)
    if children is None:
        return None
    try:
        selector = str(labels.from_label_selector(part(obj, "spec", "selector")))
    except ValueError:
        return None
    return _Scope(children, text(part(obj, "metadata"), "namespace"), selector) if selector else None
