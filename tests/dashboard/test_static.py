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
