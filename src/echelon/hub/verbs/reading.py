"""The reading verbs: get, list and watch.

They see committed state only, and hand out entries and changes; how these are shown is the transport's business.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from echelon.api import labels as selectors
from echelon.api.base import JSONObject
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import LogicalCluster
from echelon.hub.schema import causes
from echelon.hub.storage.store import Change, Compacted, Entry, Key, WatchClosed
from echelon.hub.verbs.breaks import Breaks
from echelon.kube import errors
from echelon.kube.client import EventType

# How long a read waits for a revision that the server has not reached yet.
FUTURE_REVISION_SECONDS = 3.0
_INITIAL_AT_ONCE = 64
EVENTS = "events"
_DIGITS = 20  # of the largest number with 64 bits


class Query(msgspec.Struct, frozen=True):
    """What a list or a watch asks for."""

    namespace: str = ""  # empty means all
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None  # None: only where no resource version is given


class ListResult(msgspec.Struct, frozen=True):
    """What a list answers."""

    entries: Sequence[Entry]
    revision: int
    continue_: str = ""
    remaining: int | None = None


Matcher = Callable[[Entry], bool]


def get(cluster: LogicalCluster, resource: Resource, namespace: str, name: str) -> Entry:
    """Return one object."""
    entry = cluster.store.get(Key(resource.stored_as, namespace, name))
    if entry is None:
        raise errors.not_found(resource.kind.plural, resource.kind.group, name)
    return entry


async def list_(cluster: LogicalCluster, resource: Resource, query: Query) -> ListResult:
    """Return the objects that a query selects, in name order, all at one revision."""
    matches = matcher(resource, query)
    await _reported(cluster, resource, query)
    at, after = await _position(cluster, query)
    store, namespace = cluster.store, query.namespace or None
    try:
        if matches is None:
            page = store.list(resource.stored_as, namespace, at=at, after=after, limit=query.limit)
            entries, more, remaining = page.entries, page.remaining > 0, page.remaining or None
        else:
            page = store.list(resource.stored_as, namespace, at=at, after=after)
            entries = await _selected(page.entries, matches, query.limit)
            more = 0 < query.limit < len(entries)
            entries, remaining = entries[: query.limit or None], None
    except Compacted as expired:
        raise _expired(query, expired) from None
    if not more:
        return ListResult(entries, page.revision)
    return ListResult(entries, page.revision, _continue_token(page.revision, entries[-1].key), remaining)


async def _reported(cluster: LogicalCluster, resource: Resource, query: Query) -> None:
    """Let those write events who do so only when somebody reads them."""
    if cluster.machines is not None and resource.stored_as == EVENTS:
        await cluster.machines.report(query.namespace)


async def _selected(entries: Iterable[Entry], matches: Matcher, limit: int) -> list[Entry]:
    """Return the entries that match, and not more than one over the limit.

    A selector can have as many terms as fit into an address, so others get their turn meanwhile.
    """
    breaks, selected = Breaks(), list[Entry]()
    for entry in entries:
        if matches(entry):
            selected.append(entry)
            if 0 < limit < len(selected):
                break
        await breaks.maybe()
    return selected


def check_query(query: Query, *, watching: bool) -> None:
    """Refuse options that contradict each other."""
    match, path, found = query.resource_version_match, "resourceVersionMatch", []
    if watching:
        if query.initial_events is not None and match != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            found.append(causes.forbidden(path, why))
        if match and query.initial_events is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            found.append(causes.forbidden(path, why))
        if match not in ("", "NotOlderThan"):
            found.append(causes.not_supported(path, match, ("NotOlderThan",)))
    else:
        if match and not query.resource_version:
            found.append(causes.forbidden(path, f"{path} is forbidden unless resourceVersion is provided"))
        if match not in ("", "Exact", "NotOlderThan"):
            found.append(causes.not_supported(path, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and query.resource_version == "0":
            found.append(causes.forbidden(path, f'{path} "exact" is forbidden for resourceVersion "0"'))
        if query.initial_events is not None:
            found.append(causes.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if query.continue_ and (match or watching):
        found.append(causes.forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    if found:
        raise errors.invalid("ListOptions", "meta.k8s.io", "", found)
    parse_revision(query.resource_version)


async def _position(cluster: LogicalCluster, query: Query) -> tuple[int | None, tuple[str, str] | None]:
    """Return the revision to list at (None: the newest) and the key to continue after."""
    if query.continue_:
        position = _parse_continue(query.continue_)
        if query.resource_version not in ("", "0"):
            raise errors.BadRequest("specifying resource version is not allowed when using continue")
        await reach(cluster, position[0])
        return position
    match, revision = query.resource_version_match, parse_revision(query.resource_version)
    if revision:
        await reach(cluster, revision)
    exact = match == "Exact" or (revision > 0 and query.limit > 0 and not match)
    return (revision if exact else None), None


async def reach(cluster: LogicalCluster, revision: int) -> None:
    """Wait a little until the store has committed a revision, however much it commits meanwhile."""
    store = cluster.store
    if store.revision >= revision:
        return
    try:
        async with asyncio.timeout(FUTURE_REVISION_SECONDS):
            while store.revision < revision:
                with suppress(Compacted), store.watch(None, since=store.revision) as watch:
                    await watch.next()
    except WatchClosed:
        raise errors.Unavailable("the server is stopping") from None
    except TimeoutError:
        text = f"Too large resource version: {revision}, current: {store.revision}"
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        raise errors.ServerTimeout(f"Timeout: {text}", details={"causes": [cause], "retryAfterSeconds": 1}) from None


async def watch(
    cluster: LogicalCluster, resource: Resource, query: Query, patience: Callable[[], float | None]
) -> AsyncGenerator[Sequence[Change] | int, None]:
    """Yield batches of changes, and after a silence of `patience()` seconds the revision that has been reached.

    A change is seen through the selectors: an object that begins to match is added, one that ceases to match is
    deleted. Initial state comes first when no resource version is given, or when it is asked for. Under
    `initial_events` the revision after that state is yielded once, to become the bookmark that ends it.
    """
    store, matches = cluster.store, matcher(resource, query)
    revision = parse_revision(query.resource_version)
    await _reported(cluster, resource, query)
    if query.initial_events is False and revision == 0:
        revision = store.revision
    elif query.initial_events or revision == 0:
        if revision:
            await reach(cluster, revision)
        page = await list_(cluster, resource, Query(query.namespace, query.labels, query.fields))
        for first in range(0, len(page.entries), _INITIAL_AT_ONCE):  # what is sent is not kept until all is sent
            part = page.entries[first : first + _INITIAL_AT_ONCE]
            yield [Change(EventType.ADDED, entry.revision, entry) for entry in part]
        if query.initial_events:
            yield page.revision
        revision = page.revision
    else:
        await reach(cluster, revision)
    try:
        following = store.watch(resource.stored_as, query.namespace or None, since=revision)
    except Compacted as compacted:
        raise errors.Gone(f"too old resource version: {revision} ({compacted.compacted})") from None
    try:
        while True:
            changes = await following.next(patience())
            if not changes:
                yield following.revision
                continue
            seen = changes if matches is None else [c for c in (_seen(change, matches) for change in changes) if c]
            if seen:
                yield seen
    except Compacted as compacted:
        raise errors.Gone(f"too old resource version: {following.revision} ({compacted.compacted})") from None
    finally:
        following.close()


def _seen(change: Change, matches: Matcher) -> Change | None:
    """Return a change as somebody sees it who looks through a selector."""
    was = change.previous is not None and matches(change.previous)
    if change.type is EventType.DELETED:
        return change if was else None
    if matches(change.entry):
        return change if was or change.previous is None else replace(change, type=EventType.ADDED, cached=None)
    return _left(change, change.previous) if was and change.previous else None


def _left(change: Change, previous: Entry) -> Change:
    """Show an object that ceased to match as deleted: its last matching state, at the revision of the change."""
    obj = previous.object
    last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(change.revision)}}
    entry = replace(previous, revision=change.revision, encoded=None, decoded=last, typed=None)
    return Change(EventType.DELETED, change.revision, entry, previous)


def matcher(resource: Resource, query: Query) -> Matcher | None:
    """Compile the selectors of a query; None when everything matches."""
    tests: list[Matcher] = []
    try:
        if query.labels:
            by_label = selectors.parse(query.labels)
            tests.append(lambda entry: by_label.matches(entry.labels))
        if query.fields:
            tests.append(_field_matcher(resource, selectors.parse_fields(query.fields)))
    except selectors.SelectorError as error:
        raise errors.BadRequest(str(error)) from None
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda entry: all(test(entry) for test in tests)


def _field_matcher(resource: Resource, selector: selectors.FieldSelector) -> Matcher:
    cheap = {"metadata.name": 2, "metadata.namespace": 1}
    paths = {term.field for term in selector.terms}
    for path in sorted(paths - cheap.keys()):
        if path not in resource.kind.selectable_fields:
            if resource.kind.builtin and not resource.kind.selectable_fields:
                why = f'{causes.quoted(path)} is not a known field selector: only "metadata.name", "metadata.namespace"'
                raise errors.BadRequest(why)
            raise errors.BadRequest(f"field label not supported: {path}")
    selected = selector.by_field()
    if paths <= cheap.keys():
        return lambda entry: selected(lambda path: entry.key[cheap[path]])

    def matches(entry: Entry) -> bool:
        obj = resource.outgoing(entry.object)
        return selected(lambda path: field_text(obj, path))

    return matches


# Fields that selectors call by another name than the object does.
_STORED_AS = {"status.successful": "status.succeeded", "source": "source.component"}


def field_text(obj: JSONObject, path: str) -> str:
    """Return a field as a field selector compares it: absent is empty."""
    value: object = obj
    for part in _STORED_AS.get(path, path).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def parse_revision(text: str) -> int:
    """Read a resource version; empty reads as 0."""
    if not text:
        return 0
    number = text.isascii() and text.isdigit()
    if number and len(text) <= _DIGITS and int(text) < 2**64:
        return int(text)
    why = f"strconv.ParseUint: parsing {causes.quoted(text)}: {'value out of range' if number else 'invalid syntax'}"
    found = causes.invalid("resourceVersion", text, why)
    raise errors.BadRequest(f"invalid resource version: {found}")


def _continue_token(revision: int, last: Key) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": f"{last.namespace}/{last.name}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


class _ContinueToken(msgspec.Struct):
    v: str
    rv: int
    start: str


def _parse_continue(text: str) -> tuple[int, tuple[str, str]]:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_ContinueToken)
        namespace, slash, name = token.start.partition("/")
        if token.v != "meta.k8s.io/v1" or not slash or not 0 < token.rv < 2**63:
            raise ValueError
    except (ValueError, msgspec.MsgspecError):
        raise errors.BadRequest("invalid continue token: continue key is not valid: not made by this server") from None
    return token.rv, (namespace, name.removesuffix("\0"))


def _expired(query: Query, expired: Compacted) -> errors.Gone:
    if query.continue_:
        return errors.Gone(
            "The provided continue parameter is too old to display a consistent list result. "
            "Start a new list without the continue parameter."
        )
    return errors.Gone(f"too old resource version: {query.resource_version} ({expired.compacted})")
