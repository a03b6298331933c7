"""What clusters get of a policy: its templates, its action and its dependencies, whole or only to be looked at.

A revision of a policy is just that. Whatever else is in the spec (how it is rolled out, what is copied with it) reaches
replicas where they are and starts nothing. Two contents are compared by their digests, so that a replica that somebody
edited, or that another hub wrote, is judged by what is in it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.policy import GROUP
from echelon.engine.policy.names import HUB_TEMPLATES_ERROR
from echelon.engine.rollout.revision import revision_of
from echelon.engine.rollout.stored_revision import StoredRevision

TEMPLATES, ACTION, DEPENDENCIES = "policy-templates", "remediationAction", "dependencies"
CONTENT_FIELDS = (TEMPLATES, ACTION, DEPENDENCIES)
INFORM, ENFORCE, INFORM_ONLY = "inform", "enforce", "informonly"
_HUB_TEMPLATE = "{{hub"
_NOT_FILLED_IN = "hub templates are not filled in here: write the value itself, or leave the template out"
_DEEPEST = 100  # no server takes deeper documents


@dataclass(frozen=True)
class PolicyContent:
    """The content of a policy, and the spec of replicas that have it."""

    spec: JSONObject  # of a replica, with the policy's own action
    body: str  # the digest of everything but the action
    action: str  # as it was written; empty if templates have their own
    enforceable: bool  # whether anything of it would be enforced
    problem: str = ""  # why no cluster could take it

    @property
    def revision(self) -> str:
        """The hash of the content."""
        return self.digest(self.action)

    def digest(self, action: str) -> str:
        """Return the hash of the content with an action."""
        return digest_of(self.body, action)

    def spec_with(self, action: str) -> JSONObject:
        """Return the spec of a replica with an action; with none, where that is empty."""
        others = {name: value for name, value in self.spec.items() if name != ACTION}
        return {**others, ACTION: action} if action else others


@lru_cache(maxsize=4096)  # asked for each of ten thousand replicas, of which many have the same
def digest_of(body: str, action: str) -> str:
    """Return the hash of a content, given that of all but its action."""
    return revision_of([body, action.lower()])


def body_of(spec: JSONObject) -> str:
    """Return the digest of what a replica has, but for its action."""
    return revision_of({TEMPLATES: spec.get(TEMPLATES) or [], DEPENDENCIES: spec.get(DEPENDENCIES) or []})


def read_content(root: Key, spec: JSONObject, sets: Mapping[str, Iterable[str]]) -> PolicyContent:
    """Read the spec of a policy. `sets` are the policies of each policy set of its namespace."""
    templates, problem = spec.get(TEMPLATES), ""
    if not isinstance(templates, list):
        templates, problem = [], f"spec.{TEMPLATES}: must be a list of templates"
    for number, each in enumerate(templates):
        if not isinstance(each, dict) or not isinstance(each.get("objectDefinition"), dict):
            problem = problem or f"spec.{TEMPLATES}[{number}].objectDefinition: must be an object"
    if problem:
        return PolicyContent({}, "", "", False, problem)
    expanded = _Expansion(root, sets)
    replica = {**spec, TEMPLATES: [expanded.template(each) for each in templates]}
    if DEPENDENCIES in spec:
        replica[DEPENDENCIES] = expanded.dependencies(spec[DEPENDENCIES])
    action = str(spec.get(ACTION) or "")
    return PolicyContent(replica, body_of(replica), action, is_enforceable(spec))


def stored_fields(spec: JSONObject) -> JSONObject:
    """Return the fields of a policy's spec that are its content, as they were given."""
    return {name: spec[name] for name in CONTENT_FIELDS if name in spec}


def with_stored(spec: JSONObject, stored: JSONObject) -> JSONObject:
    """Return a spec with the content that it once had."""
    return {**{name: value for name, value in spec.items() if name not in CONTENT_FIELDS}, **stored}


def rollback_patch(revision: StoredRevision) -> list[JSONObject]:
    """Return the JSON patch that gives a policy a stored content again; what that did not have goes."""
    stored, patch = revision.content or {}, []
    for name in CONTENT_FIELDS:
        patch.append({"op": "add", "path": f"/spec/{name}", "value": stored.get(name, "")})
        if name not in stored:  # what is not there cannot be removed
            patch.append({"op": "remove", "path": f"/spec/{name}"})
    return patch


def is_enforceable(spec: JSONObject) -> bool:
    """Whether anything of a content would be enforced."""
    action = str(spec.get(ACTION) or "")
    return any(effective_action(action, each) == ENFORCE for each in definitions_of(spec))


def definitions_of(spec: JSONObject) -> list[JSONObject]:
    """Return the objects of all templates that have one; nobody has checked what a replica has."""
    found = (each.get("objectDefinition") for each in spec.get(TEMPLATES) or () if isinstance(each, dict))
    return [each for each in found if isinstance(each, dict)]


def effective_action(action: str, definition: JSONObject) -> str:
    """Return what is done about a template's object under the action of its policy, in lower case."""
    spec = definition.get("spec")
    own = str(spec.get(ACTION) or "").lower() if isinstance(spec, dict) else ""
    return own if own == INFORM_ONLY or not action else action.lower()


@dataclass(frozen=True)
class _Expansion:
    """Says on replicas what a policy says by names of its own namespace."""

    root: Key
    sets: Mapping[str, Iterable[str]]

    def template(self, template: JSONObject) -> JSONObject:
        definition = template["objectDefinition"]
        if _has_hub_template(definition):
            definition = _with_error(definition)
        found = {**template, "objectDefinition": definition}
        if "extraDependencies" in template:
            found["extraDependencies"] = self.dependencies(template["extraDependencies"])
        return found

    def dependencies(self, listed: Any) -> Any:
        if not isinstance(listed, list):
            return listed
        return [one for each in listed for one in (self._dependency(each) if isinstance(each, dict) else (each,))]

    def _dependency(self, dependency: JSONObject) -> tuple[JSONObject, ...]:
        """Return what a dependency means on a cluster, where policies are called by namespace and name."""
        match dependency.get("apiVersion"), dependency.get("kind"):
            case (version, "Policy") if version == f"{GROUP}/v1":
                return (self._policy(dependency, str(dependency.get("name") or "")),)
            case (version, "PolicySet") if version == f"{GROUP}/v1beta1":
                return self._set(dependency)
        return (dependency,)

    def _policy(self, dependency: JSONObject, name: str) -> JSONObject:
        namespace = str(dependency.get("namespace") or "")
        if not (not namespace and "." in name):
            name = f"{namespace or self.root.namespace}.{name}"
        return {**dependency, "name": name, "namespace": ""}

    def _set(self, dependency: JSONObject) -> tuple[JSONObject, ...]:
        name, namespace = str(dependency.get("name") or ""), str(dependency.get("namespace") or self.root.namespace)
        if namespace != self.root.namespace or name not in self.sets:
            return ({**dependency, "namespace": namespace},)
        of_set = {**dependency, "apiVersion": f"{GROUP}/v1", "kind": "Policy", "namespace": namespace}
        return tuple({**self._policy(of_set, each), "namespace": ""} for each in self.sets[name])


def _has_hub_template(value: Any, depth: int = 0) -> bool:
    if isinstance(value, str):
        return _HUB_TEMPLATE in value
    if depth > _DEEPEST or not isinstance(value, dict | list):
        return False
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
    return any(_has_hub_template(each, depth + 1) for each in parts)


def _with_error(definition: JSONObject) -> JSONObject:
    """Return a template's object that says why it cannot be filled in, as agents expect it."""
    metadata = definition.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    annotations = {**(metadata.get("annotations") or {}), HUB_TEMPLATES_ERROR: _NOT_FILLED_IN}
    return {**definition, "metadata": {**metadata, "annotations": annotations}}
