"""What is told about the objects of a template, in the words that the field knows.

Only what is wrong is named, if anything is: whoever reads a violation does not want to read through what is well.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from echelon.api.configuration_policy import ConfigurationPolicySpec

COMPLIANT, NON_COMPLIANT, TERMINATING = "Compliant", "NonCompliant", "Terminating"
NOTIFICATION, VIOLATION = "notification", "violation"

LONGEST = 4096
_CUT = "...[truncated]"

CREATION_SUCCESS, UPDATE_SUCCESS = "K8s creation success", "K8s update success"
DELETION_SUCCESS = "K8s deletion success"
# Reasons by which an evaluation says that it changed something.
CHANGES = frozenset({CREATION_SUCCESS, UPDATE_SUCCESS, DELETION_SUCCESS})

CREATION_ERROR, UPDATE_ERROR = "K8s creation error", "K8s update template error"
DELETION_ERROR, ERROR = "K8s deletion error", "K8s error"
CLEANUP_ERROR = "Error cleaning up child objects"


class Situation(Enum):
    """What is to be told of an object."""

    FOUND = "found"
    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    MISSING = "missing"
    DIFFERS = "differs"
    UNWANTED = "unwanted"
    ABSENT = "absent"
    FAILED = "failed"


@dataclass(frozen=True)
class Words:
    """How a situation is told: of the template, and of the object."""

    compliant: bool
    reason: str
    text: str
    related: str


_LACKS = "K8s does not have a `must have` object"
WORDS = {
    Situation.FOUND: Words(
        True, "K8s `must have` object already exists", "found as specified", "Resource found as expected"
    ),
    Situation.CREATED: Words(True, CREATION_SUCCESS, "was created successfully", CREATION_SUCCESS),
    Situation.UPDATED: Words(True, UPDATE_SUCCESS, "was updated successfully", UPDATE_SUCCESS),
    Situation.DELETED: Words(True, DELETION_SUCCESS, "was deleted successfully", DELETION_SUCCESS),
    Situation.MISSING: Words(False, _LACKS, "not found", "Resource not found but should exist"),
    Situation.DIFFERS: Words(False, _LACKS, "found but not as specified", "Resource found but does not match"),
    Situation.UNWANTED: Words(
        False, "K8s has a `must not have` object", "found", "Resource found but should not exist"
    ),
    Situation.ABSENT: Words(
        True, "K8s `must not have` object already missing", "missing as expected", "Resource not found as expected"
    ),
}


@dataclass(frozen=True)
class Observation:
    """What is told of one object. A name is empty where no object of a search is meant in particular."""

    situation: Situation
    namespace: str
    name: str
    settled: bool = True  # a change that has not led to its goal yet is told as a change, and as a violation
    failure: str = ""  # the reason, of what failed
    what: str = ""  # what failed
    note: str = ""  # more to say, in the server's words as a rule

    @property
    def compliant(self) -> bool:
        """Whether the object is as it should be."""
        return self.settled and self.situation is not Situation.FAILED and WORDS[self.situation].compliant

    @property
    def reason(self) -> str:
        """The reason that the template gives."""
        return self.failure if self.situation is Situation.FAILED else WORDS[self.situation].reason

    @property
    def related_reason(self) -> str:
        """The reason that the related object gives."""
        return self.failure if self.situation is Situation.FAILED else WORDS[self.situation].related

    @property
    def text(self) -> str:
        """What is said after the name."""
        return self.what if self.situation is Situation.FAILED else WORDS[self.situation].text


@dataclass(frozen=True)
class Verdict:
    """What is told of a template."""

    compliant: bool
    reason: str
    message: str

    @property
    def state(self) -> str:
        """The verdict as the API has it."""
        return COMPLIANT if self.compliant else NON_COMPLIANT

    @property
    def type(self) -> str:
        """Type of the condition."""
        return NOTIFICATION if self.compliant else VIOLATION


def verdict(plural: str, observations: Sequence[Observation]) -> Verdict:
    """Tell what was found of the objects of a template."""
    wrong = [each for each in observations if not each.compliant]
    named = wrong or list(observations)
    reasons = {each.reason for each in named}
    # Of several reasons, one that a change gives is the least: the others want something to be done.
    reason = min(reasons, key=lambda each: (each in CHANGES, not each.endswith("error"), each))
    return Verdict(not wrong, reason, cut("; ".join(_sentences(plural, named))))


def report(state: str, verdicts: Iterable[Verdict], spec: ConfigurationPolicySpec | None, *, more: str = "") -> str:
    """Return what is told of the policy as a whole; it begins with the state."""
    custom = ""
    if spec is not None:
        custom = spec.custom_message.compliant if state == COMPLIANT else spec.custom_message.noncompliant
    told = [custom] if custom else [f"{each.type} - {each.message}" for each in verdicts]
    return cut("; ".join([state, *told, *filter(None, [more])]))


def _sentences(plural: str, observations: Sequence[Observation]) -> list[str]:
    """Say the same of everything of which the same is to say, once: by name, and then by namespace."""
    by_place: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for each in observations:
        by_place[each.text, each.note, each.namespace].add(each.name)
    by_names: dict[tuple[tuple[str, ...], str, str], list[str]] = defaultdict(list)
    for (text, note, namespace), names in by_place.items():
        by_names[tuple(sorted(names - {""})), text, note].append(namespace)
    return [
        " ".join(filter(None, (plural, f"[{', '.join(names)}]" if names else "", text, _places(namespaces))))
        + (f": {note}" if note else "")
        for (names, text, note), namespaces in sorted(by_names.items())
    ]


def _places(namespaces: Sequence[str]) -> str:
    named = sorted(filter(None, namespaces))
    if not named:
        return ""
    return f"in namespace {named[0]}" if len(named) == 1 else f"in namespaces: {', '.join(named)}"


def cut(text: str, longest: int = LONGEST) -> str:
    """Return a text, or as much of it as is allowed."""
    return text if len(text) <= longest else text[: max(longest - len(_CUT), 0)] + _CUT
