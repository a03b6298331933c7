"""`from echelon.engine import rollout`: every name is there, the example runs, and importing it costs nothing."""

import doctest
import subprocess
import sys

from echelon.engine import rollout


def test_every_name_is_there() -> None:
    assert {name for name in rollout.__all__ if not hasattr(rollout, name)} == set()
    assert rollout.__all__ == sorted(rollout.__all__)
    assert not hasattr(rollout, "nothing_of_the_kind")


def test_the_example_runs() -> None:
    result = doctest.testmod(rollout)
    assert (result.failed, result.attempted > 5) == (0, True)


def test_who_needs_a_duration_loads_no_walker() -> None:
    code = "import sys, echelon.engine.rollout.durations; print('echelon.engine.rollout.walk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "False\n"


def test_rollouts_know_nothing_of_works() -> None:
    code = (
        "import sys; from echelon.engine import rollout; [getattr(rollout, name) for name in rollout.__all__]; "
        "print([name for name in sys.modules if name.startswith(('echelon.engine.work', 'echelon.api.work'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
