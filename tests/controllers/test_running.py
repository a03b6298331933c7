"""What is said when a hub lacks kinds that controllers need."""

import pytest

from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.kinds import Kind
from echelon.api.multicluster import MULTICLUSTER_DECISION
from echelon.api.work_set import MANIFEST_WORK_REPLICA_SET
from echelon.controllers.running import MULTICLUSTER, NAMES, MissingKinds, custom_kinds_of

APPLY = "kubectl apply --server-side -f -"


@pytest.mark.parametrize(
    ("missing", "controllers", "how"),
    [
        (custom_kinds_of(NAMES), NAMES, f"echelon crds | {APPLY}"),
        (
            custom_kinds_of(["cluster-sets"]),
            ("cluster-sets",),
            f"echelon crds --controllers cluster-sets | {APPLY}",
        ),
        (
            (MANIFEST_WORK_REPLICA_SET, MANAGED_CLUSTER),
            NAMES,
            f"echelon crds {MANIFEST_WORK_REPLICA_SET.resource} {MANAGED_CLUSTER.resource} | {APPLY}",
        ),
        ((MULTICLUSTER_DECISION,), (*NAMES, MULTICLUSTER), f"echelon crds --multicluster | {APPLY}"),
    ],
    ids=["nothing is there", "nothing that these need is there", "two are missing", "that of somebody else"],
)
def test_only_what_is_missing_is_to_be_installed_and_nothing_is_forced(
    missing: tuple[Kind[object], ...], controllers: tuple[str, ...], how: str
) -> None:
    said = str(MissingKinds(missing, controllers))
    assert said == f"the hub does not serve {', '.join(kind.resource for kind in missing)}; install them: {how}"
