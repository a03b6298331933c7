"""Whether the account on whose behalf a work is applied may do what the work asks.

The agent itself may do nearly everything, so without this check every author of works could. Rights are asked for one
by one; for roles and bindings that is not enough, because creating them is a right and granting more than one has is
not. There the server is asked to try, as that account, without doing it.
"""

from collections.abc import Awaitable, Callable, Sequence

from echelon.agent.object_watches import ObjectRef
from echelon.api.authorization import SUBJECT_ACCESS_REVIEW
from echelon.api.manifest_config import ServiceAccountSubject
from echelon.engine.work.updating import DesiredObject, with_metadata
from echelon.kube.client import Client, MergePatch, WriteOptions
from echelon.kube.errors import ApiError, Forbidden

RETRY_SECONDS = 60.0

# Gives a client that acts as a service account, by its user name. The server knows the groups of accounts: who names
# them needs the right to impersonate groups, and with that one could be anybody.
ActAs = Callable[[str], Awaitable[Client]]

_RBAC = "rbac.authorization.k8s.io"
_VERBS = ("create", "update", "patch", "get")
# How a server begins to say that the agent, and not the account, lacks a right: what follows differs by its version.
_NO_IMPERSONATION = "cannot impersonate"
_LACKS_IMPERSONATION = (
    'whether the account grants too much can be found out only by an agent that may "impersonate" serviceaccounts'
)


class NotAllowed(Exception):
    """The account lacks a right."""

    def __init__(self, desired: DesiredObject, why: str = "") -> None:
        kind = desired.kind
        text = f"not allowed to apply the resource {kind.group} {kind.plural}, {desired.namespace} {desired.name}"
        super().__init__(f"{text}{f': {why}' if why else ''}, will try again in 1m0s")


class ExecutorCheck:
    """Asks a cluster what service accounts may do there."""

    def __init__(self, member: Client, act_as: ActAs | None) -> None:
        self._member = member
        self._act_as = act_as

    async def check(self, desired: DesiredObject, account: ServiceAccountSubject) -> None:
        """Raise `NotAllowed` unless the account may apply a manifest."""
        ref = ObjectRef(desired.kind, desired.namespace, desired.name)
        for verb in (*_VERBS, "delete") if desired.owned_by_work else _VERBS:
            if not await self.may(account, verb, ref):
                raise NotAllowed(desired)
        if desired.kind.group == _RBAC:
            await self._try(_identity(account)[0], desired)

    async def check_deletion(self, desired: DesiredObject, account: ServiceAccountSubject) -> None:
        """Raise `NotAllowed` unless the account may delete an object that cannot be changed and is made anew."""
        if not await self.may(account, "delete", ObjectRef(desired.kind, desired.namespace, desired.name)):
            raise NotAllowed(desired, "it cannot be changed, and may not be deleted to be made anew")

    async def may(self, account: ServiceAccountSubject, verb: str, ref: ObjectRef) -> bool:
        """Tell whether an account may do something with an object."""
        user, groups = _identity(account)
        asked = {
            "namespace": ref.namespace,
            "verb": verb,
            "group": ref.kind.group,
            "version": ref.kind.version,
            "resource": ref.kind.plural,
            "name": ref.name,
        }
        body = {
            **SUBJECT_ACCESS_REVIEW.type_meta,
            "spec": {"user": user, "groups": list(groups), "resourceAttributes": asked},
        }
        answer = await self._member.create(SUBJECT_ACCESS_REVIEW, body)
        return answer.status.allowed

    async def _try(self, user: str, desired: DesiredObject) -> None:
        """Let the server say whether the account would grant more than it has."""
        if self._act_as is None:
            raise NotAllowed(desired, "the agent cannot act as the account to find out whether it grants too much")
        client = await self._act_as(user)
        body, dry = with_metadata(desired, {}), WriteOptions(dry_run=True)
        try:
            try:
                await client.create(desired.kind, body, desired.namespace, options=dry)
            except ApiError as error:
                if error.status_reason != "AlreadyExists":
                    raise
                changed = {name: value for name, value in body.items() if name in ("rules", "subjects", "roleRef")}
                await client.patch(desired.kind, desired.name, MergePatch(changed), desired.namespace, options=dry)
        except Forbidden as error:
            if _NO_IMPERSONATION in error.message:
                raise NotAllowed(desired, f"{_LACKS_IMPERSONATION}, {error}") from error
            raise NotAllowed(desired, f"permission escalation, {error}") from error


def _identity(account: ServiceAccountSubject) -> tuple[str, Sequence[str]]:
    """Return the user that an account is, and its groups."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated")
    return f"system:serviceaccount:{account.namespace}:{account.name}", groups
