"""Makes the objects of templates as their policies ask, and says how far that is.

What is to be written is decided from what there is; so after each round of writes it is decided again, until there is
nothing left to write or the cluster stands in the way.
"""

import asyncio
import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from echelon.agent.context import AgentContext
from echelon.agent.discovery import UnknownKind
from echelon.agent.manifest_result import is_namespace_terminating, is_transient
from echelon.agent.member_kinds import ensure_served
from echelon.agent.object_watches import ObjectRef
from echelon.agent.policy.child_kinds import ChildKinds
from echelon.agent.policy.copies import Copies
from echelon.api.base import JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.api.core import Event
from echelon.api.kinds import Kind
from echelon.api.policy import GROUP, POLICY
from echelon.engine.plan import Create, Delete, Write
from echelon.engine.policy_member.children import delete_child, kept_of
from echelon.engine.policy_member.dependencies import DependencyKey
from echelon.engine.policy_member.documents import Child, ChildKey, PolicyDocument
from echelon.engine.policy_member.sync import TemplateSync, TemplateView, TemplateWrites, UnusableKind, sync_in_steps
from echelon.engine.policy_member.templates import Template, read_templates
from echelon.engine.work.redaction import redact_secrets
from echelon.engine.work.removal import ResourceKey
from echelon.engine.work.reporting import Absent, Present
from echelon.engine.work.updating import LastApplied
from echelon.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

_MOST_ROUNDS = 4

_log = logging.getLogger(__name__)


@dataclass
class TemplateProgress:
    """How far the templates of a policy are; `error` is what stands in the way for now, if there is something."""

    sync: TemplateSync = field(default_factory=TemplateSync)
    error: ApiError | None = None
    refused: bool = False  # the cluster does not take something, and may change its mind


class TemplateObjects:
    """Writes the objects of templates on one cluster."""

    def __init__(self, context: AgentContext, kinds: ChildKinds, copies: Copies) -> None:
        self._member = context.member
        self._served = context.kinds
        self._watches = context.object_watches
        self._kinds = kinds
        self._copies = copies
        self._kept: dict[ChildKey, LastApplied] = {}
        self._interests: dict[str, frozenset[Hashable]] = {}  # what each policy looks at
        self._read_templates: dict[str, tuple[tuple[str, int], tuple[Template, ...]]] = {}  # by uid and generation

    def interested(self, key: ChildKey | ResourceKey) -> list[str]:
        """Return the policies that look at an object."""
        return [name for name, keys in self._interests.items() if key in keys]

    def forget(self, name: str) -> None:
        """Let go of what is remembered about a policy."""
        self._interests.pop(name, None)
        self._read_templates.pop(name, None)
        self._watches.watch((POLICY.kind, name), ())

    async def sync(self, policy: PolicyDocument, events: Sequence[Event]) -> TemplateProgress:
        """Bring the objects of a policy's templates as far as possible."""
        templates = self._templates(policy)
        kinds = await self._usable(templates)
        compliance = await self._compliance(policy, templates)
        outcome, refused = TemplateProgress(), dict[str, str]()
        for _ in range(_MOST_ROUNDS):
            children = self._children(policy.metadata.name, templates)
            kept = {key: self._kept[key] for key in children if key in self._kept}
            view = TemplateView(policy, children, kinds, compliance, events, refused, kept, templates)
            outcome.sync = await _plan(view)
            if not outcome.sync.writes or outcome.error is not None:
                break
            # What is made from an old state of a policy might enforce what is held by now.
            await self._copies.confirm(policy)
            for each in outcome.sync.writes:
                await self._write(each, outcome, refused)
        outcome.refused = bool(refused)
        return outcome

    async def remove(self, policy: PolicyDocument) -> bool:
        """Delete all objects of a policy, which prunes what they say; tell whether they are gone."""
        if not self._kinds.settled:
            return False
        own = self._kinds.children(policy.metadata.name).values()
        for child in own:
            if not child.terminating:
                await self._write_one(delete_child(child), None)
        return not own

    async def _write(self, planned: TemplateWrites, outcome: TemplateProgress, refused: dict[str, str]) -> None:
        """Make some writes. What the cluster does not take is told of the template; other trouble may pass."""
        try:
            for write in planned.writes:
                await self._write_one(write, planned.wanted)
        except ApiError as error:
            passing = isinstance(error, Conflict | AlreadyExists | NotFound) or is_namespace_terminating(error)
            if passing or is_transient(error) or not planned.template:
                outcome.error = outcome.error or error
                return
            verb = "create" if isinstance(planned.writes[0], Create) else "update"
            text = _without_secrets(error.message, planned.wanted or {})
            refused[planned.template] = f"Failed to {verb} policy template: {text}"
            _log.warning("the template %s cannot have its object: %s", planned.template, text)

    async def _write_one(self, write: Write, wanted: JSONObject | None) -> None:
        objects = self._kinds.objects(write.kind)
        try:
            after = await objects.write(write)
        except NotFound:
            objects.forget(write.name)
            if isinstance(write, Delete):
                return
            if write.kind.resource == CONFIGURATION_POLICY.resource:  # somebody may have deleted its definition
                await ensure_served(self._member, CONFIGURATION_POLICY)
            raise
        if wanted is not None and after is not None:
            child = Child(write.kind, after)
            if (kept := kept_of(wanted, child)) is not None:
                self._kept[child.key] = kept
            else:
                self._kept.pop(child.key, None)

    def _templates(self, policy: PolicyDocument) -> tuple[Template, ...]:
        """Read the templates of a policy, once for each state of its spec: policies are looked at again and again."""
        meta = policy.metadata
        mark, known = (meta.uid, meta.generation), self._read_templates.get(meta.name)
        if known is None or known[0] != mark:
            known = self._read_templates[meta.name] = mark, read_templates(policy.spec)
        return known[1]

    def _children(self, policy: str, templates: Iterable[Template]) -> dict[ChildKey, Child]:
        """Return the objects of a policy and of its templates, those included that no cache shows yet."""
        found = self._kinds.children(policy)
        for template in templates:
            child = self._kinds.child(*template.gvk, template.name)
            if child is not None:
                found[child.key] = child
        return found

    async def _usable(self, templates: Iterable[Template]) -> dict[tuple[str, str], Kind[Any] | UnusableKind]:
        """Find out which kinds of templates can be used; those that are about to be known are left out."""
        found: dict[tuple[str, str], Kind[Any] | UnusableKind] = {}
        for api_version, kind in {each.gvk for each in templates if each.definition}:
            usable = self._kinds.find(api_version, kind)
            if usable is None:
                found[api_version, kind] = await self._unusable(api_version, kind)
            elif self._kinds.is_known(usable):
                found[api_version, kind] = usable
        return found

    async def _unusable(self, api_version: str, kind: str) -> UnusableKind:
        try:
            await self._served.find(api_version, kind)
        except UnknownKind as error:
            return UnusableKind(f"Mapping not found, check if you have the CRD deployed: {error}")
        return UnusableKind(f"policy-template kind is not supported: {api_version}, Kind={kind}")

    async def _compliance(self, policy: PolicyDocument, templates: Iterable[Template]) -> dict[DependencyKey, str]:
        """Look up the states of what templates wait for, and note what else the policy looks at."""
        name, found, refs = policy.metadata.name, dict[DependencyKey, str](), dict[ObjectRef, DependencyKey]()
        self._interests[name] = frozenset(_interests(templates))
        for key in {each.key for template in templates for each in template.dependencies}:
            if key.namespace or key.api_version.partition("/")[0] != GROUP:
                try:
                    kind = await self._served.find(key.api_version, key.kind)
                except UnknownKind:
                    continue
                refs[ObjectRef(kind, key.namespace, key.name)] = key
            elif key.kind == POLICY.kind:
                copy = self._copies.newest(key.name)
                found |= {} if copy is None else {key: copy.status.compliant}
            else:
                child = self._kinds.child(key.api_version, key.kind, key.name)
                found |= {} if child is None else {key: child.compliant}
        self._interests[name] |= {ref.key for ref in refs}
        self._watches.watch((POLICY.kind, name), refs)
        for ref, key in refs.items():
            live = self._watches.cached(ref, None) or await self._read(ref)
            if isinstance(live, Present):
                found[key] = str((live.object.get("status") or {}).get("compliant") or "")
        return found

    async def _read(self, ref: ObjectRef) -> Present | Absent:
        try:
            return Present(await self._member.get(ref.kind, ref.name, ref.namespace))
        except NotFound:
            return Absent()


async def _plan(view: TemplateView) -> TemplateSync:
    """Plan step by step, and let others have the event loop in between."""
    for step in sync_in_steps(view):
        if step is not None:
            return step
        await asyncio.sleep(0)
    return TemplateSync()


def _interests(templates: Iterable[Template]) -> Iterator[ChildKey]:
    for template in templates:
        yield template.key
        for each in template.dependencies:
            yield ChildKey(each.key.api_version.rpartition("/")[0], each.key.kind, each.key.name)


def _without_secrets(text: str, value: Any) -> str:
    """Return what a server said without the values of the secrets that an object wants to be there."""
    if isinstance(value, dict):
        text = redact_secrets(text, value)
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        text = _without_secrets(text, inner)
    return text
