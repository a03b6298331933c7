"""What one stranger sends to stop the hub for everybody: it costs what its size says, and is answered.

Every attack is large enough that a cost that grows with the square of it would take hours, so the patience of the
client tells the two apart on any machine.
"""

import base64
import json
from collections.abc import Iterator

import pytest

from tests.hub.api import APPLY_PATCH, JSON_PATCH, Api, config_map
from tests.hub.conftest import HubProcess

pytestmark = pytest.mark.full

YAML = "application/yaml"
BODY_BYTES = 3 << 20  # as much as is read at all
ADDRESS_BYTES = 60_000
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
REVIEW = "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\n"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A hub of its own: should an attack succeed, others are spared. At the end it obeys the signal to stop."""
    running = HubProcess(tmp_path_factory.mktemp("attacked"), ["--memory"])
    running.start()
    try:
        yield Api.of(running.kubeconfig)
        assert running.stop() == 0, running.log()
        assert "Traceback" not in running.log(), running.log()
    finally:
        running.kill()


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", ["-1", "-9223372036854775808"])
@pytest.mark.parametrize("how", [{}, {"resourceVersion": "0"}, {"allowWatchBookmarks": "true"}], ids=str)
def test_a_watch_whose_time_is_over_before_it_begins_ends_at_once(
    attacked: Api, seconds: str, how: dict[str, str]
) -> None:
    with attacked.watch(MAPS, timeoutSeconds=seconds, **how) as events:
        assert list(events) == []
    assert attacked("GET", "/healthz").data == b"ok"


def test_a_watch_may_ask_for_more_time_than_there_is(attacked: Api) -> None:
    with attacked.watch(MAPS, timeoutSeconds=str(2**63 - 1)) as events:
        attacked.ok("POST", MAPS, config_map("seen"))
        assert next(event for event in events if event["object"]["metadata"]["name"] == "seen")["type"] == "ADDED"


NUMBERS = ["-1", "-9223372036854775808", "9223372036854775807", "253402300800", "0"]
NO_NUMBERS = ["NaN", "inf", "1e3", "0x10", "1.5", "9223372036854775808", "1_000", "١", "9" * 5000]  # noqa: RUF001


@pytest.mark.parametrize("number", NUMBERS)
def test_a_grace_period_of_any_number_is_understood(attacked: Api, number: str) -> None:
    """In the address, in the body and as the pod itself has it; by whatever Kubernetes counts, the pod ends."""
    pods = "/api/v1/namespaces/default/pods"
    for query, body in (
        ({"gracePeriodSeconds": number}, None),
        ({}, {"gracePeriodSeconds": int(number)}),
        ({}, None),
    ):
        spec: dict[str, object] = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        if not query and not body and int(number) >= 0:
            spec["terminationGracePeriodSeconds"] = int(number)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        attacked.ok("POST", pods, pod)
        attacked.ok("DELETE", f"{pods}/p", body, **query)
        assert attacked("DELETE", f"{pods}/p", gracePeriodSeconds="0").status in (200, 404)
        assert attacked("GET", f"{pods}/p").status == 404


@pytest.mark.parametrize("number", [number for number in NUMBERS if number != "0"])
def test_a_limit_of_any_number_is_understood(attacked: Api, number: str) -> None:
    found = attacked.ok("GET", "/api/v1/namespaces", limit=number)
    assert found["items"][0]["metadata"]["name"] == "default"
    assert len(attacked.ok("GET", "/api/v1/namespaces", limit=number, labelSelector="x!=y")["items"]) >= 4


@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:12])
@pytest.mark.parametrize("name", ["limit", "timeoutSeconds", "resourceVersion", "gracePeriodSeconds"])
def test_what_is_no_number_is_refused(attacked: Api, name: str, text: str) -> None:
    method, path = ("DELETE", f"{MAPS}/none") if name == "gracePeriodSeconds" else ("GET", MAPS)
    answer = attacked(method, path, **{name: text})
    if name == "resourceVersion" and text == "9223372036854775808":  # versions have no sign, and one bit more
        assert (answer.status, answer.reason) == (504, "Timeout")
    else:
        assert (answer.status, answer.reason) == (400, "BadRequest")


# --- bodies ----------------------------------------------------------------------------------------------------------

MANY_LISTS = '{"data":[' + "[]," * 101  # more brackets than levels: they have to be told from those in strings


def filled(start: str, part: str, end: str = "") -> str:
    """Return a body that has as many parts as fit."""
    return start + part * ((BODY_BYTES - len(start) - len(end)) // len(part)) + end


LONG_KEY = "k" * (BODY_BYTES // 2)

BODIES = {
    "a string of escaped quotes that never ends": (filled(MANY_LISTS + '"', '\\"'), "application/json"),
    "a string that ends within an escape": (filled(MANY_LISTS + '"', '\\"', "\\"), "application/json"),
    "strings that end where others begin": (filled(MANY_LISTS, '"\\'), "application/json"),
    "keys twice below a long key": (filled('{"' + LONG_KEY + '":{', '"a":1,', '"a":1}}'), "application/json"),
    "many keys below a long key": (filled('{"a":1,"a":1,"' + LONG_KEY + '":[', "1,", "1]}"), "application/json"),
    "keys twice below a long key, in YAML": (filled('? "' + LONG_KEY + '"\n: {', "a: 1,", "}"), YAML),
    "many items below a long key, in YAML": (filled('? "' + LONG_KEY + '"\n: [', "1,", "]"), YAML),
    "a number longer than any, in YAML": ("a: " + "9" * 400, YAML),
    "directives": ("".join(f"%TAG !a{number}! b\n" for number in range(150_000)) + "---\na: b\n", YAML),
    "empty merges after a large one": (
        filled("a: &a {" + ",".join(f"k{number}: 1" for number in range(40_000)) + "}\nb: {<<: *a,", "<<: {},", "}"),
        YAML,
    ),
    "a value a byte": (filled("a: [", "1,", "]"), YAML),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_body_costs_what_its_size_says(attacked: Api, name: str) -> None:
    body, media = BODIES[name]
    assert attacked("POST", MAPS, body, media, fieldValidation="Strict").reason == "BadRequest"
    assert attacked("GET", "/healthz").data == b"ok"


def test_what_aliases_stand_for_counts_as_if_it_were_written_out(attacked: Api) -> None:
    """A text of 64 KiB that is named a thousand times is 64 MiB in every answer, log line and copy."""
    text, times = "x" * (64 << 10), 1000
    twice = f"a: &a {text}\n{REVIEW}spec: {{resourceAttributes: {{verb: *a, group: *a}}}}\n"
    assert attacked("POST", REVIEWS, twice, YAML).status == 201
    for body, path in (
        (f"a: &a {text}\n{REVIEW}metadata: {{managedFields: [{'{manager: *a},' * times}]}}\nspec: {{}}\n", REVIEWS),
        (f"a: &a {text}\n{REVIEW}b: {{{''.join(f'? [*a] : {n},' for n in range(times))}}}\n", REVIEWS),
        (f"a: &a {{{text}: 1}}\n{REVIEW}spec: {{b: [{'*a,' * times}]}}\n", REVIEWS),
        (f"a: &a [{text}]\nb: &b [{'*a,' * 32}]\n{REVIEW}spec: {{b: [{'*b,' * 32}]}}\n", REVIEWS),
        (f"a: &a {text}\nspec: {{token: t, audiences: [{'*a,' * times}]}}\n", TOKEN_REVIEWS),
        (f"a: &a {text}\ndata: {{{''.join(f'k{n}: *a,' for n in range(times))}}}\n", MAPS),
    ):
        answer = attacked("POST", path, body, YAML)
        assert (answer.status, answer.reason) == (400, "BadRequest")
        assert len(answer.data) < 1000
    answer = attacked("PATCH", f"{MAPS}/new", f"a: &a {text}\ndata: [{'*a,' * times}]\n", APPLY_PATCH, fieldManager="m")
    assert "document contains excessive aliasing" in answer.message


def test_a_review_answers_with_the_question_and_nothing_else(attacked: Api) -> None:
    asked = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    managed = [{"manager": "x" * 1000, "fieldsV1": {"f:a": {"f:b" * 1000: {}}}}]
    body = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": asked}
    noise = {"metadata": {"managedFields": managed}, "more": ["x"] * 1000, "status": {"reason": "x" * 1000}}
    answer = attacked.ok("POST", REVIEWS, {**body, **noise})
    assert answer == {**body, "metadata": {}, "status": {**answer["status"], "allowed": True}}
    assert "x" not in answer["status"].get("reason", "")


# --- refusals --------------------------------------------------------------------------------------------------------


def owners(count: int) -> list[dict[str, object]]:
    return [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": True}] * count


WRONG: dict[str, dict[str, object]] = {
    "labels": {"labels": {f"-{number}": "-" for number in range(80_000)}},
    "annotations": {"annotations": {f"-{number}": "" for number in range(80_000)}},
    "finalizers": {"finalizers": [f"-{number}" for number in range(100_000)]},
    "owners": {"ownerReferences": owners(18_000)},
    "owners without a name": {"ownerReferences": [{"apiVersion": "v1"}] * 60_000},
    "types": {"finalizers": list(range(300_000))},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_refusal_is_about_as_long_as_what_is_refused(attacked: Api, name: str) -> None:
    body = json.dumps({**config_map("wrong"), "metadata": {"name": "wrong", **WRONG[name]}})
    answer = attacked("POST", MAPS, body)
    assert answer.status in (400, 422)
    assert len(answer.data) <= 4 * len(body)  # a mistake is told twice, and quotes are escaped


def test_of_many_mistakes_a_hundred_are_told_and_the_others_counted(attacked: Api) -> None:
    wrong = config_map("wrong") | {"metadata": {"name": "wrong", "finalizers": [f"-{n}" for n in range(250)]}}
    answer = attacked("POST", MAPS, wrong)
    assert (answer.status, len(answer.fields)) == (422, 100)
    assert answer.message.endswith(" and more]")


# --- what others see --------------------------------------------------------------------------------------------------


def test_a_date_that_is_none_shows_as_such_in_everybodys_table(attacked: Api) -> None:
    schema = {"type": "object", "properties": {"when": {"type": "string"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version["additionalPrinterColumns"] = [{"name": "When", "type": "date", "jsonPath": ".when"}]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "dates.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "dates", "singular": "date", "kind": "Date", "listKind": "DateList"},
            "versions": [version],
        },
    }
    attacked.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    dates = {"bare": "2020-01-01T00:00:00", "day": "2020-01-01", "none": "soon", "early": "0001-01-01T00:00:00+23:59"}
    for name, when in dates.items():
        body = {"apiVersion": "example.com/v1", "kind": "Date", "metadata": {"name": name}, "when": when}
        attacked.ok("POST", "/apis/example.com/v1/dates", body)
    table = attacked.with_headers(Accept="application/json;as=Table;v=v1;g=meta.k8s.io").ok(
        "GET", "/apis/example.com/v1/dates"
    )
    cells = {row["cells"][0]: row["cells"][1] for row in table["rows"]}
    assert {name for name, cell in cells.items() if cell == "<invalid>"} == {"bare", "day", "none"}


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def things(attacked: Api) -> str:
    """Address of a kind with a map of objects, in which names are whatever somebody writes."""
    rule = {"rule": "self.x < 10", "message": "x is too large"}
    numbers = {"type": "array", "items": {"type": "integer"}}
    unique = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    one = {"type": "object", "properties": {"x": {"type": "integer"}, "numbers": numbers, "unique": unique}}
    some = {"type": "object", "additionalProperties": one}
    ruled = {"type": "array", "items": {**one, "x-kubernetes-validations": [rule]}}
    checked = {"type": "object", "additionalProperties": ruled}
    schema = {"type": "object", "properties": {"some": some, "checked": checked}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    attacked.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    return "/apis/example.com/v1/things"


HALF = BODY_BYTES // 2 - 1000
BELOW: dict[str, dict[str, object]] = {
    "unknown fields": {"some": {"k" * HALF: {f"u{number}": 1 for number in range(120_000)}}},
    "values of the wrong type": {"some": {"k" * HALF: {"numbers": ["x"] * 300_000}}},
    "values twice": {"some": {"k" * HALF: {"unique": [str(n // 2) for n in range(120_000)]}}},
    "broken rules": {"checked": {"k" * HALF: [{"x": 11}] * 15_000}},
}


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
@pytest.mark.parametrize("name", BELOW)
def test_a_long_name_costs_nothing_more_for_what_is_below_it(
    attacked: Api, things: str, name: str, validation: str
) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **BELOW[name]}
    answer = attacked("POST", things, body, fieldValidation=validation)
    assert answer.status in (201, 400, 413, 422)
    assert len(answer.data) < 2 * BODY_BYTES
    attacked("DELETE", f"{things}/t")
    answer = attacked("PATCH", f"{things}/t", body, APPLY_PATCH, fieldManager="m", fieldValidation=validation)
    assert answer.status in (201, 400, 413, 422)
    assert len(answer.data) < 2 * BODY_BYTES
    attacked("DELETE", f"{things}/t")


def test_a_patch_that_moves_a_long_list_again_and_again_is_refused(attacked: Api) -> None:
    moves = ['{"op":"move","from":"/x/0","path":"/x/0"}'] * 9999
    values = ",".join("1" for _ in range((BODY_BYTES - len(moves) * 45) // 2))
    patch = f'[{{"op":"add","path":"/x","value":[{values}]}},{",".join(moves)}]'
    attacked.ok("POST", MAPS, config_map("moved"))
    assert attacked("PATCH", f"{MAPS}/moved", patch, JSON_PATCH).status == 422


def test_a_continue_token_of_a_revision_that_no_server_has_is_none(attacked: Api) -> None:
    for revision in ("9" * 4000, str(2**63), "-1", "1.5"):
        token = f'{{"v":"meta.k8s.io/v1","rv":{revision},"start":"a/b"}}'
        answer = attacked("GET", MAPS, **{"continue": base64.urlsafe_b64encode(token.encode()).decode()})
        assert (answer.status, "continue key is not valid" in answer.message) == (400, True)
