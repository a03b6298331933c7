"""`authorizer` in CEL: asks whether somebody may do something, in the course of an expression.

CEL's runtime knows no types of ours, so what a question has said so far is a map, and each step adds to it:
`authorizer.group('apps').resource('deployments').name('web').check('delete').allowed()`. Whose rules answer is not in
the map, because compiled expressions are shared by all clusters; it is set for the time of an evaluation.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from echelon.api.base import JSONObject
from echelon.engine.cel import Function
from echelon.hub.access.identity import ACCOUNT_PREFIX, AUTHENTICATED, User, account_groups
from echelon.hub.access.rbac import Attributes, Authorizer

_CHECK_COST = 5_000  # a twentieth of what a policy may cost
_answering: ContextVar[Authorizer] = ContextVar("answering")


@contextmanager
def answered_by(authorizer: Authorizer) -> Iterator[None]:
    """Let the rules of one cluster answer what expressions ask meanwhile."""
    token = _answering.set(authorizer)
    try:
        yield
    finally:
        _answering.reset(token)


def asking(user: User, asked: JSONObject) -> JSONObject:
    """Return the variable `authorizer` of a request by a user for a resource."""
    who = _wire(user)
    return {"authorizer": who, "requestResource": {"resourceCheck": {"user": who, **asked}}}


def _wire(user: User) -> JSONObject:
    return {
        "name": user.name,
        "groups": list(user.groups),
        "uid": user.uid,
        "extra": {key: list(values) for key, values in user.extra.items()},
    }


def _user(wire: JSONObject) -> User:
    extra = {key: tuple(values) for key, values in wire["extra"].items()}
    return User(wire["name"], tuple(wire["groups"]), wire["uid"], extra)


def _of(value: JSONObject, *kinds: str) -> JSONObject:
    """Return what a map stands for, if it is one of these things."""
    for kind in kinds:
        if kind in value:
            found: JSONObject = value[kind]
            return found
    raise ValueError("no such overload")


def _group(value: JSONObject, group: str) -> JSONObject:
    return {"groupCheck": {"user": _of(value, "authorizer"), "group": group}}


def _resource(value: JSONObject, resource: str) -> JSONObject:
    return {"resourceCheck": {**_of(value, "groupCheck"), "resource": resource}}


def _narrowed(field: str) -> Callable[[JSONObject, str], JSONObject]:
    return lambda value, text: {"resourceCheck": {**_of(value, "resourceCheck"), field: text}}


def _path(value: JSONObject, path: str) -> JSONObject:
    if not path:
        raise ValueError("path must not be empty")
    return {"pathCheck": {"user": _of(value, "authorizer"), "path": path}}


def _service_account(value: JSONObject, namespace: str, name: str) -> JSONObject:
    _of(value, "authorizer")
    groups = (*account_groups(namespace), AUTHENTICATED)
    return {"authorizer": _wire(User(f"{ACCOUNT_PREFIX}{namespace}:{name}", groups))}


def _check(value: JSONObject, verb: str) -> JSONObject:
    asked = dict(_of(value, "resourceCheck", "pathCheck"))
    user = _user(asked.pop("user"))
    decision = _answering.get().authorize(
        Attributes(user=user, verb=verb, is_resource="resourceCheck" in value, **asked)
    )
    return {"decision": {"allowed": decision.allowed, "reason": decision.reason}}


def _answer(field: str) -> Callable[[JSONObject], Any]:
    return lambda value: _of(value, "decision")[field]


def _always(answer: Any) -> Callable[[JSONObject], Any]:
    def run(value: JSONObject) -> Any:
        _of(value, "decision")
        return answer

    return run


def _methods(names: str, parameters: Sequence[str], returns: str, run: Callable[..., Any]) -> list[Function]:
    return [Function(name, ("value", *parameters), returns, run) for name in names.split()]


FUNCTIONS: tuple[Function, ...] = (
    *_methods("group", ["string"], "value", _group),
    *_methods("resource", ["string"], "value", _resource),
    *_methods("subresource", ["string"], "value", _narrowed("subresource")),
    *_methods("namespace", ["string"], "value", _narrowed("namespace")),
    *_methods("name", ["string"], "value", _narrowed("name")),
    *_methods("path", ["string"], "value", _path),
    *_methods("serviceAccount", ["string", "string"], "value", _service_account),
    Function("check", ("value", "string"), "value", _check, cost=_CHECK_COST),
    *_methods("allowed", [], "bool", _answer("allowed")),
    *_methods("reason", [], "string", _answer("reason")),
    # The rules are in memory: a question always has an answer.
    *_methods("errored", [], "bool", _always(answer=False)),
    *_methods("error", [], "string", _always(answer="")),
)
