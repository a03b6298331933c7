"""The init container that keeps a pod back until other cliques of its gang serve."""

from collections.abc import Callable

from echelon.api.base import JSONObject

NAME = "grove-initc"
_ARGUMENT = "--podcliques="


class BadArguments(ValueError):
    """Arguments with which the program would end at once."""


def is_sidecar(container: JSONObject) -> bool:
    """Tell whether an init container goes on beside the others."""
    return container.get("restartPolicy") == "Always"


def awaited(container: JSONObject) -> dict[str, int] | None:
    """Return the cliques that an init container waits for, with how many pods; None if it is another program."""
    if container.get("name") != NAME:
        return None
    found: dict[str, int] = {}
    for argument in (*(container.get("command") or ()), *(container.get("args") or ())):
        if not argument.startswith(_ARGUMENT):
            continue
        for each in argument.removeprefix(_ARGUMENT).split(","):
            clique, colon, number = each.strip().rpartition(":")
            if not colon or not clique or not number.isdecimal() or int(number) == 0:
                raise BadArguments(f'{_ARGUMENT}{each}: "{each}" is not of the form <clique>:<minimum>')
            found[clique] = int(number)
    if not found:
        raise BadArguments(f"{_ARGUMENT} is missing")
    return found


def satisfied(cliques: dict[str, int], ready: Callable[[str], int]) -> bool:
    """Tell whether all of them have enough ready pods, all at once."""
    return all(ready(clique) >= number for clique, number in cliques.items())
