"""The templates of a policy, as far as they can be understood, and the objects that they ask for.

Whatever is wrong with one template is told of that one and does not stop the others. A template that asks for
something to be filled in (`{{`) is wrong: nobody fills it in, and taken literally it would break whatever it is about.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from echelon.api.base import JSON, JSONObject
from echelon.api.configuration_policy import CONFIGURATION_POLICY
from echelon.engine.policy.names import (
    CLUSTER_NAME_LABEL,
    CLUSTER_NAMESPACE_LABEL,
    HUB_TEMPLATES_ERROR,
    OWN_PREFIX,
    PARENT_LABEL,
)
from echelon.engine.policy_member.dependencies import Dependency, read_dependencies
from echelon.engine.policy_member.documents import POLICY_DOCUMENT, ChildKey, PolicyDocument, is_enforce

DUPLICATE_NAMES = "All policy-template names must be unique within a policy"
_INFORM = "inform"
_INFORM_ONLY = "informonly"
_PLACEHOLDER = "{{"


@dataclass(frozen=True)
class Template:
    """A template: its object, what it waits for, and what is wrong with it.

    It has no definition where nobody can tell which object it is about. `action` is its own remediation action. `lost`
    says that its object must not go on: the hub could not fill the template in, and what the object enforces is not
    what anybody asks for any more.
    """

    name: str
    definition: JSONObject
    action: str = ""
    dependencies: tuple[Dependency, ...] = ()
    ignore_pending: bool = False
    error: str = ""
    lost: bool = False

    @property
    def gvk(self) -> tuple[str, str]:
        """API version and kind of its object."""
        return str(self.definition.get("apiVersion", "")), str(self.definition.get("kind", ""))

    @property
    def key(self) -> ChildKey:
        """Which object it asks for, whatever the version through which one looks at it."""
        api_version, kind = self.gvk
        return ChildKey(api_version.rpartition("/")[0], kind, self.name)


def read_templates(spec: JSONObject) -> tuple[Template, ...]:
    """Read the templates of a policy's spec. Names that occur twice are an error of all of them."""
    listed = spec.get("policy-templates") or []
    waits_for = read_dependencies(spec.get("dependencies"))
    found = tuple(_read(number, each, waits_for) for number, each in enumerate(listed))
    names = Counter(each.name for each in found if each.definition)
    if any(count > 1 for count in names.values()):
        return tuple(Template(each.name, {}, each.action, error=DUPLICATE_NAMES) for each in found)
    return found


def action_of(template: Template, policy: PolicyDocument) -> str:
    """Return the remediation action of a template: its own only where the policy has none."""
    if template.action.lower() == _INFORM_ONLY:
        return _INFORM
    return str(policy.spec.get("remediationAction") or template.action)


def is_enforced(template: Template, policy: PolicyDocument) -> bool:
    """Whether a template repairs what it finds."""
    return is_enforce(action_of(template, policy))


def object_of(template: Template, policy: PolicyDocument) -> JSONObject:
    """Return the object that a template asks for, as its policy's own."""
    definition, meta = template.definition, template.definition["metadata"]
    action = action_of(template, policy)
    spec = {**(definition.get("spec") or {}), **({"remediationAction": action} if action else {})}
    if definition.get("kind") == CONFIGURATION_POLICY.kind:
        spec = with_defaults(spec)
    cluster, name = policy.metadata.namespace, policy.metadata.name
    labels = {
        PARENT_LABEL: name,
        CLUSTER_NAME_LABEL: policy.metadata.labels.get(CLUSTER_NAME_LABEL, cluster),
        CLUSTER_NAMESPACE_LABEL: cluster,
    }
    bare = {key.rpartition("/")[2]: value for key, value in labels.items() if key != PARENT_LABEL}
    owner = {**POLICY_DOCUMENT.owner_reference(name, policy.metadata.uid), "controller": True}
    # Marks of ours are for us to make: with one of them in a template, a hold would end before its time.
    notes = {key: value for key, value in (meta.get("annotations") or {}).items() if not key.startswith(OWN_PREFIX)}
    metadata: JSONObject = {
        "name": template.name,
        "namespace": cluster,
        "labels": {**(meta.get("labels") or {}), **bare, **labels},
        "annotations": notes,
        "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
    }
    kept = {key: value for key, value in definition.items() if key not in ("metadata", "spec", "status")}
    return {**kept, "metadata": metadata, "spec": spec}


def with_defaults(spec: JSONObject) -> JSONObject:
    """Return the spec of a ConfigurationPolicy with what a server fills in."""
    filled: JSONObject = {"pruneObjectBehavior": "None", "remediationAction": _INFORM, **spec}
    templates = spec.get("object-templates")
    if isinstance(templates, list):
        filled["object-templates"] = [
            {"recreateOption": "None", **each} if isinstance(each, dict) else each for each in templates
        ]
    return filled


def _read(number: int, listed: JSON, waits_for: tuple[Dependency, ...]) -> Template:
    nameless = f"template-{number}"
    definition = listed.get("objectDefinition") if isinstance(listed, dict) else None
    wrong = _misread(definition)
    if wrong or not isinstance(definition, dict):
        return Template(nameless, {}, error=f"Failed to decode policy template: {wrong}")
    name = definition["metadata"].get("name") if "metadata" in definition else None
    if not isinstance(name, str) or not name:
        return Template(nameless, {}, error=f"Failed to get name from policy template at index {number}")
    dependencies = (*waits_for, *read_dependencies(listed.get("extraDependencies")))
    hub_error = (definition["metadata"].get("annotations") or {}).get(HUB_TEMPLATES_ERROR, "")
    error = hub_error or _unfilled(definition)
    action = str(definition.get("spec", {}).get("remediationAction") or "")
    ignore_pending = bool(listed.get("ignorePending"))
    return Template(name, definition, action, dependencies, ignore_pending, error, lost=bool(hub_error))


def _misread(definition: JSON) -> str:
    """Return why a definition is no object; nothing if it is one."""
    if not isinstance(definition, dict):
        return "objectDefinition must be an object"
    for field in ("apiVersion", "kind"):
        if not isinstance(definition.get(field), str) or not definition[field]:
            return f"objectDefinition.{field} must be a text that is not empty"
    for field in ("metadata", "spec"):
        if not isinstance(definition.get(field, {}), dict):
            return f"objectDefinition.{field} must be an object"
    for field in ("labels", "annotations"):
        said = definition.get("metadata", {}).get(field) or {}
        if not isinstance(said, dict) or not all(isinstance(each, str) for pair in said.items() for each in pair):
            return f"objectDefinition.metadata.{field} must map texts to texts"
    return ""


def _unfilled(definition: JSONObject) -> str:
    """Return what to say of a definition in which something waits to be filled in. What it says may be secret."""
    where = next(_placeholders(definition, "objectDefinition"), "")
    return f'{where} contains "{_PLACEHOLDER}", and templates are not filled in on this cluster' if where else ""


def _placeholders(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if _PLACEHOLDER in value:
            yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _placeholders(inner, f"{path}.{key}")
            yield from _placeholders(key, path)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _placeholders(inner, f"{path}[{number}]")
