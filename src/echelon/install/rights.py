"""What the programs may do: the documented rights, as parts of an installation.

The files that people read and apply by hand are the only place where rights are written. A document that only some
controllers need is told by its name, which is that of the capability.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from echelon.api.base import JSONObject
from echelon.install.template import NAMESPACE, Condition, Node, Value, When

_FILES = files("echelon.install")


def hub_rights(capabilities: Mapping[str, Condition]) -> list[Node]:
    """Return the accounts and rights of the hub's controllers, by what the names begin with."""
    return _documents("rights.yaml", "echelon-system", capabilities)


def member_rights(capabilities: Mapping[str, Condition]) -> list[Node]:
    """Return the accounts and rights of what runs on a member."""
    return _documents("member-rights.yaml", "echelon-agent", capabilities)


def _documents(file: str, namespace: str, capabilities: Mapping[str, Condition]) -> list[Node]:
    found: list[Node] = []
    for document in yaml.safe_load_all((_FILES / file).read_text()):
        if document["kind"] == "Namespace":  # Helm makes it, or the one who prints manifests
            continue
        node = _moved(document, (namespace, "echelon-system"))
        needed = [
            condition for name, condition in capabilities.items() if document["metadata"]["name"].startswith(name)
        ]
        found.append(When(needed[0], node) if needed else node)
    return found


def _moved(document: JSONObject, namespaces: tuple[str, ...]) -> Node:
    """Return a document whose account is in the namespace of the installation."""
    meta: dict[str, Any] = dict(document["metadata"])
    if meta.get("namespace") in namespaces:
        meta["namespace"] = NAMESPACE
    if document["kind"] == "ServiceAccount":
        meta["annotations"] = When("serviceAccount.annotations", Value("serviceAccount.annotations"))
    found: dict[str, Node] = {**document, "metadata": meta}
    if "subjects" in document:
        found["subjects"] = [
            {**each, "namespace": NAMESPACE} if each.get("namespace") in namespaces else each
            for each in document["subjects"]
        ]
    return found
