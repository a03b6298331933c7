"""Object templates, read: what each asks for, or why it cannot be understood.

What a template engine would fill in is not filled in here, and it must never be taken literally either: an object with
braces in its values is worse than none. So such a template is an error that names the field, and nothing of it is
enforced.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.configuration_policy import ConfigurationPolicySpec, ObjectTemplate
from echelon.api.labels import Selector, SelectorError, from_label_selector

TEMPLATE_ERROR = "Error processing template"
DEFINITION_ERROR = "K8s decode object definition error"
SELECTOR_ERROR = "objectSelector error"

_BRACES = "{{"
_DEEPEST = 100


class Must(StrEnum):
    """What a cluster must do with an object."""

    HAVE = "musthave"
    ONLY_HAVE = "mustonlyhave"
    NOT_HAVE = "mustnothave"


@dataclass(frozen=True)
class Template:
    """What an object template asks for."""

    index: int
    must: Must
    metadata_must: Must
    definition: JSONObject
    name: str = ""
    namespace: str = ""
    selector: Selector | None = None  # only where there is no name
    recreate: str = "None"
    record_diff: bool = False

    @property
    def api_version(self) -> str:
        """API version of the objects."""
        return str(self.definition["apiVersion"])

    @property
    def kind(self) -> str:
        """Kind of the objects."""
        return str(self.definition["kind"])

    @property
    def path(self) -> str:
        """Where it stands in the policy."""
        return f"spec.object-templates[{self.index}]"


@dataclass(frozen=True)
class TemplateProblem:
    """Why nothing is known of what a template asks for. It is a violation, whatever the cluster has."""

    index: int
    reason: str
    message: str


def read_templates(spec: ConfigurationPolicySpec | None) -> tuple[Template | TemplateProblem, ...]:
    """Read the object templates of a policy; one that cannot be read does not hide the others."""
    if spec is None:
        return (TemplateProblem(0, DEFINITION_ERROR, "spec: Required value: the policy has none"),)
    if spec.object_templates_raw is not None:
        return (_unsupported(0, "spec.object-templates-raw"),)
    for name, text in (
        ("compliant", spec.custom_message.compliant),
        ("noncompliant", spec.custom_message.noncompliant),
    ):
        if _BRACES in text:
            return (_unsupported(0, f"spec.customMessage.{name}"),)
    if not spec.object_templates:
        return (TemplateProblem(0, DEFINITION_ERROR, "spec.object-templates: Required value: there is none"),)
    return tuple(_read(index, template) for index, template in enumerate(spec.object_templates))


def _read(index: int, template: ObjectTemplate) -> Template | TemplateProblem:
    path, definition = f"spec.object-templates[{index}]", template.object_definition
    where = f"{path}.objectDefinition"
    if braces := _braces_in(definition, where):
        return _unsupported(index, braces)
    metadata = definition.get("metadata")
    parts = metadata if isinstance(metadata, dict) else {}
    if metadata is not None and not isinstance(metadata, dict):
        return TemplateProblem(index, DEFINITION_ERROR, f"{where}.metadata: Invalid value: must be an object")
    for field, value, needed in (
        ("apiVersion", definition.get("apiVersion"), True),
        ("kind", definition.get("kind"), True),
        ("metadata.name", parts.get("name"), False),
        ("metadata.namespace", parts.get("namespace"), False),
    ):
        if needed and not value:
            return TemplateProblem(index, DEFINITION_ERROR, f"{where}.{field}: Required value: every definition has it")
        if value is not None and not isinstance(value, str):
            return TemplateProblem(index, DEFINITION_ERROR, f"{where}.{field}: Invalid value: must be a string")
    for field, value in (
        ("metadata.labels", parts.get("labels")),
        ("metadata.annotations", parts.get("annotations")),
        ("data", definition.get("data") if definition["kind"] == "Secret" else None),
        ("stringData", definition.get("stringData") if definition["kind"] == "Secret" else None),
    ):
        if value is not None and not isinstance(value, dict):
            return TemplateProblem(index, DEFINITION_ERROR, f"{where}.{field}: Invalid value: must be an object")
    name = (parts.get("name") or "").strip()
    selector = None
    if not name and template.object_selector is not None:
        try:
            selector = from_label_selector(template.object_selector, f"{path}.objectSelector")
        except SelectorError as error:
            return TemplateProblem(index, SELECTOR_ERROR, str(error))
    must, metadata_must = template.compliance_type.lower(), template.metadata_compliance_type.lower()
    for field, word in (("complianceType", must), ("metadataComplianceType", metadata_must or must)):
        if word not in tuple(Must):
            return TemplateProblem(index, DEFINITION_ERROR, f'{path}.{field}: Unsupported value: "{word}"')
    return Template(
        index,
        Must(must),
        Must(metadata_must or must),
        definition,
        name,
        (parts.get("namespace") or "").strip(),
        selector,
        template.recreate_option or "None",
        template.record_diff == "InStatus",
    )


def _unsupported(index: int, field: str) -> TemplateProblem:
    return TemplateProblem(
        index, TEMPLATE_ERROR, f"{field} is to be filled in by a template engine, and this agent has none"
    )


def _braces_in(definition: JSONObject, path: str) -> str:
    """Return where a text has the braces of a template, if one has."""
    # In JSON itself a brace is never followed by another one of its kind.
    return _find_braces(definition, path) or path if _BRACES.encode() in msgspec.json.encode(definition) else ""


def _find_braces(value: Any, path: str, depth: int = 0) -> str:
    if isinstance(value, str):
        return path if _BRACES in value else ""
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        if any(_BRACES in key for key in value):
            return path
        inner = [(f"{path}.{key}", each) for key, each in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{number}]", each) for number, each in enumerate(value)]
    if depth > _DEEPEST:
        return ""
    return next(filter(None, (_find_braces(each, where, depth + 1) for where, each in inner)), "")
