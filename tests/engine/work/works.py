"""Works, what became of their manifests, and a way to read what is reported about them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from echelon.api.base import JSONObject
from echelon.api.manifest_config import ConditionRule, FeedbackRule, JsonPath, ManifestConfig, ResourceIdentifier
from echelon.api.meta import Condition, ObjectMeta
from echelon.api.work import ManifestResourceMeta, ManifestWork, ManifestWorkSpec, ManifestWorkStatus
from echelon.engine.work.reporting import Applied, ObservedManifest, Present
from tests.engine.work.statuses import counts

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def stamp(minutes: int) -> str:
    return at(minutes).strftime("%Y-%m-%dT%H:%M:%SZ")


def meta(ordinal: int = 0, kind: str = "Deployment", name: str = "web") -> ManifestResourceMeta:
    group = {"Deployment": "apps", "Job": "batch"}.get(kind, "")
    return ManifestResourceMeta(
        ordinal=ordinal,
        group=group,
        version="v1",
        kind=kind,
        resource=f"{kind.lower()}s",
        name=name,
        namespace="shop",
    )


LATE: JSONObject = {
    "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}]
}


def web(available: int, *, wanted: int = 5, late: bool = False) -> JSONObject:
    """A Deployment that is updated and has some pods available."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"generation": 1},
        "spec": {"replicas": wanted},
        "status": counts(1, wanted, wanted, available, **(LATE if late else {})),
    }


CONFIG: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}


def config(rules: Sequence[ConditionRule] = (), name: str = "*", **paths: str) -> ManifestConfig:
    feedback = [FeedbackRule(type="JSONPaths", json_paths=[JsonPath(name=k, path=v) for k, v in paths.items()])]
    return ManifestConfig(
        resource_identifier=ResourceIdentifier(group="apps", resource="deployments", name=name, namespace="*"),
        condition_rules=list(rules),
        feedback_rules=feedback if paths else [],
    )


def rule(condition: str, expression: str, message: str = "") -> ConditionRule:
    return ConditionRule(condition=condition, type="CEL", cel_expressions=[expression], message=message)


def work(*configs: ManifestConfig, generation: int = 1, status: ManifestWorkStatus | None = None) -> ManifestWork:
    return ManifestWork(
        metadata=ObjectMeta(name="w", namespace="cluster1", generation=generation),
        spec=ManifestWorkSpec(manifest_configs=list(configs)),
        status=status or ManifestWorkStatus(),
    )


def done(obj: JSONObject, ordinal: int = 0, kind: str = "Deployment", name: str = "web") -> ObservedManifest:
    return ObservedManifest(meta(ordinal, kind, name), Applied(), Present(obj))


def conditions(status: ManifestWorkStatus, manifest: int | None = None) -> dict[str, Condition]:
    found = status.conditions if manifest is None else status.resource_status.manifests[manifest].conditions
    assert len({each.type for each in found}) == len(found)
    return {each.type: each for each in found}


def statuses(status: ManifestWorkStatus, manifest: int | None = None) -> dict[str, str]:
    return {kind: each.status for kind, each in conditions(status, manifest).items()}
