"""The embedded hub for the tests of what talks to it."""

from tests.hub.conftest import crds, hub

__all__ = ["crds", "hub"]
