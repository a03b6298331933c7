"""`from echelon.engine import align`: every name is there, the example runs, and importing it costs nothing."""

import doctest
import subprocess
import sys

from echelon.engine import align


def test_every_name_is_there() -> None:
    assert {name for name in align.__all__ if not hasattr(align, name)} == set()
    assert align.__all__ == sorted(align.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert not hasattr(align, "nothing_of_the_kind")


def test_the_example_runs() -> None:
    result = doctest.testmod(align)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_who_reads_a_ledger_loads_no_round() -> None:
    code = "import sys, echelon.engine.align.ledger; print('echelon.engine.align.round' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"
