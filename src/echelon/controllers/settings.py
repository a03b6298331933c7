"""What whoever runs the controllers decides about them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ControllerSettings:
    """Settings of all controllers of a process."""

    # While more than this share of the fleet is silent, no cluster is tainted unreachable; 1: whatever the others do.
    silent_share: float = 0.55

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if not 0 < self.silent_share <= 1:
            raise ValueError(f"silent_share: {self.silent_share}: must be greater than 0 and at most 1")


DEFAULTS = ControllerSettings()
