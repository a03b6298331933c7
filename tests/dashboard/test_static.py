"""The files of the page: nothing from elsewhere, nothing inline, and no way for text to become markup."""

import re
from pathlib import Path

import echelon.dashboard

FILES = sorted((Path(echelon.dashboard.__file__).parent / "static").iterdir())
_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|"
    r"\beval\b|new Function|setHTML|javascript:|setTimeout\(\s*[\"'`]"
)


def test_scripts_have_no_way_to_turn_text_into_markup_or_code() -> None:
    found = {each.name: _MARKUP.findall(each.read_text()) for each in FILES if each.suffix == ".js"}
    assert len(found) > 10
    assert {name: words for name, words in found.items() if words} == {}


def test_nothing_comes_from_another_server() -> None:
    for each in FILES:
        addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w./-]*", each.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, each.name


def test_the_page_has_no_inline_script_or_style() -> None:
    (page,) = [each.read_text() for each in FILES if each.suffix == ".html"]
    assert re.findall(r"<script[^>]*>", page) == ['<script type="module" src="/static/main.js">']
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


def test_every_module_that_is_imported_is_there() -> None:
    names = {each.name for each in FILES}
    for each in FILES:
        for imported in re.findall(r'from "\./([\w.]+)"', each.read_text()):
            assert imported in names, f"{each.name} imports {imported}"


def test_text_can_be_read_on_whatever_is_behind_it_by_day_and_by_night() -> None:
    """At least 4.5 to 1 for text and 3 to 1 for the edge of what can be typed into, as WCAG 2.2 asks."""
    (css,) = [each.read_text() for each in FILES if each.suffix == ".css"]
    blocks = re.findall(r":root[^{]*\{([^}]*--paper[^}]*)\}", css)
    assert len(blocks) == 3  # light, dark as the system says, dark as somebody says
    palettes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", each)) for each in blocks]
    assert palettes[1] == palettes[2]
    for palette in palettes:
        for text in ("ink", "soft", "faint", "accent", "good", "busy", "bad", "warn"):
            for behind in ("paper", "ground", "shade"):
                assert _contrast(palette[text], palette[behind]) >= 4.5, (text, behind)
        for behind in ("accent", "bad"):  # of buttons
            assert _contrast(palette["paper"], palette[behind]) >= 4.5, behind
        for behind in ("paper", "ground"):
            assert _contrast(palette["edge"], palette[behind]) >= 3, behind


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
