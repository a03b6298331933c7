"""Questions about rights that are asked through the API itself: kubectl auth can-i, whoami, and delegating servers.

They look like objects that are created, but nothing is stored: the answer is the status. Every one is answered by the
same authorizer and authenticator that stand in front of the server, so what is answered and what happens cannot differ.
"""

import json
from collections.abc import Mapping
from typing import Any

from echelon.api.base import JSONObject
from echelon.hub.access.identity import Authenticator, User
from echelon.hub.access.rbac import Attributes, Authorizer
from echelon.kube.errors import BadRequest, Cause, Unauthorized, invalid

_AUTHORIZATION = "authorization.k8s.io"


def subject_access_review(review: JSONObject, authorizer: Authorizer) -> JSONObject:
    """Answer whether somebody may do something."""
    spec = _spec(review)
    causes = [*_access_problems(spec), *_subject_problems(spec), *_metadata_problems(review, allowed=())]
    _raise_if(causes, "SubjectAccessReview")
    return _decide(spec, _named_user(spec), authorizer)


def local_subject_access_review(review: JSONObject, namespace: str, authorizer: Authorizer) -> JSONObject:
    """Answer whether somebody may do something in this namespace."""
    spec = _spec(review)
    causes = [*_access_problems(spec), *_subject_problems(spec), *_metadata_problems(review, allowed=("namespace",))]
    asked = spec.get("resourceAttributes")
    if asked is not None and (asked.get("namespace") or "") != namespace:
        detail = _invalid(asked.get("namespace") or "", "must match metadata.namespace")
        causes.append(Cause("spec.resourceAttributes.namespace", detail))
    if (path := spec.get("nonResourceAttributes")) is not None:
        causes.append(Cause("spec.nonResourceAttributes", _invalid(path, "disallowed on this kind of request")))
    _raise_if(causes, "LocalSubjectAccessReview")
    return _decide(spec, _named_user(spec), authorizer)


def self_subject_access_review(review: JSONObject, user: User, authorizer: Authorizer) -> JSONObject:
    """Answer whether the asker may do something."""
    spec = _spec(review)
    causes = [*_access_problems(spec), *_metadata_problems(review, allowed=())]
    _raise_if(causes, "SelfSubjectAccessReview")
    return _decide(spec, user, authorizer)


def self_subject_rules_review(review: JSONObject, user: User, authorizer: Authorizer) -> JSONObject:
    """Answer everything that the asker may do in a namespace."""
    namespace = _spec(review).get("namespace") or ""
    if not namespace:
        raise BadRequest("no namespace on request")
    rules, problems = authorizer.rules_for(user, namespace)
    resource_fields = ("verbs", "apiGroups", "resources", "resourceNames")
    status: JSONObject = {
        "resourceRules": [_picked(rule.wire, resource_fields) for rule in rules if rule.resources],
        "nonResourceRules": [_picked(rule.wire, ("verbs", "nonResourceURLs")) for rule in rules if rule.urls],
        "incomplete": False,
    }
    return {**status, "evaluationError": problems} if problems else status


def token_review(review: JSONObject, authenticator: Authenticator) -> JSONObject:
    """Answer whose token it is. That a token is bad is an answer, not an error."""
    spec = _spec(review)
    token = spec.get("token") or ""
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    wanted = spec.get("audiences") or []
    try:
        user, audiences = authenticator.authenticate_token(token, wanted)
    except Unauthorized:
        return {"authenticated": False, "user": {}, "error": "invalid bearer token"}
    status: JSONObject = {"authenticated": True, "user": user_info(user)}
    return {**status, "audiences": list(audiences)} if audiences else status


def self_subject_review(user: User) -> JSONObject:
    """Answer who the asker is."""
    return {"userInfo": user_info(user)}


def answered(api_version: str, kind: str, review: JSONObject, status: JSONObject) -> JSONObject:
    """Return a review with its answer: the question comes back, and nothing else that came with it."""
    metadata = {key: value for key, value in (review.get("metadata") or {}).items() if key != "managedFields"}
    asked = {"spec": review["spec"]} if "spec" in review else {}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, **asked, "status": status}


def user_info(user: User) -> JSONObject:
    """Return the user as authentication.k8s.io/v1 has it."""
    info: JSONObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}


def _decide(spec: JSONObject, user: User, authorizer: Authorizer) -> JSONObject:
    decision = authorizer.authorize(_attributes(spec, user))
    return (
        {"allowed": decision.allowed, "reason": decision.reason} if decision.reason else {"allowed": decision.allowed}
    )


def _attributes(spec: JSONObject, user: User) -> Attributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec["nonResourceAttributes"]
        return Attributes(user=user, verb=path.get("verb") or "", path=path.get("path") or "", is_resource=False)
    return Attributes(
        user=user,
        verb=resource.get("verb") or "",
        group=resource.get("group") or "",
        resource=resource.get("resource") or "",
        subresource=resource.get("subresource") or "",
        namespace=resource.get("namespace") or "",
        name=resource.get("name") or "",
    )


def _named_user(spec: JSONObject) -> User:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)


def _access_problems(spec: JSONObject) -> list[Cause]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = _invalid(path, "cannot be specified in combination with resourceAttributes")
        return [Cause("spec.nonResourceAttributes", detail)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [Cause("spec.resourceAttributes", _invalid("null", why))]
    return []


def _subject_problems(spec: JSONObject) -> list[Cause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [Cause("spec.user", _invalid("", "at least one of user or group must be specified"))]


def _metadata_problems(review: JSONObject, *, allowed: tuple[str, ...]) -> list[Cause]:
    ignored = {"managedFields", "creationTimestamp", *allowed}
    metadata = review.get("metadata") or {}
    if not any(value for key, value in metadata.items() if key not in ignored):
        return []
    why = "must be empty except for namespace" if allowed else "must be empty"
    return [Cause("metadata", _invalid(metadata, why))]


def _raise_if(causes: list[Cause], kind: str) -> None:
    if causes:
        raise invalid(kind, _AUTHORIZATION, "", causes)


def _invalid(value: Any, why: str) -> str:
    return f"Invalid value: {json.dumps(value)}: {why}"


def _spec(review: JSONObject) -> JSONObject:
    spec: JSONObject = review.get("spec") or {}
    return spec


def _picked(source: Mapping[str, Any], fields: tuple[str, ...]) -> JSONObject:
    return {field: source[field] for field in fields if source.get(field)}
