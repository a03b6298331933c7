import subprocess
import sys
from pathlib import Path

import pytest

from echelon.engine.cel import CompileError, CostExceeded
from echelon.engine.placement.addons import ScoreIndex
from echelon.engine.placement.expressions import compile_predicate, matches, view
from tests.engine.placement.building import cluster, fleet_of, placement, scheduled, score, selecting

SOURCE = cluster(
    "a",
    {"env": "prod", "version": "1.30.0", "json": "x"},
    claims={"about": '{"size": [1, 2], "on": true}'},
    cpu="4",
    version={"kubernetes": "1.30.1"},
)


def holds(text: str) -> bool:
    (found,) = fleet_of(SOURCE)
    scores = ScoreIndex()
    scores.update(score("a", "demo", cpu=90, valid_until=-60))
    scores.update(score("b", "other", cpu=90))
    program = compile_predicate(text)
    return matches(program, view(found, scores))


@pytest.mark.parametrize(
    "text",
    [
        'managedCluster.metadata.labels["env"] == "prod"',
        "managedCluster.metadata.name == 'a' && managedCluster.spec.leaseDurationSeconds == 60",
        "size(managedCluster.status.conditions) == 0 && !managedCluster.spec.hubAcceptsClient",
        "quantity(managedCluster.status.allocatable.cpu).isGreaterThan(quantity('3500m'))",
        "managedCluster.status.clusterClaims.exists(c, c.name == 'about' && c.value.parseJSON().size[1] == 2.0)",
        "managedCluster.status.clusterClaims[0].value.parseJSON().on",
        'semver(managedCluster.metadata.labels["version"]).isLessThan(semver("1.31.0"))',
        "managedCluster.status.version.kubernetes.matches('^1[.]30[.]')",
        "managedCluster.status.?nothing.orValue(5) == 5",
    ],
)
def test_expressions_see_the_whole_cluster(text: str) -> None:
    assert holds(text)


def test_scores_of_add_ons_are_seen_even_after_their_end() -> None:
    assert holds('managedCluster.scores("demo").filter(s, s.name == "cpu").all(s, s.value > 80)')
    assert not holds('managedCluster.scores("demo").exists(s, s.value > 95)')


@pytest.mark.parametrize(
    "text",
    [
        'managedCluster.scores("missing").size() == 0',  # a mistake at run time
        'managedCluster.scores("other").size() > 0',  # of another cluster
        "managedCluster.metadata.labels['nope'] == ''",
        "managedCluster.metadata.name.parseJSON() == 1",
        "semver('v1.30.0').major() == 1",
        "1",
        "'true'",
        "[1, 2, 3].map(x, [1, 2, 3])",
    ],
)
def test_anything_but_true_is_no_match(text: str) -> None:
    assert not holds(text)


def test_endless_work_is_a_mistake_in_the_placement() -> None:
    many = "[" + ",".join("1" * 1 for _ in range(200)) + "]"
    with pytest.raises(CostExceeded, match="actual cost limit exceeded"):
        holds(f"{many}.all(a, {many}.all(b, {many}.all(c, a + b + c > 0)))")


@pytest.mark.parametrize("text", ["nope.x", "(", "semver('1.0.0', true) == semver('1.0.0')", "'x'.repeat("])
def test_what_does_not_compile_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match=r"^compilation failed: "):
        compile_predicate(text)


def test_a_placement_selects_by_expressions_after_labels_and_claims() -> None:
    fleet = fleet_of(SOURCE, cluster("b", {"env": "prod"}), cluster("c", {"env": "dev", "version": "1.30.0"}))
    wanted = selecting({"matchLabels": {"env": "prod"}}, cel=["'version' in managedCluster.metadata.labels", "true"])
    assert scheduled(placement(predicates=[wanted]), fleet).selected == ("a",)


def test_a_placement_with_a_wrong_expression_is_misconfigured_even_without_clusters() -> None:
    result = scheduled(placement(predicates=[selecting(cel=["nope.x"])]), fleet_of())
    assert (result.outcome.code, result.outcome.plugin) == ("Misconfigured", "Predicate")
    assert result.outcome.message.startswith("compilation failed: ")


def test_without_the_extra_a_placement_says_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['cel_expr_python'] = None\n"
        "from tests.engine.placement.building import *\n"
        "print(scheduled(placement(predicates=[selecting(cel=['true'])]), fleet_of()).outcome.message)\n"
        "print(scheduled(placement(predicates=[selecting()]), fleet_of()).outcome.code)\n"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    said, code = done.stdout.splitlines()
    assert said.startswith("compilation failed: CEL is not available: install the `cel` extra, at spec.predicates[0]")
    assert code == "Success"
