"""Bootstrap tokens: Secrets in `kube-system` by which somebody proves that they were told to join.

A token is `ID.SECRET`. The id is public and names the Secret; the secret is compared in constant time. As in Kubernetes
one that has expired, that is being deleted or that is not meant for authentication is no token at all, and a Secret
that cannot be understood in full is none either: an expiration that nobody can read must not mean "never".
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from echelon.api.base import JSONObject
from echelon.api.times import parse_time
from echelon.hub.access.identity import AUTHENTICATED, User

TYPE: Final = "bootstrap.kubernetes.io/token"
NAMESPACE: Final = "kube-system"
PREFIX: Final = "bootstrap-token-"
USER_PREFIX: Final = "system:bootstrap:"
GROUP: Final = "system:bootstrappers"

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


def bootstrap_user(token: str, secret: Callable[[str], JSONObject | None], now: datetime) -> User | None:
    """Return who shows a token; `secret` finds a Secret of `kube-system` by its name. Nobody if it is not good."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    found = secret(PREFIX + parts[1])
    if found is None or found.get("type") != TYPE or found["metadata"].get("deletionTimestamp"):
        return None
    fields = _fields(found)
    if fields is None or fields.get("token-id") != parts[1]:
        return None
    if not hmac.compare_digest(fields.get("token-secret", "").encode(), parts[2].encode()):
        return None
    groups = _groups(fields.get("auth-extra-groups", ""))
    if groups is None or fields.get("usage-bootstrap-authentication") != "true" or _has_expired(fields, now):
        return None
    return User(USER_PREFIX + parts[1], (*groups, AUTHENTICATED))


def _fields(secret: JSONObject) -> dict[str, str] | None:
    try:
        data = secret.get("data") or {}
        return {name: base64.b64decode(value, validate=True).decode() for name, value in data.items()}
    except (binascii.Error, ValueError):
        return None


def _groups(extra: str) -> tuple[str, ...] | None:
    listed = [group for group in extra.split(",") if group] if extra else []
    if not all(_EXTRA_GROUP.fullmatch(group) for group in listed):
        return None
    return tuple(sorted({GROUP, *listed}))


def _has_expired(fields: dict[str, str], now: datetime) -> bool:
    said = fields.get("expiration")
    if said is None:
        return False
    until = parse_time(said)
    return until is None or until <= now
