"""A rollout as a file for a chat or a ticket: whatever others have written in it is text."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from echelon.engine.placement.decisions import GroupKey
from echelon.rollouts.picture import DONE, FAILED, MOVING, ClusterLine, GroupLine, Line, ObjectLine, Picture
from echelon.rollouts.sharing import html, svg

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
HOSTILE = "</text><script>alert(1)</script> & \"quoted\" 'text' \x1b[2J \u202e ]]>"
_OURS = {"svg", "title", "rect", "text"}
_OF_PAGES = {"html", "head", "meta", "style", "body", "h1", "h2", "p", "ul", "li", "b", "span"} | _OURS


def _picture(text: str) -> Picture:
    lines = (
        ClusterLine(text, FAILED, "3s", text, (ObjectLine(text, FAILED, text),)),
        ClusterLine("fine", DONE, "", ""),
        ClusterLine("busy", MOVING, "1s", text),
    )
    group = GroupLine(
        text, GroupKey(0, text), {FAILED: 1, DONE: 1, MOVING: 1}, active=True, message=text, clusters=lines
    )
    counts = {FAILED: 1, DONE: 1, MOVING: 1}
    parts = (Line(text, FAILED, text, text, (Line(text, DONE),)),)
    return Picture("ns", text, "r", 2, "1m", "stopped", text, counts, (group,), "policy", text, text, parts)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        assert not any(name.startswith("on") or (value or "").startswith("javascript") for name, value in attrs)


@given(st.text(max_size=60) | st.just(HOSTILE))
def test_what_others_wrote_is_text_in_a_picture_and_a_page(text: str) -> None:
    drawn, page = svg(_picture(text), NOW), html(_picture(text), NOW)
    tags = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(drawn).iter()}  # noqa: S314 - it is our own
    assert tags == _OURS
    parser = _Tags()
    parser.feed(page)
    assert parser.found <= _OF_PAGES
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", drawn + page)


def test_a_picture_tells_how_far_each_wave_is_and_who_failed() -> None:
    drawn = svg(_picture("canary"), NOW)
    texts = [each.text or "" for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("text")]  # noqa: S314
    assert "ns/canary" in texts
    assert "policy, revision 2, stopped, 2026-11-18 12:00:00Z" in texts
    assert "3 clusters: 1 done, 1 in flight, 1 failed" in texts
    assert "✕ canary: failed, canary" in texts
    assert texts[texts.index("canary (0)") + 1] == "1 done, 1 in flight, 1 failed"  # of the wave


def test_a_page_asks_nobody_for_anything() -> None:
    page = html(_picture("canary"), NOW)
    assert "default-src 'none'" in page
    assert set(re.findall(r"https?://[^\s\"<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_a_page_can_be_read_on_a_phone_and_by_night_and_says_nothing_twice() -> None:
    said = "Deployment shop/web: 1 of 3 updated"
    objects = (
        ObjectLine("Deployment shop/web", MOVING, "1 of 3 updated"),
        ObjectLine("Service shop/web", MOVING, "late"),
    )
    line = ClusterLine("c0", MOVING, "3s", said, objects)
    group = GroupLine("p", GroupKey(0, ""), {MOVING: 1}, active=True, message="", clusters=(line,))
    page = html(replace(_picture("canary"), groups=(group,)), NOW)
    assert '<meta name="viewport" content="width=device-width' in page
    assert "prefers-color-scheme:dark" in page
    assert page.count("1 of 3 updated") == 1
    assert "Service shop/web" in page
