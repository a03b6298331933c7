"""What whoever runs controllers tells them of removals and decisions: options of `echelon run`, and of foresight.

No hub tells what its controllers were told, so whoever asks what they will do says the same once more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from echelon.controllers.settings import ControllerSettings
    from echelon.engine.rollout.thresholds import Threshold

# Written down again, because help is to be quick, and whoever knows it imports every controller. A test compares.
REMOVAL_GRACE_SECONDS = 300.0


def _limit(_: click.Context, __: click.Parameter, value: str) -> "Threshold":
    from echelon.engine.rollout.removal import read_limit

    try:
        return read_limit(value)
    except ValueError as mistake:
        raise click.BadParameter(f'it is "{value}": {mistake}') from mistake


_OPTIONS = (
    click.option(
        "--trust-decisions",
        is_flag=True,
        help="Only controllers may write placement decisions on this hub: believe all, of clusters in no bound set "
        "too.",
    ),
    click.option(
        "--max-removals",
        default="100%",
        show_default=True,
        metavar="N|P%",
        callback=_limit,
        help="Clusters that may lose their content at once, where an object does not say otherwise.",
    ),
    click.option(
        "--removal-grace",
        type=click.FloatRange(min=0),
        default=REMOVAL_GRACE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="How long a cluster that is tainted unreachable or unavailable keeps its content.",
    ),
)


def removals_told(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command what controllers are told of removals and decisions."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def settings_of(*, trust_decisions: bool, max_removals: "Threshold", removal_grace: float) -> "ControllerSettings":
    """Return the settings that controllers have which were started with such options."""
    from datetime import timedelta

    from echelon.controllers.settings import ControllerSettings

    grace = timedelta(seconds=removal_grace)
    return ControllerSettings(trust_decisions=trust_decisions, max_removals=max_removals, removal_grace=grace)
