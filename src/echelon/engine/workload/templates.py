"""The template of a workload in each of its revisions, as each cluster would get it, after overrides.

A revision is known by the hash of what is rolled out, before overrides; a cluster knows it by the hash after them. Of
an aligned kind the pod template is what is rolled out, and the rest of the spec follows the present template at once.
Of other kinds it is the whole spec but for its replicas.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from echelon.api.base import JSONObject
from echelon.engine.align import Interpreter
from echelon.engine.rollout.revision import revision_of
from echelon.engine.rollout.stored_revision import StoredRevision
from echelon.engine.work.health_state import part
from echelon.engine.workload.manifests import base_of
from echelon.engine.workload.overriding import Overridden, value_at

TEMPLATE = "template"
_REPLICAS = "replicas"
_VALUE = 80  # of a field that is told of


Override: TypeAlias = Callable[[JSONObject, str], Overridden]  # of a manifest, for a cluster


def no_override(manifest: JSONObject, _: str) -> Overridden:
    """Leave a manifest as it is."""
    return Overridden(manifest)


def content_of(template: JSONObject, interpreter: Interpreter | None) -> JSONObject:
    """Return the fields of a template's spec that are rolled out, to be stored."""
    spec = part(template, "spec")
    if interpreter is not None:
        return {TEMPLATE: part(spec, TEMPLATE)}
    return {name: value for name, value in spec.items() if name != _REPLICAS}


@dataclass(frozen=True)
class _Known:
    """A revision: what it has instead of the present template, and since which generation of that it was wanted."""

    content: JSONObject
    generation: int


@dataclass
class Templates:
    """A template in all revisions that are known, for every cluster; what was rendered once is kept."""

    base: JSONObject
    interpreter: Interpreter | None
    revision: str  # of the present template
    override: Override
    _known: dict[str, _Known]
    _plain: dict[str, JSONObject] = field(default_factory=dict)  # by revision, before overrides
    _rendered: dict[tuple[str, str], tuple[Overridden, str]] = field(default_factory=dict)  # by revision and cluster
    _hashes: dict[int, tuple[JSONObject, str]] = field(default_factory=dict)  # by identity, with what has it

    @classmethod
    def of(
        cls,
        template: JSONObject,
        interpreter: Interpreter | None,
        stored: Iterable[StoredRevision],
        override: Override,
    ) -> "Templates":
        """Read a template, with its stored revisions; without an interpreter it is one that is not aligned."""
        base = base_of(template)
        content = content_of(base, interpreter)
        generation = part(template, "metadata").get("generation")
        known = {each.revision: _Known(each.content, each.generation) for each in stored if each.content is not None}
        revision = _hash(base, interpreter)
        known[revision] = _Known(content, generation if isinstance(generation, int) else 0)
        return cls(base, interpreter, revision, override, known)

    def __contains__(self, revision: object) -> bool:
        return revision in self._known

    def generation(self, revision: str) -> int:
        """Return since which generation of the template a revision was wanted; the present one, of the present."""
        return self._known[revision].generation

    def for_cluster(self, revision: str, cluster: str) -> Overridden:
        """Return the manifest of a known revision for a cluster; nothing that is governed is set in it."""
        return self._render(revision, cluster)[0]

    def hash(self, revision: str, cluster: str) -> str:
        """Return by which hash a cluster knows a revision; empty if the revision is not known here."""
        return self._render(revision, cluster)[1] if revision in self._known else ""

    def hash_of(self, manifest: JSONObject) -> str:
        """Return the hash of what a work carries."""
        return _hash(manifest, self.interpreter)

    def revision_of(self, found: str, cluster: str) -> str:
        """Return the revision that a cluster knows by a hash; empty if it is none that is known here."""
        if not found:
            return ""
        ordered = (self.revision, *(each for each in self._known if each != self.revision))
        return next((each for each in ordered if self.hash(each, cluster) == found), "")

    def touched(self, revision: str, clusters: Iterable[str]) -> Mapping[str, str]:
        """Return the governed fields that overrides touch, with their values and who does it, by cluster."""
        found = {each: self.for_cluster(revision, each) for each in clusters}
        return {cluster: _conflict(each) for cluster, each in found.items() if each.touched}

    def failed(self, revision: str, clusters: Iterable[str]) -> Mapping[str, str]:
        """Return why overrides cannot be made, by cluster."""
        found = {each: self.for_cluster(revision, each).failed for each in clusters}
        return {cluster: why for cluster, why in found.items() if why}

    def _render(self, revision: str, cluster: str) -> tuple[Overridden, str]:
        made = self._rendered.get((revision, cluster))
        if made is None:
            overridden = self.override(self._of(revision), cluster)
            made = self._rendered[revision, cluster] = overridden, self._hash(overridden.manifest)
        return made

    def _of(self, revision: str) -> JSONObject:
        found = self._plain.get(revision)
        if found is None:
            known, spec = self._known[revision].content, part(self.base, "spec")
            kept = spec if self.interpreter is not None else {n: v for n, v in spec.items() if n == _REPLICAS}
            found = self.base if revision == self.revision else {**self.base, "spec": {**kept, **known}}
            self._plain[revision] = found
        return found

    def _hash(self, manifest: JSONObject) -> str:
        """Return the hash of a manifest; clusters without overrides share one, and it is hashed once."""
        known = self._hashes.get(id(manifest))
        if known is None:
            known = self._hashes[id(manifest)] = manifest, _hash(manifest, self.interpreter)
        return known[1]


def _hash(manifest: JSONObject, interpreter: Interpreter | None) -> str:
    if interpreter is not None:
        return interpreter.template_hash(manifest)
    return revision_of(content_of(manifest, None))


def _conflict(found: Overridden) -> str:
    values = (f"{path} is {json.dumps(value_at(found.manifest, path))[:_VALUE]}" for path in found.touched)
    return f"{', '.join(values)} by {', '.join(found.applied)}"
