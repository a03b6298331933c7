"""Why a set is not accepted, and how to read the names in it while nobody knows whether they are any."""

from typing import NamedTuple

from echelon.api.base import JSON, JSONObject
from echelon.engine.work.health_state import part


class Problem(NamedTuple):
    """Why a set is not accepted."""

    reason: str
    message: str


def clique_names(group: JSONObject) -> list[str]:
    """Return the cliques that a scaling group names."""
    return _texts(group.get("cliqueNames"))


def starts_after(clique: JSONObject) -> list[str]:
    """Return the cliques that a clique names as those that it starts after."""
    return _texts(part(clique, "spec").get("startsAfter"))


def _texts(value: JSON) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
