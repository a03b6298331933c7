"""Acting as somebody else: what the Impersonate-* headers ask for, and what the asker must be allowed for it.

Every part of the borrowed identity is a permission of its own. Without that, a user who may act as one harmless
account could add `system:masters` as a group on the way. This module only says what to check; the one authorisation
function decides, and all checks must pass.
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote

import msgspec

from echelon.api.name_patterns import SUBDOMAIN
from echelon.hub.access.identity import ACCOUNT_PREFIX, User, account_groups, with_default_group
from echelon.hub.access.rbac import Attributes
from echelon.kube.errors import BadRequest

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_PREFIX = "impersonate-"
_AUTHENTICATION = "authentication.k8s.io"

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(rf"(?=.{{1,253}}\Z){SUBDOMAIN}")


class Impersonation(msgspec.Struct, frozen=True):
    """Somebody to act as, and everything that must be allowed first."""

    user: User
    checks: tuple[Attributes, ...]


class _Wanted(msgspec.Struct):
    users: list[str] = []
    groups: list[str] = []
    uids: list[str] = []
    extra: dict[str, list[str]] = {}


def impersonation(asker: User, headers: Iterable[tuple[str, str]]) -> Impersonation | None:
    """Return whom the headers ask to act as; None when they do not ask for it."""
    wanted = _Wanted()
    asked = False
    for header, value in headers:
        lowered = header.lower()
        if lowered.startswith(_PREFIX):
            asked = True
            if not _is_text(lowered) or not _is_text(value):
                raise BadRequest("impersonation headers must be UTF-8")
            _note(wanted, lowered, value)
    if not asked:
        return None
    if not wanted.users or not wanted.users[0]:
        raise BadRequest("requested impersonation of groups, a uid or extra fields without impersonating a user")
    if len(wanted.users) > 1 or len(wanted.uids) > 1:
        raise BadRequest("Impersonate-User and Impersonate-Uid can be given only once")
    return _build(asker, wanted)


def split_account(username: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that the user name stands for, None if it stands for none."""
    if not username.startswith(ACCOUNT_PREFIX):
        return None
    namespace, _, name = username.removeprefix(ACCOUNT_PREFIX).partition(":")
    if _NAMESPACE.fullmatch(namespace) and _ACCOUNT.fullmatch(name):
        return namespace, name
    return None


def _is_text(header: str) -> bool:
    """Tell whether the bytes of a header were text: a name that cannot be written down would fail later, anywhere."""
    return not any("\ud800" <= char <= "\udfff" for char in header)


def _note(wanted: _Wanted, header: str, value: str) -> None:
    if header == _USER:
        wanted.users.append(value)
    elif header == _GROUP:
        wanted.groups.append(value)
    elif header == _UID:
        wanted.uids.append(value)
    elif header.startswith(_EXTRA):
        wanted.extra.setdefault(unquote(header.removeprefix(_EXTRA)), []).append(value)
    else:
        # Ignoring a part of a requested identity would act as somebody that nobody asked for.
        raise BadRequest(f'unknown impersonation header "{header}"')


def as_user(name: str) -> User:
    """Return a user in the groups that every server knows for the name."""
    account = split_account(name)
    return User(name, with_default_group(name, account_groups(account[0]) if account is not None else ()))


def _build(asker: User, wanted: _Wanted) -> Impersonation:
    name = wanted.users[0]
    checks: list[Attributes] = []

    def check(resource: str, target: str, *, group: str = "", namespace: str = "", subresource: str = "") -> None:
        checks.append(
            Attributes(
                user=asker,
                verb="impersonate",
                group=group,
                resource=resource,
                subresource=subresource,
                namespace=namespace,
                name=target,
            )
        )

    account = split_account(name)
    if account is not None:
        check("serviceaccounts", account[1], namespace=account[0])
    else:
        check("users", name)
    for group in wanted.groups:
        check("groups", group)
    for uid in wanted.uids:
        check("uids", uid, group=_AUTHENTICATION)
    for key, values in wanted.extra.items():
        for value in values:
            check("userextras", value, group=_AUTHENTICATION, subresource=key)
    groups = list(wanted.groups)
    if account is not None and not groups:
        groups = list(account_groups(account[0]))
    user = User(
        name,
        with_default_group(name, groups),
        wanted.uids[0] if wanted.uids else "",
        {key: tuple(values) for key, values in wanted.extra.items()},
    )
    return Impersonation(user, tuple(checks))
