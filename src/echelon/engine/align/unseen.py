"""A cluster without a snapshot: nothing is available, and everything that was granted may be there."""

import msgspec

from echelon.engine.align.grant import Grant, Outstanding


class UnseenReach(msgspec.Struct, frozen=True, gc=False):
    """Bounds of a cluster that has never reported, whatever its kind."""

    revision: str
    ceiling: int = 0
    updated: int = 0
    floor: int = 0

    def under(self, grant: Grant) -> "UnseenReach":
        """Extend it by a grant."""
        updated = grant.replicas if grant.revision == self.revision else 0
        return UnseenReach(self.revision, max(self.ceiling, grant.most), max(self.updated, updated))

    def after(self, replaced: Outstanding) -> "UnseenReach":
        """Extend it by a grant that was replaced."""
        return self.under(replaced.grant)
