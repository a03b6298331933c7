"""How controllers run where a plan that is made twice must be the same, and indexes must be what caches say."""

from echelon.controllers.settings import ControllerSettings

STRICT = ControllerSettings(strict=True)
