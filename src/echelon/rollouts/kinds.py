"""The kinds that can be rolled out. Whatever `echelon rollout` does, it does with each of them: one entry adds a kind.

A rollout is named `KIND/NAME`, as kubectl names objects, or by its name alone where no other kind has it.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.api.namespaces import NAMESPACE
from echelon.engine.policy.names import ROOTS
from echelon.kube.client import Reader
from echelon.kube.errors import ApiError, Forbidden, NotFound
from echelon.rollouts.names import names_of
from echelon.rollouts.on_demand import on_demand, value_on_demand
from echelon.rollouts.one_look import OneLook
from echelon.rollouts.refusals import NotThere, Refused
from echelon.rollouts.similar import did_you_mean

if TYPE_CHECKING:
    from echelon.engine.rollout.stored_revision import StoredRevision
    from echelon.rollouts.reading import Found

_Undo: TypeAlias = Callable[["StoredRevision"], list[JSONObject]]
_content_back = on_demand("echelon.engine.rollout.history", "rollback_patch")


def _nothing_more(_: "StoredRevision") -> JSONObject:
    return {}


def _original(_: JSONObject) -> str:
    return ""


def _same(name: str, _: Kind[Any]) -> str:
    return name


def _no_templates() -> tuple[Kind[Any], ...]:
    return ()


@dataclass(frozen=True)
class RolloutKind:
    """A kind that can be rolled out. Its types are imported when somebody asks for it: they take as long as a hub."""

    find_kind: Callable[[], Kind[Any]]
    # From an object, what is around, the time, and perhaps what an earlier reading remembers.
    read: Callable[..., Awaitable["Found"]]
    undo: _Undo = _content_back  # the JSON patch that brings a revision back
    describe: Callable[["StoredRevision"], JSONObject] = _nothing_more  # more columns for a list of revisions
    labels: str = ""  # selects, where some objects of the kind are copies, those that are rolled out
    copy_of: Callable[[JSONObject], str] = _original  # what to tell somebody who names a copy; nothing of others
    find_templates: Callable[[], tuple[Kind[Any], ...]] = _no_templates
    of_template: Callable[[str, Kind[Any]], str] = _same  # the name of the object for a template

    @cached_property
    def kind(self) -> Kind[Any]:
        """What it is called, and how it is read."""
        return self.find_kind()

    @cached_property
    def templates(self) -> tuple[Kind[Any], ...]:
        """Kinds that people write, and that objects of this one bring to clusters."""
        return self.find_templates()

    def names(self, of: str, name: str) -> list[tuple[str, str]]:
        """Return the objects that somebody may mean, each with what to call it; none if another kind is meant."""
        if not of:
            named = [(self.of_template(name, each), each) for each in self.templates] or [(name, self.kind)]
        else:
            named = [(self.of_template(name, each), each) for each in self.templates if _is_called(each, of)]
            named += [(name, self.kind)] if _is_called(self.kind, of) else []
        return [(each, f"{kind.singular}/{name}") for each, kind in named]


def _is_called(kind: Kind[Any], name: str) -> bool:
    """Whether somebody means a kind: by its name, plural or short name, with its group or without."""
    return name.lower() in (kind.singular, kind.plural, *kind.short_names, kind.resource)


ROLLOUT_KINDS: tuple[RolloutKind, ...] = (
    RolloutKind(
        value_on_demand("echelon.api.work_set", "MANIFEST_WORK_REPLICA_SET"),
        on_demand("echelon.rollouts.work_sets", "read_work_set"),
        describe=on_demand("echelon.rollouts.work_sets", "describe_template"),
    ),
    RolloutKind(
        value_on_demand("echelon.api.policy", "POLICY"),
        on_demand("echelon.rollouts.policies", "read_rollout"),
        on_demand("echelon.engine.policy.content", "rollback_patch"),
        on_demand("echelon.rollouts.policies", "describe_content"),
        ROOTS,
        on_demand("echelon.rollouts.policies", "copy_of"),
    ),
    RolloutKind(
        value_on_demand("echelon.api.karmada", "RESOURCE_BINDING"),
        on_demand("echelon.rollouts.workloads", "read_workload"),
        describe=on_demand("echelon.rollouts.workloads", "describe_images"),
        find_templates=value_on_demand("echelon.rollouts.templates", "TEMPLATES"),
        of_template=on_demand("echelon.rollouts.templates", "name_of_binding"),
    ),
    RolloutKind(
        value_on_demand("echelon.api.grove", "POD_CLIQUE_SET"),
        on_demand("echelon.rollouts.clique_sets", "read_clique_set"),
        describe=on_demand("echelon.rollouts.clique_sets", "describe_cliques"),
    ),
)


async def find(client: Reader, named: str, namespace: str) -> "tuple[RolloutKind, Found]":
    """Read the rollout with a name, which may have its kind before it."""
    entry, document = await find_document(client, named, namespace)
    with readable(entry.kind, document):
        return entry, await entry.read(client, document, datetime.now(UTC))


async def find_document(client: Reader, named: str, namespace: str) -> tuple[RolloutKind, JSONObject]:
    """Return the object with a name, which may have its kind before it."""
    of, _, name = named.rpartition("/")
    kinds = kinds_called(of)
    if not kinds:
        known = _called(ROLLOUT_KINDS)
        raise NotThere(f"there are no rollouts of kind {of}; there are {', '.join(known)}{did_you_mean(of, known)}")
    found: list[tuple[RolloutKind, JSONObject, str]] = []
    refused: list[ApiError] = []
    for each in kinds:
        for its_name, title in each.names(of, name):
            try:
                found.append((each, await client.get(each.kind.untyped(), its_name, namespace), title))
            except (NotFound, Forbidden) as error:
                refused.append(error)
    if not found:
        await _missing(client, kinds, name, namespace, refused)
    if len(found) > 1:
        there = ", ".join(title for _, _, title in found)
        raise Refused(f"there are several rollouts {name} in namespace {namespace}: {there}")
    entry, document, _ = found[0]
    if told := entry.copy_of(document):
        raise Refused(told)
    return entry, document


def kinds_called(of: str) -> list[RolloutKind]:
    """Return the kinds that somebody may mean; all of them if none is named."""
    return [each for each in ROLLOUT_KINDS if each.names(of, "any")]


def _called(kinds: Iterable[RolloutKind]) -> list[str]:
    """Return what people call the rollouts of some kinds."""
    return [kind.singular for each in kinds for kind in each.templates or (each.kind,)]


@contextmanager
def readable(kind: Kind[Any], document: JSONObject) -> Iterator[None]:
    """Say which object it is, and why, if it does not fit its type."""
    try:
        yield
    except msgspec.ValidationError as error:
        meta = document["metadata"]
        name = f"{kind.singular} {meta['namespace']}/{meta['name']}"
        raise Refused(f"{name} cannot be read: {error}") from error


async def _missing(
    client: Reader, kinds: Sequence[RolloutKind], name: str, namespace: str, refused: Sequence[ApiError]
) -> NoReturn:
    """Say why nothing was found: perhaps somebody may not look, or looks in a namespace that does not exist."""
    telling = _most_telling(refused)
    if isinstance(telling, Forbidden):
        raise telling
    try:
        await client.get(NAMESPACE.untyped(), namespace)
    except NotFound as error:
        raise NotFound(f"there is no namespace {namespace}{await _like(client, namespace)}") from error
    except Forbidden:  # and so it may well exist
        pass
    meant = did_you_mean(name, [other for _, other in await names_of(client, kinds, namespace)])
    if len(kinds) == 1 and kinds[0].templates:
        raise NotFound(
            f"nothing brings {name} to clusters: there is no {kinds[0].kind.kind} of it in namespace {namespace}, which"
            f" the controller makes of what a PropagationPolicy selects{meant}"
        )
    if len(kinds) == 1:
        raise NotFound(f"{telling}{meant}")
    there = " or ".join(_called(kinds))
    raise NotFound(f'{there} "{name}" not found in namespace {namespace}{meant}')


async def _like(client: Reader, namespace: str) -> str:
    """Return which namespace somebody may mean; nothing if they may not see any."""
    try:
        known = (await client.list(NAMESPACE)).items
    except Forbidden:
        return ""
    return did_you_mean(namespace, [each.metadata.name for each in known])


async def find_all(client: Reader, namespace: str, tell: Callable[[str], None]) -> "list[Found]":
    """Read the rollouts of a namespace, or of all if none is named; of the kinds that the hub serves.

    `tell` hears of those that cannot be read.
    """
    found: list[Found] = []
    refused: list[ApiError] = []
    client = OneLook(client)  # what several of them have around them is read once
    for each in ROLLOUT_KINDS:
        try:
            documents = (await client.list(each.kind.untyped(), namespace, labels=each.labels)).items
        except (NotFound, Forbidden) as error:
            refused.append(error)
            continue
        for document in documents:
            try:
                with readable(each.kind, document):
                    found.append(await each.read(client, document, datetime.now(UTC)))
            except Refused as error:  # which says nothing against the others
                tell(error.message)
    if len(refused) == len(ROLLOUT_KINDS):
        raise _most_telling(refused)
    return found


def _most_telling(refused: Sequence[ApiError]) -> ApiError:
    """Return why nothing was found: perhaps somebody may not look."""
    return next((each for each in refused if isinstance(each, Forbidden)), refused[0])
