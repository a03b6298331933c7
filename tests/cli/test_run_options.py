"""Options of `echelon run` that say something impossible are refused before anything starts."""

import pytest
from click.testing import CliRunner

from echelon.cli import main


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-removals", "0", 'it is "0": it must be a number of clusters from 1, or a percentage from 1% to 100%'),
        ("--max-removals", "half", 'it is "half": it must be a number of clusters from 1'),
        ("--removal-grace", "-1", "-1.0 is not in the range x>=0"),
    ],
)
def test_a_value_that_means_nothing_is_named_with_its_rule(option: str, value: str, said: str) -> None:
    done = CliRunner().invoke(main, ["run", option, value])
    assert done.exit_code == 2
    assert option in done.output
    assert said in " ".join(done.output.split())
