"""Expressions, patterns, paths and selectors of strangers, each as expensive as it can be made.

Whoever may write an object may write an expression into it, and it is evaluated by a process that works for everybody.
What is asked: the expression ends, what it does wrong is told in its own object, and others go on meanwhile. Nothing
here looks at a clock on the wall: what is measured is counted, in units of cost, looks at a value, or bytes.
"""

import asyncio
import time
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from echelon.api import labels
from echelon.api.admissionregistration import VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
from echelon.api.apiextensions import CUSTOM_RESOURCE_DEFINITION
from echelon.api.base import JSONObject
from echelon.api.cluster import MANAGED_CLUSTER
from echelon.api.core import CONFIG_MAP
from echelon.api.formats import is_duration
from echelon.api.kinds import Kind
from echelon.api.manifest_config import ConditionRule, FeedbackRule, JsonPath
from echelon.api.placement import PLACEMENT
from echelon.api.quantity import QuantityError, parse_quantity
from echelon.engine.cel import Budget, CompileError, CostExceeded, EvaluationError, compile_expression
from echelon.engine.configuration_policy.globs import Globs
from echelon.engine.int_or_percent import NotIntOrPercent, Rounding, resolve
from echelon.engine.placement.opinions import PER_CLUSTER
from echelon.engine.rollout import durations
from echelon.engine.work.configs import _like
from echelon.engine.work.ignoring import IgnoreFieldError, server_side_apply
from echelon.engine.work.reporting import report
from echelon.engine.work.rules import EXPRESSION_ERROR
from echelon.hub.client import InProcessClient
from echelon.hub.schema.cel import Rules
from echelon.hub.schema.rule_walk import BUDGET, PER_RULE
from echelon.hub.server import ROOT, bootstrap, memory_cluster
from echelon.kube.errors import ApiError, Cause, Invalid
from tests.controllers.hub import Hub, names, told
from tests.controllers.test_bad_placements import cel, selecting, two_placements
from tests.engine.work.test_ignoring import config as ignoring
from tests.engine.work.test_ignoring import live, wanted
from tests.engine.work.works import at as minutes
from tests.engine.work.works import config, done, web, work

pytestmark = pytest.mark.full

EXCEEDED = "operation cancelled: actual cost limit exceeded"
# No attack comes near to this; before there were limits, each of them took minutes, or all the memory that there was.
CPU_SECONDS = 20.0
MEBIBYTE = 1 << 20


def bound(step: str, levels: int, first: str, last: str) -> str:
    """Bind one variable to something made of another, again and again."""
    steps = "".join(f"cel.bind(v{level}, {step.format(f'v{level - 1}')}, " for level in range(1, levels + 1))
    return f"cel.bind(v0, {first}, {steps}{last.format(f'v{levels}')}{')' * (levels + 1)}"


TEXT = "'aaaaaaaaaaaaaaaa'"
MANY = f"[{','.join('1' for _ in range(300))}]"
EXPENSIVE = {
    "a text that doubles": bound("{0} + {0}", 27, TEXT, "{0}.size() > 0"),
    "a list that doubles": bound("{0} + {0}", 27, "[1]", "{0}.size() > 0"),
    "texts in texts": bound("{0}.replace('a', {0})", 6, TEXT, "{0}.size() > 0"),
    "texts between texts": bound("{0}.split('').join({0})", 6, TEXT, "{0}.size() > 0"),
    "a text of nested lists": bound("[{0}, {0}]", 24, "1", "'%s'.format([{0}]).size() > 0"),
    "equal lists of lists": bound("[{0}, {0}]", 27, "1", "{0} == {0}"),
    "the same among the same": bound("[{0}, {0}]", 27, "1", "{0} in [{0}]"),
    "loops in loops": f"{MANY}.all(a, {MANY}.all(b, {MANY}.all(c, a + b + c > 0)))",
    "lists of lists": f"{MANY}.map(a, {MANY}.map(b, {MANY})).size() > 0",
    "errors in loops": f"{MANY}.all(a, {MANY}.all(b, {MANY}.all(c, a / 0 == 1 || c > 0)))",
    "a large pattern": bound("{0} + {0}", 14, "'ab'", "{0}.matches('.*a.{{300}}b')"),
    "one match after another": bound("{0} + {0}", 14, "'ab'", "{0}.findAll('a(.*c)?').size() > 0"),
    "sets of sets": bound("{0} + {0}", 12, "[1]", "sets.contains({0}, {0})"),
    "addresses": f"{MANY}.all(a, {MANY}.all(b, cidr('::/0').containsIP('::1')))",
    "times": f"{MANY}.all(a, {MANY}.all(b, timestamp('2026-01-01T00:00:00Z').getHours('Asia/Tokyo') > 0))",
}
REFUSED = {
    "macros that repeat what they are called on": "optional.of(1)" + ".optMap(x, x)" * 25 + ".hasValue()",
    "types of types": bound("{{{0}: {0}}}", 25, "1", "true"),
    "signs": "!" * 5000 + "true",
    "names that are not known": f"[{','.join(f'x{number}' for number in range(800))}].size() > 0",
}


@contextmanager
def bounded() -> Iterator[None]:
    """See that the processor is not used up."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < CPU_SECONDS


@contextmanager
def in_memory(limit: int) -> Iterator[None]:
    """See that no more memory is used, at any moment."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


class TestEvaluation:
    @pytest.mark.parametrize("text", EXPENSIVE.values(), ids=EXPENSIVE)
    def test_what_costs_too_much_ends_before_it_has_it(self, text: str) -> None:
        program = compile_expression(text)
        with bounded(), pytest.raises(CostExceeded, match=EXCEEDED):
            program.run({}, Budget(200_000, 200_000))

    @pytest.mark.parametrize("name", ["a text that doubles", "a list that doubles", "texts in texts", "lists of lists"])
    def test_nothing_is_made_before_it_is_paid_for(self, name: str) -> None:
        program = compile_expression(EXPENSIVE[name])
        with in_memory(32 * MEBIBYTE), pytest.raises(CostExceeded):
            program.run({}, Budget(100_000, 100_000))

    @pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
    def test_what_keeps_the_compiler_busy_does_not_reach_it(self, text: str) -> None:
        with bounded(), pytest.raises(CompileError) as refused:
            compile_expression(text)
        assert len(str(refused.value)) < 5_000

    @pytest.mark.parametrize("pattern", ["a*a*a*a*a*a*b", "(a+)+$", "(a|aa)+$", "(x+x+)+y"])
    def test_patterns_that_go_back_and_forth_elsewhere_are_cheap(self, pattern: str) -> None:
        budget = Budget()
        assert compile_expression(f"x.find('{pattern}')", ["x"]).run({"x": "a" * 10_000 + "!"}, budget) == ""
        assert Budget().left - budget.left < 20_000

    def test_what_was_paid_is_counted_for_all_that_share_a_budget(self) -> None:
        program, budget = compile_expression("x.all(a, a > 0)", ["x"]), Budget(1_000, 1_000)
        paid = [program.run({"x": [1] * 10}, budget) for _ in range(5)]
        left, budget.left = budget.left, 10
        with pytest.raises(EvaluationError, match=EXCEEDED):
            program.run({"x": [1] * 10}, budget)
        assert (all(paid), budget.is_spent) == (True, True)
        assert 0 < left < 900


class TestPlacements:
    @pytest.mark.parametrize("text", EXPENSIVE.values(), ids=EXPENSIVE)
    def test_an_expression_that_costs_too_much_is_a_mistake_of_its_placement_alone(self, text: str) -> None:
        self.is_said(cel("true", text), f"{EXCEEDED} for cluster a, at {PREDICATE}.celSelector.celExpressions[1]")

    @pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
    def test_so_is_one_that_is_not_compiled(self, text: str) -> None:
        self.is_said(cel(text), "celExpressions[0]")

    def test_so_are_thousands_of_expressions_or_terms(self) -> None:
        self.is_said(cel(*(f"{number} == 1" for number in range(3_000))), "at most 64 expressions")
        values = [f"v{number}" for number in range(6_000)]
        self.is_said(selecting(key="a", operator="NotIn", values=values), "at most 5000 terms")

    def test_a_pattern_that_stopped_all_controllers_stops_nobody(self) -> None:
        async def story(hub: Hub) -> None:
            await two_placements(hub)
            await hub.respec(**cel(f"('{'a' * 200}!' + managedCluster.metadata.name).find('a*a*a*a*a*a*b') != 'a'"))
            await hub.clusters(["d"])
            await hub.settle()
            assert (await hub.condition("PlacementMisconfigured"))[0] == "False"
            assert await hub.selected() == ["a", "b", "c", "d"]

        with bounded():
            told(story)

    def test_a_fleet_is_asked_in_slices_and_all_of_it(self) -> None:
        """Each cluster takes a part of what is allowed; together they take many times what is allowed in one go."""
        text = f"{MANY}.all(a, [1,1,1].all(b, a + b > 0)) && managedCluster.metadata.name != 'c007'"

        async def story(hub: Hub) -> None:
            await hub.bound_set()
            await hub.clusters(names("c", 60))
            hub.start()
            await hub.place("good")
            await hub.place(**cel(text))
            await hub.settle()
            assert await hub.selected() == [name for name in names("c", 60) if name != "c007"]
            await hub.clusters(["d"])
            await hub.delete(MANAGED_CLUSTER, "c001")
            await hub.settle()
            assert set(await hub.selected()) == {*names("c", 60), "d"} - {"c001", "c007"}

        told(story)

    @staticmethod
    def is_said(spec: dict[str, Any], said: str) -> None:
        async def story(hub: Hub) -> None:
            await two_placements(hub)
            before = await hub.decisions()
            await hub.respec(**spec)
            await hub.settle()
            status, reason, message = await hub.condition("PlacementMisconfigured")
            assert (status, reason) == ("True", "Misconfigured")
            assert said in message
            await hub.clusters(["d"])
            await hub.stop()
            hub.start()  # it is no different after a restart
            await hub.settle()
            assert await hub.selected("good") == ["a", "b", "c", "d"]
            assert await hub.decisions() == before
            await hub.patch(PLACEMENT, "p", {"spec": dict.fromkeys(spec)}, hub.namespace)
            await hub.settle()
            assert await hub.selected() == ["a", "b", "c", "d"]

        with bounded():
            told(story)


PREDICATE = "spec.predicates[0].requiredClusterSelector"
Scenario = Callable[[InProcessClient], Coroutine[Any, Any, None]]


def on_a_hub(scenario: Scenario) -> None:
    async def inner() -> None:
        cluster = memory_cluster(seed=1)
        await bootstrap(cluster)
        await scenario(InProcessClient(cluster, ROOT))

    with bounded():
        asyncio.run(inner())


def definition(*rules: str) -> JSONObject:
    items = {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}
    ruled = {**items, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}
    whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": ruled}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}}
    names = {"plural": "heavies", "singular": "heavy", "kind": "Heavy", "listKind": "HeavyList"}
    kind = CUSTOM_RESOURCE_DEFINITION
    spec = {"group": "attack.example.com", "names": names, "scope": "Cluster", "versions": [version]}
    return {**kind.type_meta, "metadata": {"name": "heavies.attack.example.com"}, "spec": spec}


def compiled(*rules: str) -> Rules:
    return Rules.compile(definition(*rules)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


HEAVY = Kind("attack.example.com", "v1", "Heavy", "heavies", dict, namespaced=False)


def heavy(count: int) -> JSONObject:
    return {**HEAVY.type_meta, "metadata": {"name": "h"}, "spec": {"l": [1] * count}}


class TestRules:
    def test_a_rule_that_costs_too_much_refuses_the_object(self) -> None:
        text = "self.all(a, self.all(b, a + b > 0))"
        found = compiled(text)
        (cause,) = found.evaluate({"spec": {"l": [1] * 1_000}})
        why = f"'{EXCEEDED}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
        assert str(cause) == f'spec.l: Invalid value: "array": {why}'

    def test_so_do_many_that_each_cost_little_and_others_are_served_meanwhile(self) -> None:
        found: list[Cause] = []
        rules = compiled(*(f"self.all(a, self.all(b, a + b > {-number}))" for number in range(100)))
        pauses = sum(1 for _ in rules.walk(found, {"spec": {"l": [1] * 100}}))
        assert [str(cause).partition("due to ")[2] for cause in found] == [
            "running out of cost budget, no further validation rules will be run"
        ]
        assert pauses >= BUDGET // (2 * PER_RULE)


class TestPolicies:
    @pytest.mark.parametrize("fails", [True, False])
    def test_what_costs_too_much_is_what_the_failure_policy_says(self, fails: bool) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
        spec = {
            "failurePolicy": "Fail" if fails else "Ignore",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": EXPENSIVE["loops in loops"]}],
        }
        policies, bindings = VALIDATING_ADMISSION_POLICY, VALIDATING_ADMISSION_POLICY_BINDING
        bound_to = {"policyName": "p", "validationActions": ["Deny"]}

        async def scenario(client: InProcessClient) -> None:
            await client.create(policies.untyped(), {**policies.type_meta, "metadata": {"name": "p"}, "spec": spec})
            await client.create(bindings.untyped(), {**bindings.type_meta, "metadata": {"name": "p"}, "spec": bound_to})
            made = {**CONFIG_MAP.type_meta, "metadata": {"name": "m", "namespace": "default"}}
            if not fails:
                await client.create(CONFIG_MAP.untyped(), made, "default")
                return
            with pytest.raises(ApiError, match=f"resulted in error: {EXCEEDED}"):
                await client.create(CONFIG_MAP.untyped(), made, "default")

        on_a_hub(scenario)


class TestWorks:
    @pytest.mark.parametrize("text", EXPENSIVE.values(), ids=EXPENSIVE)
    def test_a_condition_rule_that_costs_too_much_is_an_error_in_the_status(self, text: str) -> None:
        rules = [rule("Good", "true"), rule("Bad", text)]
        with bounded():
            status = report(work(config(rules)), [done(web(5))], minutes(0))
        found = {each.type: each for each in status.resource_status.manifests[0].conditions}
        assert found["Good"].status == "True"
        assert (found["Bad"].status, found["Bad"].reason, found["Bad"].message) == ("False", EXPRESSION_ERROR, EXCEEDED)

    def test_many_works_of_rules_have_one_budget(self) -> None:
        rules = [rule(f"C{number}", f"[{number}, {number}].all(a, a >= 0)") for number in range(1_000)]
        with bounded():
            status = report(work(config(rules)), [done(web(5))], minutes(0))
        found = [each for each in status.resource_status.manifests[0].conditions if each.type.startswith("C")]
        assert len(found) == 1_000
        assert {each.message for each in found if each.status == "False"} == {EXCEEDED}
        assert 10 < sum(each.status == "True" for each in found) < 900

    def test_feedback_that_costs_too_much_is_an_error_and_the_rest_is_told(self) -> None:
        obj = {**web(5), "list": [{"a": [{"b": 1}] * 100}] * 1_000}
        paths = [JsonPath(name="ready", path=".status.readyReplicas")]
        paths += [JsonPath(name=f"n{number}", path=f".list[?(@.a[?(@.b=={number})])]") for number in range(5_000)]
        options = config()
        options.feedback_rules[:] = [FeedbackRule(type="JSONPaths", json_paths=paths)]
        with bounded():
            status = report(work(options), [done(obj)], minutes(0))
        manifest = status.resource_status.manifests[0]
        assert [each.name for each in manifest.status_feedback.values] == ["ready"]
        (synced,) = (each for each in manifest.conditions if each.type == "StatusFeedbackSynced")
        assert synced.message.endswith("reading n0 and what comes after it costs too much")

    @pytest.mark.parametrize(
        "paths",
        [
            {"jq_path_expressions": ["(" * 500 + ".a" + ")" * 500]},
            {"jq_path_expressions": ["select(" * 140 + ".a"]},
            {"jq_path_expressions": [".spec.list[]" + ' | select(.[][] == "x")' * 20] * 500},
            {"jq_path_expressions": [".spec.list" + "|.[]" * 4] * 5},
            {"json_paths": [".spec.list[*][*][*][*].name"] * 5},
        ],
        ids=["brackets", "selects", "comparisons", "pipes", "stars"],
    )
    def test_ignored_fields_that_cost_too_much_are_an_error(self, paths: dict[str, Any]) -> None:
        nested: Any = ["x"] * 50
        for _ in range(3):
            nested = [nested] * 20
        with bounded(), pytest.raises(IgnoreFieldError):
            server_side_apply(wanted({"list": nested}), ignoring(**paths), live())

    def test_taking_out_all_of_a_long_list_is_one_walk(self) -> None:
        spec = {"list": [{"v": number} for number in range(15_000)]}
        with bounded():
            (apply,) = server_side_apply(wanted(spec), ignoring(jq_path_expressions=[".spec.list[]"]), live())
        assert apply.body["spec"]["list"] == []  # type: ignore[union-attr] # it is an Apply


def rule(condition: str, expression: str) -> ConditionRule:
    return ConditionRule(condition=condition, type="CEL", cel_expressions=[expression])


class Counted(dict[str, str]):
    """Labels that count how often they are looked at."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)


class TestSelectors:
    @pytest.mark.parametrize("term", ["!k{0}", "k{0}!=v", "k!=v{0}", "k>{0}", "a notin (v{0})"])
    def test_thousands_of_terms_look_at_an_object_a_few_times(self, term: str) -> None:
        selector = labels.parse(",".join(term.format(number) for number in range(4_000)))
        has = Counted(a="b", k="5000", z="1")
        assert selector.matches(has)
        assert has.looks < 20

    def test_thousands_of_values_take_no_longer_than_one(self) -> None:
        selector = labels.parse(f"a in ({','.join(f'v{number}' for number in range(4_000))})")
        with bounded():
            for _ in range(10_000):
                assert selector.matches({"a": "v3999"})

    @pytest.mark.parametrize("term", ["metadata.name!=a{0}", "status.phase!=b{0}", "metadata.name!=c"])
    def test_thousands_of_field_terms_look_each_field_up_once(self, term: str) -> None:
        selector = labels.parse_fields(",".join(term.format(number) for number in range(4_000)))
        asked: list[str] = []

        def lookup(field: str) -> str:
            asked.append(field)
            return "x"

        assert selector.matches(lookup)
        assert len(asked) == 1
        assert not labels.parse_fields(",".join([*["a!=b"] * 20, "a=c"])).matches(lookup)


LONG = MEBIBYTE


class TestTexts:
    """The most expensive megabyte for what reads numbers, times, durations and names."""

    def test_durations(self) -> None:
        with bounded():
            for text in ("0" * LONG, "1" * LONG + "!", "1 " * (LONG // 2), "1h" * (LONG // 2) + "!"):
                is_duration(text)
            with pytest.raises(durations.NotADuration):
                durations.parse("9" * LONG + "h")

    def test_quantities(self) -> None:
        with bounded():
            for text in ("9" * LONG, "1e999999999", "0." + "0" * LONG + "1", "1" * LONG + "!"):
                with pytest.raises(QuantityError):
                    parse_quantity(text)

    def test_numbers_and_percentages(self) -> None:
        with bounded():
            for text in ("9" * LONG, "9" * LONG + "%", "9" * LONG + "!", "-" * LONG):
                with pytest.raises(NotIntOrPercent):
                    resolve(text, 100, Rounding.UP)
            assert resolve("1e300%", 100, Rounding.UP_IN_FLOATS) > 0

    def test_names_with_stars(self) -> None:
        with bounded():
            assert not _like("*a" * 50_000 + "*b", "a" * 253)
            assert not Globs.of(["*a" * 2_000 + "*b"] * 200).matches("a" * 253)
            assert _like("a*b**c", "aXbYc")


def test_a_cluster_costs_at_most_a_part_of_a_slice() -> None:
    from echelon.controllers.placement.reconciler import SLICE  # noqa: PLC0415 - what two packages have to agree on

    assert 2 * PER_CLUSTER <= SLICE


def test_the_hub_refuses_an_object_in_the_words_of_kubernetes() -> None:
    async def scenario(client: InProcessClient) -> None:
        await client.create(CUSTOM_RESOURCE_DEFINITION.untyped(), definition("self.all(a, self.all(b, a + b > 0))"))
        await client.create(HEAVY, heavy(10))
        with pytest.raises(Invalid, match="call cost exceeds limit for rule"):
            await client.create(HEAVY, {**heavy(1_000), "metadata": {"name": "other"}})

    on_a_hub(scenario)
