"""Agents of others are believed when they have reported on everything that a write changed for them, and not before."""

from hypothesis import given
from hypothesis import strategies as st

from echelon.api.base import JSONObject
from echelon.engine.policy.later_reports import read_events, reports_to_outlast, verdict_of_reports
from echelon.engine.rollout.model import Phase
from tests.controllers.policy_world import template

NAMES = ("one", "two", "three")
versions = st.fixed_dictionaries({name: st.sampled_from("12") for name in NAMES})
own = st.fixed_dictionaries({name: st.sampled_from(["inform", "enforce", "informonly"]) for name in NAMES})
actions = st.sampled_from(["inform", "enforce", ""])
Content = tuple[str, dict[str, str], dict[str, str]]  # the action, and version and own action of each template
contents = st.tuples(actions, versions, own)


def spec(action: str, versions: dict[str, str], own: dict[str, str]) -> JSONObject:
    found: JSONObject = {
        "policy-templates": [template(versions[name], name, remediationAction=own[name]) for name in NAMES]
    }
    return {**found, "remediationAction": action} if action else found


def acts(action: str, own: str) -> str:
    return own if own == "informonly" or not action else action


class Agent:
    """An agent that reports on an object whenever it becomes another one."""

    def __init__(self) -> None:
        self.has: dict[str, tuple[str, str]] = {}
        self.reports: dict[str, str] = {}
        self.number = 0

    def differs(self, action: str, versions: dict[str, str], own: dict[str, str]) -> dict[str, tuple[str, str]]:
        wanted = {name: (versions[name] + own[name], acts(action, own[name])) for name in NAMES}
        return {name: found for name, found in wanted.items() if self.has.get(name) != found}

    def sees(self, action: str, versions: dict[str, str], own: dict[str, str]) -> None:
        for name, wanted in self.differs(action, versions, own).items():
            self.number += 1
            self.has[name], self.reports[name] = wanted, f"{name}.{self.number}"


@given(contents, st.lists(st.tuples(contents, st.booleans()), max_size=3), contents)
def test_an_agent_that_saw_the_write_is_believed_and_one_that_did_not_is_not(
    before: Content, holds: list[tuple[Content, bool]], after: Content
) -> None:
    """The contents that it is to look at come one after the other, and it sees some of them."""
    agent = Agent()
    agent.sees(*before)
    old, new, noted = spec(*before), spec(*after), ""
    missed: set[str] = set()  # templates that were others for a while, which it has not seen
    if holds:
        holds = [*holds, (after, holds[-1][1])]
    for (_, *content), sees_it in holds:
        held = spec("inform", *content)
        noted = reports_to_outlast(old, held, dict(agent.reports), noted, held=True)
        if sees_it:
            missed -= agent.differs("inform", *content).keys()
            agent.sees("inform", *content)
        else:
            missed |= agent.differs("inform", *content).keys()
        old = held
    noted = reports_to_outlast(old, new, dict(agent.reports), noted, held=False)
    unseen = verdict_of_reports(new, dict(agent.reports), "Compliant", noted)
    had = dict(agent.has)
    missed -= agent.differs(*after).keys()
    agent.sees(*after)
    # What came and went without its having seen that is waited for in vain, until the deadline; never the other way.
    if all(content[1:] == after[1:] for content, _ in holds) or not missed:
        assert verdict_of_reports(new, dict(agent.reports), "Compliant", noted) is Phase.SUCCEEDED
    changed = [name for name in NAMES if had[name][0] != agent.has[name][0]]
    if changed or (had != agent.has and not holds):
        assert unseen is Phase.PROGRESSING


@given(contents, st.sampled_from(["Compliant", "NonCompliant", "Pending", ""]))
def test_the_verdict_is_the_state_and_what_is_not_enforced_has_succeeded_when_it_was_looked_at(
    content: Content, compliant: str
) -> None:
    found = verdict_of_reports(spec(*content), dict.fromkeys(NAMES, "x.1"), compliant, "")
    enforced = any(acts(content[0], content[2][name]) == "enforce" for name in NAMES)
    if not compliant:
        expected = Phase.PROGRESSING
    elif not enforced or compliant == "Compliant":
        expected = Phase.SUCCEEDED
    else:
        expected = Phase.FAILED if compliant == "NonCompliant" else Phase.PROGRESSING
    assert found is expected


@given(st.sets(st.sampled_from(NAMES), max_size=2))
def test_a_template_without_a_report_is_waited_for(reported: set[str]) -> None:
    wanted = spec("enforce", dict.fromkeys(NAMES, "1"), dict.fromkeys(NAMES, "inform"))
    assert verdict_of_reports(wanted, dict.fromkeys(reported, "x.1"), "Compliant", "") is Phase.PROGRESSING


@given(st.text())
def test_a_note_that_cannot_be_read_says_nothing(text: str) -> None:
    assert isinstance(read_events(text), dict)
