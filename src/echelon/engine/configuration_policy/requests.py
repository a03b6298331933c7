"""What an evaluation asks of its cluster, and what it may be answered.

An evaluation is a generator: it yields a request, is sent the answer, and goes on. So every decision, and the order of
all steps, is here and can be tried against a dictionary, and whoever carries out the requests decides nothing.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.engine.configuration_policy.namespaces import NamespaceFacts
from echelon.engine.plan import Create, Delete, Patch

T = TypeVar("T")


class Cause(Enum):
    """What kind of refusal it was, as far as that makes a difference."""

    CONFLICT = "conflict"  # the object is another one, or in another state, than was expected
    NOT_FOUND = "not found"
    INVALID = "invalid"
    NO_DRY_RUN = "no dry run"  # something in the server's way cannot be asked without doing it
    REFUSED = "refused"
    TROUBLE = "trouble"  # the server was away, busy or broken


@dataclass(frozen=True)
class Refusal:
    """A request that was not fulfilled, in the server's words."""

    cause: Cause
    message: str


@dataclass(frozen=True)
class FindKind:
    """Ask as which resource a kind is served; answered by a `Kind`, or None if it is not."""

    api_version: str
    kind: str


@dataclass(frozen=True)
class ListNamespaces:
    """Ask for the namespaces of the cluster; answered by a sequence of `NamespaceFacts`."""


@dataclass(frozen=True)
class Get:
    """Ask for an object; answered by it or None. `fresh`: what is remembered of it is too old."""

    kind: Kind[Any]
    namespace: str
    name: str
    fresh: bool = False


@dataclass(frozen=True)
class IsGone:
    """Ask whether an object, the one of a uid if that is said, is really gone; answered by yes or no.

    No read can tell that for sure, for it may be one of the past.
    """

    kind: Kind[Any]
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True)
class List:
    """Ask for all objects of a kind in a namespace, or in all; answered by a sequence of them."""

    kind: Kind[Any]
    namespace: str


@dataclass(frozen=True)
class Try:
    """Ask what a write would lead to; answered by the object."""

    write: Create | Patch


@dataclass(frozen=True)
class Do:
    """Make a write; answered by the object, or None for a deletion."""

    write: Create | Patch | Delete


@dataclass(frozen=True)
class Pause:
    """Let others have their turn; answered when they had it."""


@dataclass(frozen=True)
class Remember:
    """Write down on the policy itself what must not be forgotten; answered when that is done.

    Whoever cannot do that ends the evaluation.
    """

    finalizer: bool
    ledger: str | None  # None: nothing is to be remembered


Request: TypeAlias = FindKind | ListNamespaces | Get | IsGone | List | Try | Do | Pause | Remember
Steps: TypeAlias = Generator[Request, Any, T]


class RequestFailed(Exception):
    """A request was refused, and whoever made it cannot go on."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def find_kind(api_version: str, kind: str) -> Steps[Kind[Any] | None]:
    """Return as which resource a kind is served, if it is. Raises `RequestFailed`."""
    answer: Kind[Any] | None = yield from _fulfilled(FindKind(api_version, kind))
    return answer


def list_namespaces() -> Steps[Sequence[NamespaceFacts]]:
    """Return the namespaces of the cluster. Raises `RequestFailed`."""
    answer: Sequence[NamespaceFacts] = yield from _fulfilled(ListNamespaces())
    return answer


def get(kind: Kind[Any], namespace: str, name: str, *, fresh: bool = False) -> Steps[JSONObject | None]:
    """Return an object, if there is one. Raises `RequestFailed`."""
    answer: JSONObject | None = yield from _fulfilled(Get(kind, namespace, name, fresh))
    return answer


def is_gone(kind: Kind[Any], namespace: str, name: str, uid: str = "") -> Steps[bool]:
    """Tell whether an object is really gone. Raises `RequestFailed`."""
    answer: bool = yield from _fulfilled(IsGone(kind, namespace, name, uid))
    return answer


def list_objects(kind: Kind[Any], namespace: str) -> Steps[Sequence[JSONObject]]:
    """Return the objects of a kind. Raises `RequestFailed`."""
    answer: Sequence[JSONObject] = yield from _fulfilled(List(kind, namespace))
    return answer


def attempt(write: Create | Patch) -> Steps[JSONObject | Refusal]:
    """Return what a write would lead to, or why it would be refused."""
    answer: JSONObject | Refusal = yield Try(write)
    return answer


def do(write: Create | Patch | Delete) -> Steps[JSONObject | Refusal | None]:
    """Make a write; return what it led to, or why it was refused."""
    answer: JSONObject | Refusal | None = yield Do(write)
    return answer


def _fulfilled(request: Request) -> Steps[Any]:
    answer = yield request
    if isinstance(answer, Refusal):
        raise RequestFailed(answer)
    return answer
