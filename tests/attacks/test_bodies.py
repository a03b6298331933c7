"""Bodies that take long to read or write keep the event loop for moments: what others ask meanwhile is answered."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.attacks.hub import AttackedHub, attacked_hub
from tests.hub.api import config_map

pytestmark = pytest.mark.full

MAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/yaml"
MIB = 1 << 20
STEP_SECONDS = 0.05
SECONDS_A_MIB = 0.1
LIST_STEP_SECONDS = 0.2


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedHub]:
    with attacked_hub(tmp_path_factory.mktemp("bodies")) as running:
        yield running


BODIES = {
    "plain YAML": "data:\n" + "".join(f"  key{number}: value\n" for number in range(100_000)),
    "flow YAML": "data: [" + "a," * 700_000 + "]",
    "anchors": "data: [" + "".join(f"&a{number} x," for number in range(150_000)) + "]",
    "merges": "a: &a {b: c}\ndata: {" + "<<: *a," * 40_000 + "}",
    "nearly JSON": '{"data":[' + "1," * 700_000 + "x]}",
    "keys twice": "data: [" + "{a: 1, a: 2}," * 60_000 + "]",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_large_body_keeps_nobody_waiting_while_it_is_read(hub: AttackedHub, name: str) -> None:
    mallory, body = hub.user("mallory"), BODIES[name]

    def attack() -> None:
        answer = mallory("POST", MAPS, "kind: Nothing\n" + body if name != "nearly JSON" else body, YAML)
        assert answer.status in (400, 422), answer.data[:500]

    hub.steps(attack, STEP_SECONDS + SECONDS_A_MIB * len(body) / MIB)


@pytest.fixture(scope="module")
def crowded(hub: AttackedHub) -> AttackedHub:
    """The hub with a list that takes seconds to write out."""
    api = replace(hub.admin, kept=hub.admin.connect())
    for number in range(400):
        data = {f"k{key}": "v" for key in range(100)}
        api.ok("POST", MAPS, config_map(f"crowd-{number}", labels={"crowd": str(number)}, **data))
    return hub


@pytest.mark.parametrize("form", ["application/yaml", "application/yaml;as=Table;v=v1;g=meta.k8s.io"])
def test_a_long_list_is_written_out_in_many_steps(crowded: AttackedHub, form: str) -> None:
    asking = crowded.admin.with_headers(Accept=form)

    def attack() -> None:
        assert asking("GET", MAPS, includeObject="Object").status == 200

    crowded.steps(attack, LIST_STEP_SECONDS)
