"""A placement controller that is killed, starved and lied to: no cluster that stays selected is ever missing.

One life proves little, so there are thousands, of a tenth of a second each. They are dealt out in portions, for the
processors to share.
"""

import pytest

from echelon.fleet.simulation import seeds
from tests.controllers.placement_world import live

LIVES = 2000
PORTION = 50


@pytest.mark.parametrize("first", seeds(LIVES)[::PORTION])
def test_nobody_vanishes_whatever_goes_wrong(first: int) -> None:
    commits = [live(seed).commits for seed in seeds(PORTION, first)]
    assert min(commits) > 60
