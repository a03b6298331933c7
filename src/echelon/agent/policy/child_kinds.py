"""Which kinds the objects of templates can have on a cluster, and those objects.

A kind says so itself, by a label on its CRD. There may be some, of upstream's other policy controllers for example, and
they come and go, so each has an informer for as long as its CRD is there. Ours is always among them.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from echelon.agent.context import AgentContext
from echelon.agent.newest_objects import NewestObjects
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import APIStruct, JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY, TEMPLATE_KIND
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta
from echelon.engine.policy.names import PARENT_LABEL
from echelon.engine.policy_member.documents import Child, ChildKey
from echelon.kube.client import WriteOptions
from echelon.kube.errors import NotFound
from echelon.kube.informer import Delta, Informer

BY_POLICY = "policy"
# How long an informer may take before what it would show is done without.
PATIENCE_SECONDS = 30.0


class _Names(APIStruct, frozen=True, gc=False, kw_only=True):
    plural: str
    kind: str


class _Version(APIStruct, frozen=True, gc=False, kw_only=True):
    name: str
    served: bool = False
    storage: bool = False


class _DefinitionSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    group: str
    names: _Names
    scope: str = ""
    versions: list[_Version]


class _Definition(APIStruct, frozen=True, gc=False, kw_only=True):
    """A CRD without its schemas, which are what is large about it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _DefinitionSpec


_DEFINITION: Kind[_Definition] = replace(CUSTOM_RESOURCE_DEFINITION, type=_Definition)  # type: ignore[arg-type,assignment]


@dataclass
class _Served:
    kind: Kind[JSONObject]
    versions: frozenset[str]
    objects: NewestObjects[JSONObject]
    since: float
    task: asyncio.Task[None] | None = None

    @property
    def known(self) -> bool:
        return self.objects.informer.synced


@dataclass(frozen=True)
class ChildChange:
    """What became of an object: its states before and after, as far as there are both.

    The policy for which it was written here knows that, and does not have to look at it.
    """

    states: tuple[Child, ...]
    known_to: str = ""

    @property
    def key(self) -> ChildKey:
        """Which object it is."""
        return self.states[-1].key

    @property
    def policies(self) -> set[str]:
        """The policies that it belongs to, or did."""
        return {each.policy for each in self.states} | {each.labels.get(PARENT_LABEL, "") for each in self.states}


class ChildKinds:
    """The kinds of templates' objects, and what there is of them in the cluster's namespace."""

    name = "policy-template-kinds"

    def __init__(self, context: AgentContext, manager: str) -> None:
        self._context = context
        # A field that nobody knows is a mistake that the author of a policy has to hear of.
        self._options = WriteOptions(field_manager=manager, field_validation="Strict")
        self._definitions = context.member_informer(_DEFINITION, labels="=".join(TEMPLATE_KIND))
        self._definitions.on_change(self._definition_changed)
        self._changed = asyncio.Event()
        self._handlers: list[Callable[[ChildChange | None], None]] = []
        self._served: dict[str, _Served] = {}  # by resource
        own = CONFIGURATION_POLICY.untyped()
        self._add(own, frozenset({own.version}))

    def on_change(self, handler: Callable[[ChildChange | None], None]) -> None:
        """Tell a handler of each change of an object; of None when the kinds have changed."""
        self._handlers.append(handler)

    def find(self, api_version: str, kind: str) -> Kind[JSONObject] | None:
        """Return a kind that templates can have."""
        group, _, version = api_version.rpartition("/")
        for served in self._served.values():
            if (group, kind) == (served.kind.group, served.kind.kind) and version in served.versions:
                return served.kind if version == served.kind.version else replace(served.kind, version=version)
        return None

    def is_known(self, kind: Kind[Any]) -> bool:
        """Whether it is known which objects of a kind there are."""
        served = self._served.get(kind.resource)
        return served is not None and served.known

    @property
    def settled(self) -> bool:
        """Whether all objects are known that are ever going to be."""
        now = asyncio.get_running_loop().time()
        return all(each.known or now - each.since > PATIENCE_SECONDS for each in self._served.values())

    def objects(self, kind: Kind[Any]) -> NewestObjects[JSONObject]:
        """Return the objects of a kind. Raises `NotFound` if the cluster does not serve it any more."""
        served = self._served.get(kind.resource)
        if served is None:
            raise NotFound(f"{kind.resource} is not served any more")
        return served.objects

    @property
    def empty(self) -> bool:
        """Whether there are no objects, whoever's they would be."""
        return not any(len(served.objects.informer) for served in self._served.values())

    def children(self, policy: str) -> dict[ChildKey, Child]:
        """Return the objects of a policy, as far as caches show that they are its own."""
        return {child.key: child for served in self._served.values() for child in _children(served, policy)}

    def child(self, api_version: str, kind: str, name: str) -> Child | None:
        """Return one object."""
        found = self.find(api_version, kind)
        document = self.objects(found).newest(name) if found is not None else None
        return None if found is None or document is None else Child(found, document)

    async def run(self) -> None:
        """Keep the objects of all kinds up to date until cancelled."""
        await self._definitions.wait_synced()
        async with asyncio.TaskGroup() as group:
            while True:
                self._start_and_stop(group)
                self._changed.clear()
                await self._changed.wait()

    def _start_and_stop(self, group: asyncio.TaskGroup) -> None:
        wanted = {CONFIGURATION_POLICY.resource} | {each.metadata.name for each in self._definitions.values()}
        for resource in [each for each in self._served if each not in wanted]:
            gone = self._served.pop(resource)
            if gone.task is not None:
                gone.task.cancel()
        for definition in self._definitions.values():
            kind, versions = _kind_of(definition)
            if kind is not None and kind.resource not in self._served:
                self._add(kind, versions)
        for served in self._served.values():
            if served.task is None:
                informer = served.objects.informer
                served.task = group.create_task(informer.run(), name=f"informer of {informer.kind.plural}")
        self._tell(None)

    def _add(self, kind: Kind[JSONObject], versions: frozenset[str]) -> None:
        context = self._context
        informer: Informer[JSONObject] = context.make_informer(
            context.member,
            kind,
            context.cluster,
            indexers={BY_POLICY: lambda document: (Child(kind, document).policy,)},
            random=context.random,
            metrics=context.metrics,
        )
        informer.on_change(lambda delta: self._object_changed(kind, delta))
        objects = NewestObjects(context.member, informer, self._options)
        self._served[kind.resource] = _Served(kind, versions, objects, asyncio.get_running_loop().time())

    def _object_changed(self, kind: Kind[JSONObject], delta: Delta[JSONObject]) -> None:
        states = tuple(Child(kind, each) for each in (delta.old, delta.new) if each is not None)
        known = delta.new is not None and self.objects(kind).knows(delta.new)
        self._tell(ChildChange(states, states[-1].policy if known else ""))

    def _definition_changed(self, _: Delta[_Definition]) -> None:
        self._changed.set()

    def _tell(self, change: ChildChange | None) -> None:
        for handler in self._handlers:
            handler(change)


def _children(served: _Served, policy: str) -> Iterator[Child]:
    objects = served.objects
    for each in objects.informer.by_index(BY_POLICY, policy):
        document = objects.newest(each["metadata"]["name"])
        if document is not None:
            yield Child(served.kind, document)


def _kind_of(definition: _Definition) -> tuple[Kind[JSONObject] | None, frozenset[str]]:
    """Return the kind that a CRD defines; nothing if it has no namespace, for then it is in nobody's."""
    spec = definition.spec
    served = [each for each in spec.versions if each.served]
    if spec.scope != "Namespaced" or not served:
        return None, frozenset()
    version = next((each.name for each in served if each.storage), served[0].name)
    kind: Kind[Any] = Kind(spec.group, version, spec.names.kind, spec.names.plural, dict[str, Any], status=True)
    return kind, frozenset(each.name for each in served)
