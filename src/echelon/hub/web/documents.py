"""The addresses that are not resources: discovery, OpenAPI, version, health and metrics."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry

from echelon.api.base import JSONObject
from echelon.hub.web import discovery, openapi
from echelon.hub.web.health import ENDPOINTS, Health
from echelon.hub.web.http import Call, document
from echelon.hub.web.version import version
from echelon.kube.errors import MethodNotAllowed, NotFound
from echelon.kube.metrics import written_out

_AGGREGATED = "g=apidiscovery.k8s.io"


class Documents:
    """Answers what a client asks about the server itself."""

    def __init__(self, health: Health, clusters: Callable[[], list[str]], metrics: CollectorRegistry) -> None:
        self._metrics = metrics
        self._health = health
        self._clusters = clusters

    async def serve(self, call: Call) -> web.StreamResponse:
        """Answer a request for a document."""
        if call.http.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("the server does not allow this method on the requested resource")
        parts = [part for part in call.info.path.split("/") if part]
        match parts:
            case ["api"]:
                return self._core(call)
            case ["apis"]:
                return self._groups(call)
            case ["api", name]:
                return document(discovery.resources(call.served.cluster.catalogue, "", name))
            case ["apis", name]:
                return document(discovery.group(call.served.cluster.catalogue, name))
            case ["apis", name, number]:
                return document(discovery.resources(call.served.cluster.catalogue, name, number))
            case ["openapi", "v3", *rest]:
                return self._openapi(call, rest)
            case ["version"]:
                return document(version())
            case ["metrics"] if not call.info.cluster:  # of the whole process, so not for those of one cluster
                return web.Response(
                    body=await written_out(self._metrics), headers={"Content-Type": CONTENT_TYPE_LATEST}
                )
            case [name, *check] if name in ENDPOINTS and len(check) <= 1:
                query = call.http.query
                excluded = query.getall("exclude", [])
                return await self._health.answer(name, "".join(check), verbose="verbose" in query, excluded=excluded)
            case ["clusters"] if not call.info.cluster:
                return document({"clusters": self._clusters()})
            case []:
                return document({"paths": [path for path in _PATHS if not call.info.cluster or path not in _OF_ALL]})
        raise NotFound("the server could not find the requested resource")

    def _core(self, call: Call) -> web.Response:
        if form := _aggregated(call):
            return _discovery(discovery.aggregated(call.served.cluster.catalogue, core=True, version=form), form)
        return document(discovery.core_versions(call.http.host))

    def _groups(self, call: Call) -> web.Response:
        if form := _aggregated(call):
            return _discovery(discovery.aggregated(call.served.cluster.catalogue, core=False, version=form), form)
        return document(discovery.groups(call.served.cluster.catalogue))

    def _openapi(self, call: Call, rest: list[str]) -> web.Response:
        catalogue = call.served.cluster.catalogue
        match rest:
            case []:
                prefix = f"/clusters/{call.info.cluster}" if call.info.cluster else ""
                return document(_prefixed(openapi.index(catalogue), prefix))
            case ["api", number]:
                return document(openapi.document(catalogue, "", number))
            case ["apis", name, number]:
                return document(openapi.document(catalogue, name, number))
        raise NotFound("the server could not find the requested resource")


_PATHS = ["/api", "/apis", "/clusters", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"]
_OF_ALL = ("/clusters", "/metrics")


def _aggregated(call: Call) -> str:
    """Return the version of aggregated discovery that the client prefers; empty for the plain form."""
    for item in call.http.headers.get("Accept", "").split(","):
        if "as=APIGroupDiscoveryList" in item and _AGGREGATED in item:
            for name in ("v2", "v2beta1"):
                if f"v={name}" in (part.strip() for part in item.split(";")):
                    return name
        elif item.strip().partition(";")[0] in ("application/json", "*/*"):
            return ""
    return ""


def _discovery(body: JSONObject, form: str) -> web.Response:
    kind = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
    answer = document(body)
    answer.headers["Content-Type"] = kind
    answer.headers["Vary"] = "Accept"
    return answer


def _prefixed(index: JSONObject, prefix: str) -> JSONObject:
    """Make the addresses in an index those of a logical cluster."""
    paths = index["paths"].items()
    return {"paths": {name: {"serverRelativeURL": prefix + path["serverRelativeURL"]} for name, path in paths}}
