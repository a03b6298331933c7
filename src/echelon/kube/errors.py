"""The errors of a Kubernetes API, one class a mistake.

The embedded hub raises them, the HTTP client makes them from the Status that a server answered, so a controller
handles both in the same way. The texts are those of Kubernetes, because people search for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

# How many mistakes one refusal tells. Who sends a hundred thousand gets no answer of a hundred times their size.
MOST_CAUSES: Final = 100


@dataclass(frozen=True)
class Cause:
    """One field that was wrong, and why."""

    field: str
    detail: str  # as in "Invalid value: ..."; the part after the field path
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


class ApiError(Exception):
    """A request that the API server refused; `status()` is what goes over the wire."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, details: dict[str, Any] | None = None, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details or {}
        self.status_code = code or self.code
        self.status_reason = reason or self.reason

    def status(self) -> dict[str, Any]:
        """Return the Status object."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.status_reason,
            "code": self.status_code,
        }
        if self.details:
            body["details"] = self.details
        return body

    @property
    def retry_after(self) -> int:
        """Seconds to wait before the next try; 0 when the server did not say."""
        return int(self.details.get("retryAfterSeconds", 0))


class BadRequest(ApiError):
    """The request could not be understood."""

    code = 400
    reason = "BadRequest"


class Unauthorized(ApiError):
    """Nobody knows who is asking."""

    code = 401
    reason = "Unauthorized"


class Forbidden(ApiError):
    """The one who asks may not do that."""

    code = 403
    reason = "Forbidden"


class NotFound(ApiError):
    """The object or the resource does not exist."""

    code = 404
    reason = "NotFound"


class MethodNotAllowed(ApiError):
    """The resource exists and does not do that."""

    code = 405
    reason = "MethodNotAllowed"


class NotAcceptable(ApiError):
    """No format that the client takes can be served."""

    code = 406
    reason = "NotAcceptable"


class AlreadyExists(ApiError):
    """The name is taken."""

    code = 409
    reason = "AlreadyExists"


class Conflict(ApiError):
    """Somebody else wrote meanwhile, or owns the field."""

    code = 409
    reason = "Conflict"


class Gone(ApiError):
    """The resource version is too old to resume from: list again."""

    code = 410
    reason = "Expired"


class TooLarge(ApiError):
    """The request is larger than an object may be."""

    code = 413
    reason = "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """The body has a format that the server does not read."""

    code = 415
    reason = "UnsupportedMediaType"


class Invalid(ApiError):
    """The object was understood and breaks a rule."""

    code = 422
    reason = "Invalid"


class TooManyRequests(ApiError):
    """The server asks to slow down."""

    code = 429
    reason = "TooManyRequests"


class ServerTimeout(ApiError):
    """The server could not finish in time; the write may have happened."""

    code = 504
    reason = "Timeout"


class Unavailable(ApiError):
    """The server is starting or stopping."""

    code = 503
    reason = "ServiceUnavailable"


class Unreadable(ApiError):
    """The server answered with something that is no such object; no server sends this, a client concludes it."""

    reason = "UnreadableAnswer"


# What a server's Status can stand for. Conflict comes before AlreadyExists: it is what a bare 409 means.
_SENT = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    Conflict,
    AlreadyExists,
    Gone,
    TooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    ServerTimeout,
    Unavailable,
)


def not_found(plural: str, group: str, name: str) -> NotFound:
    """Say that an object does not exist."""
    return NotFound(f'{_qualified(plural, group)} "{name}" not found', details=_details(plural, group, name))


def already_exists(plural: str, group: str, name: str) -> AlreadyExists:
    """Say that a name is taken."""
    return AlreadyExists(f'{_qualified(plural, group)} "{name}" already exists', details=_details(plural, group, name))


def conflict(plural: str, group: str, name: str, why: str) -> Conflict:
    """Say that an operation lost against another one."""
    text = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return Conflict(text, details=_details(plural, group, name))


def stale(plural: str, group: str, name: str) -> Conflict:
    """Say that the object changed since it was read."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def forbidden(plural: str, group: str, name: str, why: str) -> Forbidden:
    """Say that a rule of the server forbids it."""
    target = f'{_qualified(plural, group)} "{name}"' if name else _qualified(plural, group)
    return Forbidden(f"{target} is forbidden: {why}", details=_details(plural, group, name))


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Invalid:
    """Say which fields break which rules; of very many mistakes, the first."""
    listed = [str(cause) for cause in causes[:MOST_CAUSES]]
    more = " and more" if len(causes) > MOST_CAUSES else ""
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}{more}]"
    details = _details(kind, group, name)
    details["causes"] = [{"reason": c.reason, "message": c.detail, "field": c.field} for c in causes[:MOST_CAUSES]]
    return Invalid(f'{_qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def from_status(status: dict[str, Any]) -> ApiError:
    """Make the error that a Status object stands for."""
    code = int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    by_reason = (cls for cls in _SENT if cls.reason == reason)
    by_code = (cls for cls in _SENT if cls.code == code)
    cls: type[ApiError] = next(by_reason, None) or next(by_code, ApiError)
    return cls(str(status.get("message") or f"HTTP {code}"), details=status.get("details"), code=code, reason=reason)


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _details(kind: str, group: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}
