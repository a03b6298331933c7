"""Objects that are still files: of one or several files, of directories, or of what another program prints."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from echelon.api.base import JSONObject
from echelon.api.keys import Key
from echelon.api.kinds import Kind
from echelon.api.yaml_documents import UnreadableYaml, read_documents
from echelon.fleet.capture import kind_of

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Document:
    """An object as somebody wrote it."""

    file: str
    body: JSONObject
    kind: Kind[Any] | None  # None for one that is not known here

    @property
    def key(self) -> Key:
        """Where it is."""
        meta = self.body["metadata"]
        return Key(str(meta.get("namespace") or ""), str(meta["name"]))

    @property
    def title(self) -> str:
        """What people call it."""
        return f"{self.kind.singular if self.kind is not None else str(self.body['kind']).lower()} {self.key}"


def read_files(sources: Sequence[str], namespace: str, *, recursive: bool) -> list[Document]:
    """Return the objects of files; those without a namespace are in the given one."""
    found = [
        each
        for source in sources
        for file, text in _texts(source, recursive=recursive)
        for document in _parsed(file, text)
        for each in _objects(file, document, namespace)
    ]
    seen: dict[tuple[object, ...], str] = {}
    for each in found:
        same = (each.body["apiVersion"], each.body["kind"], each.key)
        if same in seen:
            raise click.UsageError(f"{each.title} is there twice, in {seen[same]} and in {each.file}")
        seen[same] = each.file
    if not found:
        raise click.UsageError(f"there is no object in {', '.join(sources)}")
    return found


def _texts(source: str, *, recursive: bool) -> Iterator[tuple[str, str]]:
    if source == "-":
        yield "standard input", sys.stdin.read(_MOST_BYTES)
        return
    path = Path(source)
    if not path.exists():
        raise click.BadParameter(f"there is no {source}", param_hint="-f")
    files = [path]
    if path.is_dir():
        inside = path.rglob("*") if recursive else path.iterdir()
        files = sorted(each for each in inside if each.suffix in _SUFFIXES and each.is_file())
    for file in files:
        try:
            if file.stat().st_size > _MOST_BYTES:
                raise click.UsageError(f"{file} is larger than {_MOST_BYTES // 1024 // 1024} MiB")
            yield str(file), file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{file}: {error}") from error


def _parsed(file: str, text: str) -> Iterator[Any]:
    try:
        yield from read_documents(text)
    except UnreadableYaml as error:
        raise click.UsageError(f"{file}: {error}") from error


def _objects(file: str, document: Any, namespace: str) -> Iterator[Document]:
    """Return the objects of a document: of a list all that are in it."""
    if document is None:
        return
    if not isinstance(document, dict):
        raise click.UsageError(f"{file}: a document is no object: it must have apiVersion, kind and metadata")
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        for each in document["items"]:
            yield from _objects(file, each, namespace)
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise click.UsageError(f"{file}: {field} is missing from an object, or is no text")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise click.UsageError(f"{file}: {document['kind']} has no metadata.name")
    kind = kind_of(document)
    where = {} if kind is None or not kind.namespaced or metadata.get("namespace") else {"namespace": namespace}
    yield Document(file, {**document, "metadata": {**metadata, **where}}, kind)
