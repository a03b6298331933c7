"""Which of a work's options are for a manifest.

Several entries may match one manifest. Each aspect comes from the first entry that says something about it, so a
narrow entry can stand before a wide one. The way of reading feedback is the exception: upstream takes it from the last
entry that matches, and a work must mean the same to both agents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from echelon.api.manifest_config import (
    ConditionRule,
    FeedbackRule,
    ManifestConfig,
    ManifestUpdateStrategy,
    ResourceIdentifier,
)
from echelon.api.work import ManifestResourceMeta

_UPDATE = ManifestUpdateStrategy()


@dataclass(frozen=True)
class Options:
    """What a work asks for with one manifest."""

    update: ManifestUpdateStrategy = _UPDATE
    feedback: tuple[FeedbackRule, ...] = ()
    conditions: tuple[ConditionRule, ...] = ()


def options_for(configs: Sequence[ManifestConfig], meta: ManifestResourceMeta) -> Options:
    """Return the options of a manifest."""
    matching = [config for config in configs if matches(config.resource_identifier, meta)]
    if not matching:
        return _NONE
    update = next((config.update_strategy for config in matching if config.update_strategy is not None), None)
    feedback = next((config.feedback_rules for config in matching if config.feedback_rules), [])
    conditions = next((config.condition_rules for config in matching if config.condition_rules), [])
    return Options(update or _UPDATE, tuple(feedback), tuple(conditions))


def matches(identifier: ResourceIdentifier, meta: ManifestResourceMeta) -> bool:
    """Whether an identifier means a manifest; a star in its name or namespace stands for any text."""
    return (
        (identifier.group, identifier.resource) == (meta.group, meta.resource)
        and _like(identifier.name, meta.name)
        and _like(identifier.namespace, meta.namespace)
    )


def _like(pattern: str, text: str) -> bool:
    """Match from left to right, each part at its first place: no pattern makes that go back and try again."""
    if "*" not in pattern:
        return pattern == text
    first, *middle, last = pattern.split("*")
    if len(first) + len(last) > len(text) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in filter(None, middle):
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


_NONE = Options()
