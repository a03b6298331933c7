"""A cluster without a snapshot: nothing is available, and everything that was granted may be there."""

from echelon.engine.align.grant import Grant, Outstanding


class UnseenReach:
    """Bounds of a cluster that has never reported, whatever its kind."""

    __slots__ = ("ceiling", "floor", "revision", "updated")

    def __init__(self, revision: str, ceiling: int = 0, updated: int = 0) -> None:
        self.revision = revision
        self.floor = 0
        self.ceiling = ceiling
        self.updated = updated

    def under(self, grant: Grant) -> "UnseenReach":
        """Extend it by a grant."""
        updated = grant.replicas if grant.revision == self.revision else 0
        return UnseenReach(self.revision, max(self.ceiling, grant.most), max(self.updated, updated))

    def after(self, replaced: Outstanding) -> "UnseenReach":
        """Extend it by a grant that was replaced: what was decided under it has happened, or is counted as granted."""
        return self.under(replaced.grant)
