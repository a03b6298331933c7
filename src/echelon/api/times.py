"""Times as the API writes them: `Time` to the second, `MicroTime` to the microsecond, always in UTC."""

from datetime import UTC, datetime
from functools import lru_cache

_ZERO = "+00:00"


@lru_cache(maxsize=256)  # much is said of one moment: the same times for all clusters of a wave
def format_time(moment: datetime) -> str:
    """Write a time to the second, as in conditions."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").removesuffix(_ZERO) + "Z"


def format_micro_time(moment: datetime) -> str:
    """Write a time to the microsecond: one that is cut to seconds lets a deadline begin too early."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix(_ZERO) + "Z"


def parse_time(text: str | None) -> datetime | None:
    """Read a time; nothing for what is none. One without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)
