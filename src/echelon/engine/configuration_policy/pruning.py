"""Which objects go with a policy, or with their place in it.

Enforcing is what entitles to prune: an object that a policy only ever looked at is not the policy's to delete, whatever
its pruning says. The status lists what the latest evaluation looked at, so as long as every evaluation enforces, it is
all that one needs. A policy that informs for a while would forget there what it once enforced. So it is written down
on the policy, in a ledger: from when on evaluations have enforced, while they do; and the objects that were enforced,
while they do not. The ledger also has objects that are about to be created: if the agent dies between that and the
status, nobody else would know whose they are.

An object is deleted as the very one that was seen, and one that the policy created only while it still is that one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import ConfigurationPolicy, RelatedObject
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.messages import DELETION_SUCCESS, WORDS, Situation
from echelon.engine.configuration_policy.names import FINALIZER, LEDGER_ANNOTATION
from echelon.engine.policy.names import ENFORCED_BEFORE_ANNOTATION, HELD_ANNOTATION

MOST_BYTES = 64 * 1024

# What was not to be there, and so was never the policy's.
_UNWANTED = frozenset({DELETION_SUCCESS, *(WORDS[each].related for each in (Situation.UNWANTED, Situation.ABSENT))})


class Entry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, order=True):
    """An object that was enforced; created by the policy if that is said.

    Without a uid, it was about to be created, in the place of the one that it `replaced`.
    """

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    created: bool = False
    replaced: str = ""

    @property
    def place(self) -> "Place":
        """Where the object is."""
        return Place(self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name)

    @property
    def is_intent(self) -> bool:
        """Whether nobody knows if the object was created."""
        return self.created and not self.uid


class Place(msgspec.Struct, frozen=True, order=True):
    """Where an object is, whatever the version under which one looks."""

    group: str
    kind: str
    namespace: str
    name: str


class Ledger(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is remembered on a policy.

    `enforcing` is the generation since which every evaluation has enforced, 0 if the latest did not; `dropped` tells
    how many objects found no room.
    """

    enforcing: int = 0
    objects: tuple[Entry, ...] = ()
    dropped: int = 0


EMPTY = Ledger()
_decode = msgspec.json.Decoder(Ledger).decode


@dataclass(frozen=True)
class Memory:
    """What is written on a policy about pruning: the finalizer and the ledger."""

    finalizer: bool
    ledger: str | None


def is_enforcing(policy: ConfigurationPolicy) -> bool:
    """Whether the policy changes anything on the cluster."""
    return (
        policy.spec is not None
        and policy.spec.remediation_action.lower() == "enforce"
        and policy.metadata.annotations.get(HELD_ANNOTATION) != "true"
    )


def prunes(policy: ConfigurationPolicy) -> bool:
    """Whether objects go with the policy at all."""
    return policy.spec is not None and policy.spec.prune_object_behavior not in ("", "None")


def may_prune_at_end(policy: ConfigurationPolicy) -> bool:
    """Whether the end of the policy is the end of its objects."""
    return prunes(policy) and (is_enforcing(policy) or _was_enforced(policy))


def memory_of(policy: ConfigurationPolicy) -> Memory:
    """Return what is written on a policy now."""
    metadata = policy.metadata
    return Memory(FINALIZER in metadata.finalizers, metadata.annotations.get(LEDGER_ANNOTATION))


def read_ledger(policy: ConfigurationPolicy) -> Ledger | None:
    """Return what is remembered; nothing if it never was."""
    return parse_ledger(policy.metadata.annotations.get(LEDGER_ANNOTATION))


def parse_ledger(text: str | None) -> Ledger | None:
    """Read a ledger; nothing if there is none."""
    if text is None:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return EMPTY  # somebody's edit; what is not certain is not deleted


def enforced_objects(policy: ConfigurationPolicy) -> tuple[Entry, ...]:
    """Return the objects that this policy has enforced, as far as they are not known to be gone."""
    ledger, status = read_ledger(policy), policy.status
    if ledger is None:
        told = _was_enforced(policy) or (
            is_enforcing(policy) and status.last_evaluated_generation == policy.metadata.generation
        )
    else:
        told = 0 < ledger.enforcing <= status.last_evaluated_generation
    listed = [entry_of(each) for each in status.related_objects if is_enforceable(each)]
    found = {each.place: each for each in (ledger or EMPTY).objects}
    for each in listed:
        known = found.get(each.place)
        if each.created and (known is None or not known.is_intent or known.replaced != each.uid):
            found[each.place] = each  # the status is newer than what was intended
        elif told:
            found.setdefault(each.place, each)
    return tuple(sorted(found.values()))


def leaving(policy: ConfigurationPolicy, listed: Collection[Place], selected: Iterable[Place]) -> tuple[Entry, ...]:
    """Return the objects that were enforced and are no longer listed.

    `selected` are kinds (of a namespace, where one is named) from which objects are picked by their labels. An object
    that lost its label was let go by whoever took it off, and stays.
    """
    scopes = set(selected)

    def is_selected(place: Place) -> bool:
        return any(Place(place.group, place.kind, namespace, "") in scopes for namespace in (place.namespace, ""))

    return tuple(each for each in enforced_objects(policy) if each.place not in listed and not is_selected(each.place))


def is_pruned(policy: ConfigurationPolicy, entry: Entry, live: JSONObject, manager: str) -> bool:
    """Whether an object that was enforced goes; `manager` is the name under which we create objects."""
    if policy.spec is not None and policy.spec.prune_object_behavior == "DeleteAll":
        return True
    if not entry.created:
        return False
    metadata = live["metadata"]
    if entry.uid:
        return bool(metadata.get("uid") == entry.uid)
    return is_made_by(live, manager)


def is_made_by(live: JSONObject, manager: str) -> bool:
    """Whether a server says that a manager wrote an object."""
    managed = live["metadata"].get("managedFields") or ()
    return any(each.get("manager") == manager for each in managed)


def intent_of(policy: ConfigurationPolicy, kind: Kind[Any], namespace: str, name: str) -> Entry:
    """Return what to remember of an object that is about to be created."""
    intent = Entry(kind.api_version, kind.kind, namespace, name, created=True)
    return msgspec.structs.replace(intent, replaced=_created(policy).get(intent.place, ""))


def untold_intents(policy: ConfigurationPolicy) -> tuple[Entry, ...]:
    """Return what was about to be created, and may have been without the status telling so."""
    created = _created(policy)
    return tuple(
        each
        for each in (read_ledger(policy) or EMPTY).objects
        if each.is_intent and created.get(each.place, each.replaced) == each.replaced
    )


def untold_creations(policy: ConfigurationPolicy) -> tuple[Entry, ...]:
    """Return what the policy created, as the ledger alone knows: it left the list for a while."""
    created = _created(policy)
    return tuple(
        each
        for each in (read_ledger(policy) or EMPTY).objects
        if each.uid and each.created and each.place not in created
    )


def memory_while_enforcing(policy: ConfigurationPolicy, objects: Iterable[Entry]) -> Memory:
    """Return what to remember before enforcing begins: what is to go, and what is about to be made."""
    since = (read_ledger(policy) or EMPTY).enforcing or policy.metadata.generation
    by_place = {each.place: each for each in objects}
    return Memory(True, _bounded(Ledger(since, tuple(sorted(by_place.values())))))


def has_old_intents(policy: ConfigurationPolicy) -> bool:
    """Whether the ledger has objects that were about to be made, and are known by now to be the policy's.

    As long as they are there, an object that another makes in their place could be taken for ours.
    """
    intents = [each for each in (read_ledger(policy) or EMPTY).objects if each.is_intent]
    return len(intents) > len(untold_intents(policy))


def memory_while_informing(policy: ConfigurationPolicy, gone: Collection[Place]) -> Memory:
    """Return what to remember while nothing is enforced: everything that was, but for what is gone."""
    kept = [
        each
        for each in enforced_objects(policy)
        if each.place not in gone and (each.created or policy.spec.prune_object_behavior == "DeleteAll")  # type: ignore[union-attr]  # only asked of policies that prune
    ]
    if not kept and read_ledger(policy) is None and not _was_enforced(policy):
        return Memory(True, None)
    return Memory(True, _bounded(Ledger(0, tuple(kept))))


def entry_of(related: RelatedObject) -> Entry:
    """Return a related object as the ledger has it."""
    thing, properties = related.object, related.properties
    created = properties is not None and bool(properties.created_by_policy)
    uid = properties.uid if properties is not None and created else ""
    return Entry(thing.api_version, thing.kind, thing.metadata.namespace, thing.metadata.name, uid, created)


def is_enforceable(related: RelatedObject) -> bool:
    """Whether a related object is one that a policy makes or changes, and not one that a search came across."""
    return (
        related.properties is not None
        and related.object.metadata.name not in ("", "-")
        and related.reason not in _UNWANTED
    )


def _created(policy: ConfigurationPolicy) -> dict[Place, str]:
    """Return the uids of the objects that the status says the policy created."""
    return {each.place: each.uid for each in map(entry_of, policy.status.related_objects) if each.created}


def _was_enforced(policy: ConfigurationPolicy) -> bool:
    return policy.metadata.annotations.get(ENFORCED_BEFORE_ANNOTATION) == "true"


def _bounded(ledger: Ledger) -> str:
    """Write a ledger down. If it is too long, what the policy only changed is forgotten before what it created."""
    text = msgspec.json.encode(ledger).decode()
    if len(text) <= MOST_BYTES:
        return text
    room, kept = MOST_BYTES - 100, list[Entry]()
    for entry in sorted(ledger.objects, key=lambda each: (not each.created, each)):
        room -= len(msgspec.json.encode(entry)) + 1
        if room < 0:
            break
        kept.append(entry)
    cut = Ledger(ledger.enforcing, tuple(sorted(kept)), len(ledger.objects) - len(kept))
    return msgspec.json.encode(cut).decode()
