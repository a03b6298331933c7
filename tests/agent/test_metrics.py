"""What an agent measures is what it does."""

import asyncio

from echelon.api.core import CONFIG_MAP
from tests.agent.world import World, config_map, told


def value(here: World, name: str, **labels: str) -> float | None:
    return here.running[-1].context.metrics.registry.get_sample_value(name, labels)


def test_works_applies_drift_and_the_last_sign_of_life_are_measured() -> None:
    async def story(here: World) -> None:
        await here.work(config_map("one", a="1"), config_map("two"))
        await here.settle()
        assert value(here, "echelon_agent_works", state="applied") == 1
        assert value(here, "echelon_agent_works", state="failing") == 0
        assert value(here, "echelon_agent_applies_total", result="success") == 2
        assert value(here, "echelon_agent_drift_total") == 0
        await here.member.patch(CONFIG_MAP, "one", {"data": {"a": "2"}})
        await here.settle()
        assert value(here, "echelon_agent_drift_total") == 1
        await here.work(config_map("three", namespace="nowhere"), name="broken")
        await here.settle()
        assert value(here, "echelon_agent_works", state="failing") == 1
        assert (value(here, "echelon_agent_applies_total", result="failure") or 0) >= 1
        lag = value(here, "echelon_agent_hub_lag_seconds")
        assert lag is not None
        assert 0 <= lag <= 60
        await here.stop()
        await asyncio.sleep(600)
        assert (value(here, "echelon_agent_hub_lag_seconds") or 0) >= 600

    told(story)
