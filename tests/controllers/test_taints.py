"""Taints and tolerations, with nothing but time to trigger what time changes."""

from datetime import timedelta
from typing import Any

from echelon.api.cluster import MANAGED_CLUSTER
from tests.controllers.hub import Hub, names, now, told


def taint(key: str, value: str = "", effect: str = "NoSelect", age: float = 0.0) -> dict[str, Any]:
    added = (now() - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"key": key, "value": value, "effect": effect, "timeAdded": added}


async def tainted(hub: Hub, *taints: list[dict[str, Any]]) -> None:
    await hub.bound_set()
    for name, each in zip(names("c", len(taints)), taints, strict=True):
        await hub.cluster(name, spec={"taints": each})
    hub.start()


def test_tolerations_with_exists_and_equal_choose_two_of_three() -> None:
    async def story(hub: Hub) -> None:
        await tainted(hub, [taint("key1", "value1")], [taint("key2", "value2")], [taint("key2", "value3")])
        await hub.place(
            tolerations=[{"key": "key1", "operator": "Exists"}, {"key": "key2", "operator": "Equal", "value": "value2"}]
        )
        await hub.settle()
        assert await hub.selected() == ["c000", "c001"]

    told(story)


def test_effects_decide_and_who_is_chosen_stays_when_only_new_ones_are_kept_away() -> None:
    async def story(hub: Hub) -> None:
        await tainted(hub, [taint("key1", "v")], [taint("key2", "v", "PreferNoSelect")], [])
        await hub.place(tolerations=[{"key": "key1", "operator": "Exists", "effect": "NoSelectIfNew"}])
        await hub.settle()
        assert await hub.selected() == ["c001", "c002"]
        if_new = taint("key3", "", "NoSelectIfNew")
        await hub.patch(MANAGED_CLUSTER, "c002", {"spec": {"taints": [if_new]}})
        await hub.cluster("c003", spec={"taints": [if_new]})
        await hub.settle()
        assert await hub.selected() == ["c001", "c002"]
        await hub.stop()  # who was chosen is known after a restart, too
        hub.start()
        await hub.settle()
        assert await hub.selected() == ["c001", "c002"]

    told(story)


def test_tolerations_end_when_their_time_is_over() -> None:
    async def story(hub: Hub) -> None:
        await tainted(hub, [taint("key1", "v")], [taint("key2", "v")], [taint("key2", "v", age=60)], [])
        await hub.place(
            tolerations=[
                {"key": "key1", "operator": "Exists", "tolerationSeconds": 10},
                {"key": "key2", "operator": "Exists", "tolerationSeconds": 20},
            ]
        )
        await hub.settle()
        assert await hub.selected() == ["c000", "c001", "c003"]
        await hub.settle(4)
        assert await hub.selected() == ["c000", "c001", "c003"]
        await hub.settle(2)
        assert await hub.selected() == ["c001", "c003"]
        await hub.settle(8)
        assert await hub.selected() == ["c001", "c003"]
        await hub.settle(2)
        assert await hub.selected() == ["c003"]
        await hub.patch(MANAGED_CLUSTER, "c003", {"spec": {"taints": [taint("key3")]}})
        await hub.settle()
        assert await hub.selected() == []
        assert await hub.groups() == [("", 0)]

    told(story)


def test_a_taint_of_which_nobody_says_when_it_was_added_counts_from_when_it_was_first_seen() -> None:
    async def story(hub: Hub) -> None:
        await tainted(hub, [])
        await hub.place(tolerations=[{"key": "key1", "operator": "Exists", "tolerationSeconds": 30}])
        await hub.settle()
        await hub.patch(MANAGED_CLUSTER, "c000", {"spec": {"taints": [{"key": "key1", "effect": "NoSelect"}]}})
        await hub.settle(20)
        assert await hub.selected() == ["c000"]
        await hub.patch(MANAGED_CLUSTER, "c000", {"metadata": {"labels": {"another": "change"}}})
        await hub.settle(9)
        assert await hub.selected() == ["c000"]
        await hub.settle(2)
        assert await hub.selected() == []

    told(story)


def test_after_a_restart_it_counts_from_when_it_was_seen_again() -> None:
    async def story(hub: Hub) -> None:
        await tainted(hub, [{"key": "key1", "effect": "NoSelect"}])
        await hub.place(tolerations=[{"key": "key1", "operator": "Exists", "tolerationSeconds": 30}])
        await hub.settle(20)
        await hub.stop()
        hub.start()
        await hub.settle(29)
        assert await hub.selected() == ["c000"]
        await hub.settle(2)
        assert await hub.selected() == []

    told(story)
