"""Which kinds the cluster serves, and as which resources.

A manifest names a kind; requests name a resource. What the cluster said once is kept, because it hardly ever changes,
and asked again when a kind is missing: the CRD may just have come with the same work.
"""

from typing import Any

from echelon.api.base import JSONObject
from echelon.api.kinds import Kind
from echelon.kube.client import Documents
from echelon.kube.errors import NotFound


class UnknownKind(Exception):
    """The cluster does not serve a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(f'the server doesn\'t have a resource type "{kind}"')


class ServedKinds:
    """What one cluster serves."""

    def __init__(self, server: Documents) -> None:
        self._server = server
        self._known: dict[str, dict[str, Kind[JSONObject]]] = {}  # by API version, then by kind

    async def find(self, api_version: str, kind: str) -> Kind[JSONObject]:
        """Return a kind, read as plain documents. Raises `UnknownKind`."""
        found = self._known.get(api_version, {}).get(kind)
        if found is None:
            self._known[api_version] = await self._ask(api_version)
            found = self._known[api_version].get(kind)
        if found is None:
            raise UnknownKind(kind)
        return found

    def forget(self, api_version: str) -> None:
        """Ask again next time: something is not as the cluster said."""
        self._known.pop(api_version, None)

    async def _ask(self, api_version: str) -> dict[str, Kind[JSONObject]]:
        group, _, version = api_version.rpartition("/")
        try:
            answer = await self._server.document(f"/apis/{api_version}" if group else f"/api/{version}")
        except NotFound:
            return {}
        listed: list[JSONObject] = answer.get("resources") or []
        with_status = {entry["name"] for entry in listed}
        return {
            entry["kind"]: Kind[Any](
                group,
                version,
                entry["kind"],
                entry["name"],
                dict[str, Any],
                namespaced=bool(entry.get("namespaced")),
                status=f"{entry['name']}/status" in with_status,
            )
            for entry in listed
            if "/" not in entry["name"]
        }
