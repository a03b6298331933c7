"""Bodies that take long to read are read beside the event loop: what others ask meanwhile is answered meanwhile."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.attacks.hub import AttackedHub, attacked_hub

MAPS = "/api/v1/namespaces/default/configmaps"
YAML = "application/yaml"
MIB = 1 << 20
STEP_SECONDS = 0.05
SECONDS_A_MIB = 0.1


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
    hub.meter.reset()
    answer = mallory("POST", MAPS, "kind: Nothing\n" + body if name != "nearly JSON" else body, YAML)
    hub.run(asyncio.sleep(0))  # the step that sent the answer is over
    assert answer.status in (400, 422), answer.data[:500]
    assert hub.meter.longest < STEP_SECONDS + SECONDS_A_MIB * len(body) / MIB
