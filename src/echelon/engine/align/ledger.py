"""The ledger: every grant that some member might still act on.

It is written before the works are, by compare-and-swap, so that of two leaders only one can spend a unit of a budget.
Whoever reads it knows the worst that can happen, whatever is on its way. A grant leaves it only on proof that the
member cannot act on it any more. What the dead leave behind (pods that are marked for deletion, sizes that ReplicaSets
remember) is kept as plain numbers.

Of a cluster that a ledger does not know although it has something, every push is unknown: it might do anything until
it has reported a new one, and until then nobody gets more than they have. That is so of all clusters when a ledger is
lost or cannot be read (`Ledger.lost`), and of one that reports a push which is younger than the ledger itself, as after
a hub was restored from a backup.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.view import MemberView

FORMAT = 1
_FAR = 1 << 30  # no ordinal
_FORGOTTEN = "?"  # some template was complete once, and nobody knows which


class BadLedger(ValueError):
    """A ledger that cannot be read, and why."""


class Sizes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The lowest and highest ceilings of grants that are gone: in all, and of the last revision among them.

    ReplicaSets of a Deployment may remember them. A pause or a resize spreads pods in proportion to what each of them
    remembers, so a value from long ago can move pods today. Of a StatefulSet, pods may be left up to the highest.
    """

    lowest: int
    highest: int
    revision: str
    revision_lowest: int
    revision_highest: int

    @classmethod
    def only(cls, grant: Grant) -> "Sizes":
        """Return what is remembered if it is of one grant."""
        return cls(grant.most, grant.most, grant.revision, grant.most, grant.most)

    def and_of(self, grant: Grant) -> "Sizes":
        """Return what may be remembered after another grant."""
        low = high = grant.most
        if grant.revision == self.revision:
            low, high = min(self.revision_lowest, low), max(self.revision_highest, high)
        return Sizes(min(self.lowest, low), max(self.highest, high), grant.revision, low, high)


class Ordinals(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which pods of a StatefulSet may have a revision: those from the lowest partition on that was granted for it.

    And all that do not have it are below an ordinal, where that is known. As far as grants are gone.
    """

    least: int = 0
    below: int | None = None

    @classmethod
    def none(cls) -> "Ordinals":
        """Return those of a revision that no pod has."""
        return cls(_FAR)

    def under(self, partition: int) -> "Ordinals":
        """Return the same after a grant: a pod that dies below its partition comes back with the old revision."""
        return Ordinals(min(self.least, partition), None if self.below is None else max(self.below, partition))


class ClusterLedger(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One cluster: its grants, the oldest first, its last snapshot, and what must not be forgotten."""

    grants: tuple[Outstanding, ...] = ()
    view: MemberView | None = None
    revision: str = ""  # of the counts in the snapshot; empty if it cannot be told, and then every pod counts as old
    former: tuple[str, ...] = ()  # revisions that pods may have besides that of the newest grant
    started: bool = False  # some grant of the newest revision could make pods of it
    returning: bool = False  # the newest grant's revision is one that pods may have had before
    ordinals: dict[str, Ordinals] = {}  # of a StatefulSet, by revision: of the newest grant, and of the snapshot
    condemned: dict[str, int] = {}  # pods that may be marked for deletion, by the revision that marked them
    quiet_since: float | None = None  # since when everything that is wanted is there and available
    sizes: Sizes | None = None

    @classmethod
    def unknown(cls, view: MemberView | None, most: int) -> "ClusterLedger":
        """Return one of which nothing is known but perhaps a snapshot: it may have been granted up to `most` pods."""
        replicas = view.replicas if view else 0
        anything = Grant(view.push_id if view else 0, "", replicas, unavailable=replicas, surge=most)
        sizes = Sizes(0, anything.most, "", 0, anything.most)
        return cls(grants=(Outstanding(anything),), former=("",), returning=True, sizes=sizes)

    @property
    def is_unknown(self) -> bool:
        """Whether it may act on a push that nobody here knows."""
        return any(not each.grant.revision and not each.drift for each in self.grants)

    @property
    def updated(self) -> int:
        """Pods of the revision of the snapshot, and those that can only become some: zero if that cannot be told.

        Pods that died are missing from a status until they are made again. Where no other revision has any pods, they
        come back with this one, so they are not outdated.
        """
        view, newest = self.view, self.newest
        if view is None or not self.revision:
            return 0
        if not view.missing or newest is None or (newest.revision != self.revision and self.started):
            return min(view.updated, view.pods)
        alone = all(each == self.revision for each in self.former)
        return min(view.updated + view.missing, view.pods) if alone else min(view.updated, view.pods)

    @property
    def newest(self) -> Grant | None:
        """The last push."""
        for each in reversed(self.grants):
            if not each.drift:
                return each.grant
        return None


class Stalled(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Since when nothing has moved while too few pods were available, and how things stood then.

    Once broken clusters are allowed to mend themselves, they are until enough is available again.
    """

    since: float
    standing: tuple[int, ...]
    repairing: bool = False


class Ledger(msgspec.Struct, frozen=True, rename="camel"):
    """The ledger of one workload, by cluster."""

    format: int = FORMAT
    next_push: int = 1
    clusters: dict[str, ClusterLedger] = {}
    stable: str = ""  # the template that was last complete everywhere
    # The one that clusters were born with: the old one for a partition, until some was complete. Left out if not known.
    first: str | msgspec.UnsetType = msgspec.UNSET
    stalled: Stalled | None = None

    @classmethod
    def read(cls, content: bytes | Mapping[str, Any]) -> "Ledger":
        """Read JSON, or what was JSON. Raises BadLedger."""
        try:
            if isinstance(content, bytes):
                found = msgspec.json.decode(content, type=cls)
            else:
                found = msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise BadLedger(f"the ledger does not fit its format: {error}") from error
        except msgspec.DecodeError as error:
            raise BadLedger(f"the ledger is no JSON: {error}") from error
        if found.format != FORMAT:
            raise BadLedger(f"format is {found.format}, and this program reads only {FORMAT}")
        return found

    @classmethod
    def lost(cls, views: Mapping[str, MemberView], most: int, works: Mapping[str, Grant] | None = None) -> "Ledger":
        """Begin anew without knowing what was granted: each member might have up to `most` pods, or none.

        `works` are the last pushes, read from the works that are still there. They are pushed once more, under new ids
        that the ledger has already: to change nothing is the safest thing to send to members of which nothing is known.
        """
        last = works or {}
        ids = [*(view.push_id for view in views.values()), *(grant.id for grant in last.values())]
        next_push = 1 + max(ids, default=0)
        clusters = {}
        for name in sorted({*views, *last}):
            entry = ClusterLedger.unknown(views.get(name), most)
            if name in last:
                again = msgspec.structs.replace(last[name], id=next_push)
                entry = msgspec.structs.replace(entry, grants=(*entry.grants, Outstanding(again)), started=True)
                next_push += 1
            clusters[name] = entry
        return cls(next_push=next_push, clusters=clusters, stable=_FORGOTTEN)

    @property
    def json(self) -> bytes:
        """The ledger as it is stored."""
        return msgspec.json.encode(self)

    def without(self, names: Iterable[str]) -> "Ledger":
        """Return it without clusters whose workload is gone, or that are written off."""
        gone = frozenset(names)
        kept = {name: each for name, each in self.clusters.items() if name not in gone}
        return msgspec.structs.replace(self, clusters=kept, first=self.first if kept else msgspec.UNSET)

    def refused(self, cluster: str, push_id: int) -> "Ledger":
        """Return it without a grant whose write was refused for certain.

        Nobody must ever act on it: whoever was refused does not try again under this id, not even later.
        """
        entry = self.clusters.get(cluster)
        if entry is None:
            return self
        kept = tuple(each for each in entry.grants if each.grant.id != push_id)
        # Whether the grant before it could make pods is not known any more, so the worst is assumed.
        entry = msgspec.structs.replace(entry, grants=kept, started=True)
        clusters = {**self.clusters, cluster: entry}
        return msgspec.structs.replace(self, clusters=clusters)
