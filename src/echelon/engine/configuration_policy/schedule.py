"""When a policy is evaluated.

A policy that nobody has looked at in its present form is due at once, and so is one that somebody asks to be tried
again. After that its interval decides: at every change of what it looks at, after a time, or never. Nothing is
evaluated more often than every few seconds, however much happens around it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from echelon.api.configuration_policy import ConfigurationPolicy
from echelon.api.times import parse_time
from echelon.engine.configuration_policy.messages import COMPLIANT, NON_COMPLIANT
from echelon.engine.configuration_policy.pruning import has_old_intents
from echelon.engine.configuration_policy.status import changed_something
from echelon.engine.rollout.annotations import RETRIED_ANNOTATION
from echelon.engine.rollout.durations import NotADuration, parse

LEAST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=4)  # of a fight with somebody who undoes what was mended
PATIENCE = 2  # evaluations in a row that mend something before the pauses grow
NOW = timedelta()

NEVER, WATCH = "never", "watch"


@dataclass(frozen=True)
class Circumstances:
    """What is known beside the policy itself.

    `changed`: something that it looks at may be another than at its last evaluation; `evaluated_at`, `retried_at`: when
    this agent evaluated it last, and with which request to try again; `retry_at`: something failed then, and is worth
    another try from that time on; `mended`: how many evaluations in a row had something to mend; `backoff`: how long to
    wait between two evaluations at least.
    """

    changed: bool = False
    namespaces_changed: bool = False
    evaluated_at: datetime | None = None
    evaluated_generation: int = 0
    retried_at: str = ""
    retry_at: datetime | None = None
    mended: int = 0
    backoff: timedelta = LEAST_PAUSE

    @property
    def pause(self) -> timedelta:
        """How long to wait between two evaluations; longer, if somebody undoes each time what was mended."""
        return min(self.backoff * (1 << min(max(self.mended - PATIENCE, 0), 8)), LONGEST_PAUSE)


def next_evaluation(policy: ConfigurationPolicy, seen: Circumstances, now: datetime) -> timedelta | None:
    """Return in how long to evaluate a policy; None: not before something happens."""
    if is_urgent(policy, seen):
        return NOW
    wait = _wanted(policy, seen, now)
    if wait is None or seen.evaluated_at is None:
        return wait
    return max(wait, seen.evaluated_at + seen.pause - now, NOW)


def watches_objects(policy: ConfigurationPolicy) -> bool:
    """Whether a policy is evaluated when what it looks at changes."""
    return _interval(policy) == WATCH


def is_urgent(policy: ConfigurationPolicy, seen: Circumstances) -> bool:
    """Whether a policy is due whatever its interval and however recent its last evaluation."""
    metadata, status = policy.metadata, policy.status
    if metadata.deletion_timestamp:
        return seen.evaluated_at is None or seen.changed or status.compliant != "Terminating"
    if metadata.generation not in (status.last_evaluated_generation, seen.evaluated_generation):
        return True
    asked = metadata.annotations.get(RETRIED_ANNOTATION, "")
    return asked != seen.retried_at and _is_newer(asked, status.last_evaluated)


def _wanted(policy: ConfigurationPolicy, seen: Circumstances, now: datetime) -> timedelta | None:
    """Return when a policy wants to be evaluated, as if it had not been evaluated just now."""
    status = policy.status
    last = max(filter(None, (seen.evaluated_at, parse_time(status.last_evaluated))), default=None)
    if policy.metadata.deletion_timestamp:
        return NOW if seen.changed else _until(seen.retry_at, now)
    if last is None or policy.metadata.generation != status.last_evaluated_generation:
        return NOW
    if status.compliant not in (COMPLIANT, NON_COMPLIANT) or seen.namespaces_changed:
        return NOW
    if changed_something(status) and status.compliant != COMPLIANT:
        return NOW  # it was not the last word
    if has_old_intents(policy):
        return NOW
    interval = _interval(policy)
    wait = NOW if interval == WATCH and seen.changed else None
    if isinstance(interval, timedelta):
        wait = max(last + interval - now, NOW) if last <= now else interval
    again = _until(seen.retry_at, now)
    return min(filter(lambda each: each is not None, (wait, again)), default=None)  # type: ignore[type-var]  # no None is left


def _interval(policy: ConfigurationPolicy) -> timedelta | str:
    """Return how often a policy is evaluated in its present state; what nobody understands means always."""
    if policy.spec is None:
        return WATCH
    said = policy.spec.evaluation_interval
    text = said.compliant if policy.status.compliant == COMPLIANT else said.noncompliant
    if text in ("", WATCH, NEVER):
        return text or WATCH
    try:
        return parse(text)
    except NotADuration:
        return WATCH


def _is_newer(asked: str, evaluated: str) -> bool:
    """Whether somebody asked for a try after the last one. Times that cannot be read ask for one."""
    if not asked:
        return False
    wish, last = parse_time(asked), parse_time(evaluated)
    return wish is None or last is None or wish > last


def _until(moment: datetime | None, now: datetime) -> timedelta | None:
    return None if moment is None else max(moment - now, NOW)
