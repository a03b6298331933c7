"""The ledger: every grant that some member might still act on.

It is written before the works are, by compare-and-swap, so that of two leaders only one can spend a unit of a budget.
Whoever reads it knows the worst that can happen, whatever is on its way. A grant leaves it only on proof that the
member cannot act on it any more. What the dead leave behind (pods that are marked for deletion, sizes that ReplicaSets
remember) is kept as plain numbers.

A ledger that is lost or cannot be read is begun anew with `Ledger.lost`: each member might then do anything, until
it has reported a push of the new ledger.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from echelon.engine.align.grant import Grant, Outstanding
from echelon.engine.align.view import MemberView

FORMAT = 1


class BadLedger(ValueError):
    """A ledger that cannot be read, and why."""


class Expected(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Availability that is on its way back after budget was taken from a cluster, or on its way up as it grows."""

    floor: int
    amount: int

    def missing(self, floor: int) -> int:
        """Return how much of it has yet to come."""
        return max(0, min(self.amount, self.floor - floor))


class Sizes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The lowest and highest ceilings that ReplicaSets of a Deployment may remember, in all and of this revision.

    A pause or a resize spreads pods in proportion to what each ReplicaSet remembers, so a value from long ago can move
    pods today.
    """

    lowest: int
    highest: int
    revision_lowest: int
    revision_highest: int


class ClusterLedger(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One cluster: its grants, the oldest first, its last snapshot, and what must not be forgotten."""

    grants: tuple[Outstanding, ...] = ()
    view: MemberView | None = None
    revision: str = ""  # of the counts in the snapshot; empty if it cannot be told, and then every pod counts as old
    former: tuple[str, ...] = ()  # revisions that pods may have besides that of the newest grant
    returning: bool = False  # the newest grant's revision is one that pods may have had before
    least_partition: int = 0  # of all grants of the newest revision
    outdated_below: int | None = None  # StatefulSet: the ordinal below which all outdated pods are, where it is known
    condemned: dict[str, int] = {}  # pods that may be marked for deletion, by the revision that marked them
    quiet_since: float | None = None  # since when everything that is wanted is there and available
    sizes: Sizes | None = None
    expected: Expected | None = None

    @property
    def newest(self) -> Grant | None:
        """The last push."""
        return next((each.grant for each in reversed(self.grants) if not each.drift), None)


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
    def lost(cls, views: Mapping[str, MemberView], most: int) -> "Ledger":
        """Begin anew without knowing what was granted: each member might have up to `most` pods, or none."""
        clusters = {}
        for name, view in views.items():
            anything = Grant(view.push_id, "", view.replicas, unavailable=most, surge=most)
            highest = view.replicas + most
            sizes = Sizes(0, highest, 0, highest)
            clusters[name] = ClusterLedger(grants=(Outstanding(anything),), former=("",), returning=True, sizes=sizes)
        return cls(next_push=1 + max((view.push_id for view in views.values()), default=0), clusters=clusters)

    @property
    def json(self) -> bytes:
        """The ledger as it is stored."""
        return msgspec.json.encode(self)

    def without(self, names: Iterable[str]) -> "Ledger":
        """Return it without clusters whose workload is gone, or that are written off."""
        gone = frozenset(names)
        kept = {name: each for name, each in self.clusters.items() if name not in gone}
        return msgspec.structs.replace(self, clusters=kept)

    def refused(self, cluster: str, push_id: int) -> "Ledger":
        """Return it without a grant whose write was refused for certain, so that nobody ever acts on it."""
        entry = self.clusters.get(cluster)
        if entry is None:
            return self
        kept = tuple(each for each in entry.grants if each.grant.id != push_id)
        # Which of the revisions are new to the cluster is not known any more, so the worst is assumed.
        entry = msgspec.structs.replace(entry, grants=kept, returning=True, least_partition=0, outdated_below=None)
        clusters = {**self.clusters, cluster: entry}
        return msgspec.structs.replace(self, clusters=clusters)
