"""How long something may take, as people write it: `90`, `500ms`, `30s`, `2m`."""

import re

import click

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class TimeSpan(click.ParamType[float]):
    """A length of time, in seconds where no unit is named."""

    name = "TIME"

    def __init__(self, least: float = 0.0, *, or_else: str = "") -> None:
        self._least = least
        self._or_else = or_else

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", str(value).strip())
        if found is None:
            self.fail(f'it is "{value}": it must be a time such as 500ms, 30s or 2m{self._or_else}', param, ctx)
        seconds = float(found[1]) * _UNITS[found[2]]
        if seconds < self._least:
            self.fail(f'it is "{value}": it must be {self._least:g}s at least', param, ctx)
        return seconds
