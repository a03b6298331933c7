"""What one pushed manifest permits a member to do.

A member acts on what it has been sent, not on what was meant, so a grant holds the numbers of the manifest itself,
after overrides: also those that have no effect, such as the `maxUnavailable: 1` of a paused Deployment.
"""

import msgspec


class Grant(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One push: its id, the revision of its pod template in that cluster, and the fields that are governed."""

    id: int
    revision: str
    replicas: int
    unavailable: int = 0
    surge: int = 0
    partition: int = 0
    paused: bool = False

    @property
    def least(self) -> int:
        """The availability below which no rolling update goes; a pause takes from no more than is wanted."""
        return self.replicas if self.paused else max(0, self.replicas - self.unavailable)

    @property
    def most(self) -> int:
        """The number of pods beyond which none is made."""
        return self.replicas + self.surge

    def permits_as_much_as(self, other: "Grant") -> bool:
        """Tell whether two pushes have the same content."""
        return msgspec.structs.replace(self, id=other.id) == other


class Outstanding(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A grant that a member might still act on, and what is known of its way.

    `generation` is the lowest one at which the member was seen to have it, zero if it was not seen yet. A grant that
    was replaced on the member is on its way out since `replaced_at`, where what was decided under it may still happen:
    as far as `floor` and `ceiling`, which are what the grants up to it could bring about when it was last in force.
    A change that somebody else made on the member is charged like a grant: `drift`.
    """

    grant: Grant
    generation: int = 0
    replaced_at: float | None = None
    floor: int = 0
    ceiling: int = 0
    drift: bool = False
