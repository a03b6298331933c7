"""Holds a request against the policies that are about it, before anything is stored.

The words are those of Kubernetes, so that the same policy refuses with the same message on every hub.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from echelon.api.base import JSONObject
from echelon.engine.cel import Budget
from echelon.hub.access.reviews import user_info
from echelon.hub.catalogue.resources import Resource
from echelon.hub.cluster import NAMESPACES, LogicalCluster
from echelon.hub.policy.authorizer import answered_by, asking
from echelon.hub.policy.expressions import BUDGET, REASONS, Failure
from echelon.hub.policy.index import Asked, Binding
from echelon.hub.verbs.admission import Request, Target
from echelon.kube import errors

_PAUSE: Final = 20_000  # what policies may cost before others are served
_NOTED: Final = "validation.policy.admission.k8s.io/validation_failure"


async def enforce(
    cluster: LogicalCluster,
    target: Target,
    request: Request,
    *,
    new: JSONObject | None = None,
    old: JSONObject | None = None,
) -> None:
    """Raise the refusal of the first policy that denies a request; note what others only warn of.

    A request without an old state creates, one without a new state deletes.
    """
    asked = cluster.policies.about(target.resource, target.subresource, cluster.catalogue)
    if not asked:
        return
    attempt = _Attempt(cluster, target, request, new, old)
    denied: errors.ApiError | None = None
    spent = 0
    for each in asked:
        if spent > _PAUSE:
            spent = 0
            await asyncio.sleep(0)  # this takes its time, and others wait
        budget = Budget(BUDGET, BUDGET)
        found = list(attempt.failures(each, budget))
        spent += BUDGET - budget.left
        for binding, failure in found:
            for action in binding.actions:
                if action == "Warn":
                    request.warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy '{each.policy}' with binding "
                        f"'{binding.name}': {failure.message}"
                    )
                elif action == "Audit":
                    request.annotations[_NOTED] = _note(each, binding, failure)
                elif denied is None:
                    who = f"ValidatingAdmissionPolicy '{each.policy}' with binding '{binding.name}'"
                    denied = attempt.refusal(f"{who} denied request: {failure.message}", failure.reason)
        if each.broken and denied is None and attempt.meant(each):
            denied = attempt.refusal(f"ValidatingAdmissionPolicy '{each.policy}' denied request: {each.broken}")
    if denied is not None:
        raise denied


def _note(asked: Asked, binding: Binding, failure: Failure) -> str:
    note = {
        "message": failure.message,
        "policy": asked.policy,
        "binding": binding.name,
        "expressionIndex": failure.index,
        "validationActions": binding.actions,
    }
    return msgspec.json.encode([note]).decode()


@dataclass(frozen=True)
class _Attempt:
    """One request."""

    cluster: LogicalCluster
    target: Target
    request: Request
    new: JSONObject | None
    old: JSONObject | None

    @property
    def operation(self) -> str:
        """What the request does."""
        return "DELETE" if self.new is None else "CREATE" if self.old is None else "UPDATE"

    @property
    def name(self) -> str:
        """Name of the object, generated or given."""
        state = self.new or self.old or {}
        return self.target.name or state.get("metadata", {}).get("name", "")

    @property
    def namespace(self) -> str:
        """Where the request takes place; a namespace is in itself."""
        return self.name if self.target.resource.stored_as == NAMESPACES else self.target.namespace

    def failures(self, asked: Asked, budget: Budget) -> Iterator[tuple[Binding, Failure]]:
        """Return what a policy finds wrong, for each binding that is about the request."""
        version = self._version(asked)
        bindings = [binding for binding in asked.bindings if self._bound(binding)]
        if version is None or asked.expressions is None or not bindings:
            return
        with answered_by(self.cluster.authorizer):
            found = asked.expressions.failures(self._values(version), budget)
        for binding in bindings:
            for failure in found:
                yield binding, failure

    def meant(self, asked: Asked) -> bool:
        """Tell whether a policy is about the request."""
        return self._version(asked) is not None

    def _version(self, asked: Asked) -> Resource | None:
        choice = asked.choice
        return choice.version(self.operation, self.name) if choice.selects(*self._labelled()) else None

    def _bound(self, binding: Binding) -> bool:
        choice = binding.choice
        return choice.selects(*self._labelled()) and choice.version(self.operation, self.name) is not None

    def _labelled(self) -> tuple[JSONObject | None, JSONObject | None, JSONObject | None]:
        """Return what selectors look at: the namespace (its new state, if it is what is written), and both states."""
        if self.target.resource.stored_as == NAMESPACES:
            return self.new or self.old, self.new, self.old
        return self._namespace_object(), self.new, self.old

    def _namespace_object(self) -> JSONObject | None:
        return self.cluster.namespace_object(self.target.namespace) if self.target.namespace else None

    def _values(self, version: Resource) -> dict[str, Any]:
        kind, target = self.target.resource.kind, self.target
        place = {"namespace": self.namespace, "name": self.name}
        asked = {"group": kind.group, "resource": kind.plural, "subresource": target.subresource, **place}
        request: JSONObject = {
            **_names(version, target.subresource, "kind", "resource", "subResource"),
            **_names(target.resource, target.subresource, "requestKind", "requestResource", "requestSubResource"),
            **{name: value for name, value in place.items() if value},
            "operation": self.operation,
            "userInfo": user_info(self.request.user),
            "dryRun": self.request.dry_run,
        }
        return {
            "object": self._seen(self.new, version),
            "oldObject": self._seen(self.old, version),
            "request": request,
            "namespaceObject": self._namespace_object(),
            "authorizer": asking(self.request.user, asked),
        }

    def _seen(self, state: JSONObject | None, version: Resource) -> JSONObject | None:
        resource = self.target.resource
        if state is None or version is resource:
            return state
        return version.outgoing(resource.incoming(state))

    def refusal(self, message: str, reason: str = "Invalid") -> errors.ApiError:
        """Return the refusal, with the reason that the policy asks for."""
        kind = self.target.resource.kind
        said = errors.forbidden(kind.plural, kind.group, self.name, message)
        details = {**said.details, "causes": [{"message": message}]}
        status = {"message": said.message, "details": details, "reason": reason, "code": REASONS[reason]}
        return errors.from_status(status)


def _names(resource: Resource, subresource: str, kind: str, plural: str, below: str) -> JSONObject:
    found = {"group": resource.kind.group, "version": resource.kind.version}
    named: JSONObject = {
        kind: {**found, "kind": resource.kind.kind},
        plural: {**found, "resource": resource.kind.plural},
    }
    return {**named, below: subresource} if subresource else named
