"""An installation: parts that are made of settings, as plain manifests or as a Helm chart."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from echelon import __version__
from echelon.api.base import JSONObject
from echelon.install.helm import templates
from echelon.install.settings import Setting, schema, with_defaults, written
from echelon.install.template import Node, resolve

_MADE = "Made by `make charts` from src/echelon/install; changes are made there."


@dataclass(frozen=True)
class Installation:
    """What is installed in one place. `parts` become files of a chart, in this order."""

    name: str
    what: str
    namespace: str  # unless another one is named
    settings: Sequence[Setting]
    parts: Mapping[str, Callable[[], list[Node]]]

    def manifests(self, given: Mapping[str, Any], namespace: str = "") -> list[JSONObject]:
        """Return plain objects, the namespace first; raises `BadSettings` if a setting does not exist or fit."""
        values, where = with_defaults(self.settings, given), namespace or self.namespace
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}
        nodes = [node for part in self.parts.values() for node in part()]
        return [made, *(found for node in nodes for found in resolve(node, values, where))]

    def chart(self) -> dict[str, str]:
        """Return the files of a chart, by path."""
        description = {
            "apiVersion": "v2",
            "name": self.name,
            "description": self.what,
            "type": "application",
            "version": __version__,
            "appVersion": __version__,
            "kubeVersion": ">= 1.30.0-0",
            "keywords": ["kubernetes", "multi-cluster", "rollout", "placement", "fleet"],
        }
        files = {
            "Chart.yaml": f"# {_MADE}\n{yaml.safe_dump(description, sort_keys=False, width=110)}",
            "values.yaml": written(self.settings, _MADE),
            "values.schema.json": json.dumps(schema(self.settings), indent=2) + "\n",
        }
        return files | {
            f"templates/{name}.yaml": f"{{{{- /* {_MADE} */}}}}\n{templates(part())}"
            for name, part in self.parts.items()
        }
