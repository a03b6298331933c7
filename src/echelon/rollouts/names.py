"""The names of rollouts, without anything else of them: for who typed a wrong one, or half of one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from echelon.api.base import JSONObject
from echelon.kube.client import Reader
from echelon.kube.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from echelon.rollouts.kinds import RolloutKind

_MOST = 500  # of a kind; who has more is not helped by a list


async def names_of(client: Reader, kinds: "Iterable[RolloutKind]", namespace: str) -> list[tuple[str, str]]:
    """Return the rollouts of a namespace that may be seen, each with what its kind and it are called."""
    found: list[tuple[str, str]] = []
    for each in kinds:
        try:
            page = await client.list(each.kind.untyped(), namespace, labels=each.labels, limit=_MOST)
        except (NotFound, Forbidden):
            continue
        found += [called(each, document) for document in page.items]
    return found


def called(kind: "RolloutKind", document: JSONObject) -> tuple[str, str]:
    """Return what people call the kind and the object of a rollout."""
    name = str(document["metadata"]["name"])
    resource = (document.get("spec") or {}).get("resource") or {}
    template = next((each for each in kind.templates if each.kind == resource.get("kind")), None)
    if template is None:
        return kind.kind.singular, name
    return template.singular, str(resource.get("name") or name)
