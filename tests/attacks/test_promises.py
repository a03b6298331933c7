"""The page that says what is promised names the tests that show it, and all that are here."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
HERE = {path.name for path in Path(__file__).parent.glob("test_*.py")} - {Path(__file__).name}


def test_every_attack_is_on_the_page() -> None:
    assert {name for name in HERE if name not in PAGE} == set()


def test_whatever_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:tests/)?[\w/]*(?:test_\w+\.py|\w+\.tsv)|tests/\w+(?:/\w+)*)`", PAGE))
    assert len(named) > len(HERE)
    missing = {each for each in named if not (ROOT / each).exists() and each not in HERE}
    assert missing == set()


def test_no_attack_and_no_question_is_left_out() -> None:
    attacks, questions = (re.findall(r"^\| (\d+) \|", part, re.MULTILINE) for part in PAGE.split("What a review")[:2])
    assert attacks == [str(number) for number in range(1, 21)]
    assert questions == [str(number) for number in range(1, 19)]
