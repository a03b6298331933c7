"""What people copy keeps workloads on clusters that are away for a while."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
AWAY = {f"cluster.open-cluster-management.io/{taint}" for taint in ("unreachable", "unavailable")}
FENCED = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def documents(path: Path) -> list[Any]:
    text = path.read_text()
    texts = FENCED.findall(text) if path.suffix == ".md" else [text]
    return [document for each in texts for document in yaml.safe_load_all(each) if isinstance(document, dict)]


def placements() -> list[Any]:
    paths = [*sorted((ROOT / "examples").glob("*.yaml")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    return [
        pytest.param(document, id=f"{path.name} {document['metadata']['name']}")
        for path in paths
        for document in documents(path)
        if document.get("kind") == "Placement"
    ]


@pytest.mark.parametrize("placement", placements())
def test_every_placement_that_is_shown_tolerates_clusters_that_are_away(placement: Any) -> None:
    tolerated = {each["key"] for each in placement["spec"].get("tolerations", ()) if each.get("operator") == "Exists"}
    assert tolerated >= AWAY
