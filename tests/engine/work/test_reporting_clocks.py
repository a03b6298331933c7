"""When the clocks of a work start: rollouts measure soak times and deadlines by them."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.manifest_config import ManifestConfig
from echelon.api.meta import Condition
from echelon.api.work import ManifestWorkStatus
from echelon.engine.work.reporting import Absent, Applied, NotApplied, ObservedManifest, Present, Unreadable, report
from tests.engine.work.works import CONFIG, at, conditions, config, done, meta, rule, stamp, statuses, web, work


def test_what_is_unchanged_is_reported_unchanged() -> None:
    outcomes = [done(web(2)), done(CONFIG, 1, "ConfigMap", "c")]
    first = report(work(), outcomes, at(0))
    assert report(work(status=first), outcomes, at(9)) == first
    looked = [ObservedManifest(each.meta, None, each.live) for each in outcomes]
    assert report(work(status=first), looked, at(9)) == first


def test_a_clock_starts_when_the_status_flips() -> None:
    first = report(work(), [done(web(2))], at(0))
    second = report(work(status=first), [done(web(4))], at(1))
    assert conditions(second)["Progressing"].last_transition_time == stamp(0)
    assert conditions(second)["Progressing"].message == "Deployment shop/web: 4 of 5 available"
    third = report(work(status=second), [done(web(5))], at(2))
    assert conditions(third)["Progressing"].last_transition_time == stamp(2)
    assert conditions(third)["Degraded"].last_transition_time == stamp(0)


def test_a_new_generation_starts_the_clocks_of_the_work_even_if_nothing_flips() -> None:
    first = report(work(), [done(CONFIG, 0, "ConfigMap", "c")], at(0))
    second = report(work(generation=2, status=first), [done(CONFIG, 0, "ConfigMap", "c")], at(5))
    for each in second.conditions:
        assert (each.observed_generation, each.last_transition_time) == (2, stamp(5)), each.type
    assert conditions(second, 0)["Applied"].last_transition_time == stamp(5)


def test_a07_an_object_that_stays_keeps_the_time_since_when_it_is_there_and_a_new_one_has_a_new_time() -> None:
    first = report(work(), [done(web(5)), done(CONFIG, 1, "ConfigMap", "old")], at(0))
    outcomes = [done(CONFIG, 0, "ConfigMap", "new"), done(web(5), 1)]
    second = report(work(generation=2, status=first), outcomes, at(5))
    assert conditions(second, 1)["Available"].last_transition_time == stamp(0)
    assert conditions(second, 0)["Available"].last_transition_time == stamp(5)
    assert [each.resource_meta.name for each in second.resource_status.manifests] == ["new", "web"]
    assert all(len(each.conditions) == 3 for each in second.resource_status.manifests)


def test_a_manifest_that_moved_is_not_matched_if_it_is_not_the_only_one_of_its_name() -> None:
    first = report(work(), [done(web(5), 0), done(web(5), 1)], at(0))
    second = report(work(generation=2, status=first), [done(web(5), 1), done(web(5), 2)], at(5))
    assert conditions(second, 0)["Available"].last_transition_time == stamp(0)
    assert conditions(second, 1)["Available"].last_transition_time == stamp(5)


def test_nothing_is_said_about_a_generation_before_it_was_applied() -> None:
    rules = [rule("Progressing", "false"), rule("Shiny", "true")]
    for configs in ([], [config(rules)]):
        first = report(work(*configs), [done(web(5))], at(0))
        assert statuses(first)["Progressing"] == "False"
        looked = ObservedManifest(meta(), None, Present(web(5)))
        second = report(work(*configs, generation=2, status=first), [looked], at(5))
        assert conditions(second)["Applied"] == conditions(first)["Applied"]
        assert conditions(second)["Progressing"].status == "True"
        assert conditions(second)["Progressing"].message == "Deployment shop/web: not applied yet"
        assert conditions(second).get("Shiny") == conditions(first).get("Shiny")
        third = report(work(*configs, generation=2, status=second), [done(web(5))], at(6))
        assert conditions(third)["Progressing"].status == "False"
        assert conditions(third)["Progressing"].last_transition_time == stamp(6)


def test_an_object_that_cannot_be_read_for_a_moment_changes_no_verdict() -> None:
    lost = ObservedManifest(meta(), None, Unreadable("timeout"))
    first = report(work(), [done(web(5))], at(0))
    second = report(work(status=first), [lost], at(1))
    assert conditions(second)["Progressing"] == conditions(first)["Progressing"]
    assert conditions(second)["Degraded"] == conditions(first)["Degraded"]
    available = conditions(second, 0)["Available"]
    assert (available.status, available.reason) == ("Unknown", "FetchingResourceFailed")
    assert available.message == "Failed to fetch resource: timeout"
    assert conditions(second)["Available"].reason == "ResourcesStatusUnknown"


def test_an_object_that_was_never_read_leaves_the_verdict_unknown() -> None:
    status = report(work(), [ObservedManifest(meta(), Applied(), Unreadable("timeout"))], at(0))
    assert statuses(status)["Progressing"] == statuses(status)["Degraded"] == "Unknown"
    assert conditions(status)["Progressing"].message == "Deployment shop/web: Failed to fetch resource: timeout"


def test_what_a_rule_said_about_the_last_generation_does_not_stand_in_for_an_object_that_cannot_be_read() -> None:
    given = config([rule("Progressing", "false")])
    first = report(work(given), [done(web(5))], at(0))
    lost = Unreadable("timeout")
    same = report(work(given, status=first), [ObservedManifest(meta(), None, lost)], at(1))
    assert conditions(same)["Progressing"] == conditions(first)["Progressing"]
    later = report(work(given, generation=2, status=first), [ObservedManifest(meta(), Applied(), lost)], at(1))
    assert statuses(later)["Progressing"] == "Unknown"


def test_a_complete_object_that_removed_itself_holds_up_no_other() -> None:
    given = config([rule("Complete", "object.status.availableReplicas == 5")])
    first = report(work(given), [done(web(5)), done(web(2), 1, name="api")], at(0))
    assert statuses(first)["Complete"] == "False"
    gone = ObservedManifest(meta(), Applied(), Absent())
    second = report(work(given, generation=2, status=first), [gone, done(web(5), 1, name="api")], at(1))
    assert (statuses(second)["Complete"], conditions(second)["Complete"].observed_generation) == ("True", 2)


def test_an_object_that_is_gone_is_not_done() -> None:
    first = report(work(config([rule("Progressing", "false")])), [done(web(5))], at(0))
    gone = ObservedManifest(meta(), None, Absent())
    second = report(work(config([rule("Progressing", "false")]), status=first), [gone], at(1))
    assert statuses(second) == {"Applied": "True", "Available": "False", "Progressing": "True", "Degraded": "False"}
    available = conditions(second)["Available"]
    assert (available.reason, available.message) == ("ResourcesNotAvailable", "1 of 1 resources are not available")


def test_what_others_wrote_stays() -> None:
    deleting = Condition(
        type="Deleting", status="True", last_transition_time=stamp(0), reason="WorkDeleting", message=""
    )
    status = report(work(status=ManifestWorkStatus(conditions=[deleting])), [done(web(5))], at(1))
    assert status.conditions[0] == deleting


OBJECTS = st.sampled_from([web(0), web(2), web(5), web(2, late=True), {}, CONFIG])
SIGHTS = st.builds(Present, OBJECTS) | st.just(Absent()) | st.builds(Unreadable, st.sampled_from(["a", "b"]))
TRIES = st.sampled_from([None, Applied(), NotApplied("no"), NotApplied("no", ignored_fields=True)])
METAS = st.lists(
    st.sampled_from([("Deployment", "web"), ("Deployment", "api"), ("ConfigMap", "c"), ("", "")]), max_size=3
)
RULES = st.lists(
    st.sampled_from(
        [
            rule("Progressing", "false"),
            rule("Degraded", "object.status.replicas > 4"),
            rule("X", "true"),
            rule("X", "1 +"),
        ]
    ),
    max_size=2,
    unique_by=lambda each: each.condition,
)


@st.composite
def passes(draw: st.DrawFn) -> tuple[int, list[ManifestConfig], list[ObservedManifest]]:
    outcomes = [
        ObservedManifest(meta(ordinal, *identity), draw(TRIES), draw(SIGHTS))
        for ordinal, identity in enumerate(draw(METAS))
    ]
    return draw(st.integers(0, 1)), [config(draw(RULES), n=".status.availableReplicas")], outcomes


@given(st.lists(passes(), min_size=1, max_size=5))
def test_reports_are_idempotent_and_their_clocks_are_right(
    story: list[tuple[int, list[ManifestConfig], list[ObservedManifest]]],
) -> None:
    generation, status = 1, ManifestWorkStatus()
    for minute, (step, configs, outcomes) in enumerate(story):
        generation += step
        before = {each.type: each for each in status.conditions}
        status = report(work(*configs, generation=generation, status=status), outcomes, at(minute))
        again = report(work(*configs, generation=generation, status=status), outcomes, at(minute + 60))
        assert again == status
        assert msgspec.json.decode(msgspec.json.encode(status), type=ManifestWorkStatus) == status
        assert {"Available", "Progressing", "Degraded"} <= set(statuses(status))
        for kind, each in conditions(status).items():
            known = before.get(kind)
            moved = known is None or (known.status, known.observed_generation) != (
                each.status,
                each.observed_generation,
            )
            expected = stamp(minute) if moved or known is None else known.last_transition_time
            assert each.last_transition_time == expected, kind
        assert conditions(status)["Progressing"].observed_generation == generation
        if statuses(status)["Degraded"] == "True" and not any(each.condition_rules for each in configs):
            assert statuses(status)["Progressing"] == "True"
