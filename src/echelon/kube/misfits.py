"""Objects that are on the server and do not fit the type as which they were asked for.

Somebody else's schema may allow what ours does not. One such object must not hide the thousands beside it, and it must
not look as if it were gone: whoever concludes from absence would delete what belongs to it. So it is told apart from
both, as which object it is, and what is wrong with it. A type's complaint names the field and never the value of a
free text, so it can be repeated in logs and events.
"""

from typing import Any

import msgspec

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.kube.errors import Unreadable


class PartialMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """As much of an object's metadata as it takes to know which object it is, and whose."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Misfit(msgspec.Struct, frozen=True, gc=False):
    """An object whose newest state does not fit the type as which it was asked for: which one it is, and why."""

    resource: str
    metadata: PartialMetadata
    why: str

    @property
    def where(self) -> str:
        """Which object it is, for people."""
        meta = self.metadata
        return f"{self.resource} {meta.namespace}/{meta.name}" if meta.namespace else f"{self.resource} {meta.name}"


class _Partial(msgspec.Struct, gc=False):
    metadata: PartialMetadata


_decode = msgspec.json.Decoder(_Partial).decode


def misfit(kind: Kind[Any], found: bytes | msgspec.Raw | JSONObject, why: Exception) -> Misfit:
    """Tell which object it is that does not fit; raise `Unreadable` if not even that can be read."""
    try:
        partial = msgspec.convert(found, _Partial) if isinstance(found, dict) else _decode(found)
    except msgspec.DecodeError as error:
        raise Unreadable(f"{kind.resource}: something without a name cannot be read: {error}") from None
    return Misfit(kind.resource, partial.metadata, str(why))
