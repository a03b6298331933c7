"""What is imported when it is first asked for: most hubs have few of the kinds that can be rolled out.

What a kind needs for its decisions takes longer to import than a hub takes to say that it has none of it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def on_demand(module: str, name: str) -> Callable[..., Any]:
    """Return a function that does what that of a module does."""

    def called(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    return called


def value_on_demand(module: str, name: str) -> Callable[[], Any]:
    """Return a function that returns a value of a module."""
    return lambda: getattr(import_module(module), name)
