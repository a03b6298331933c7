"""Write what is made from `echelon.install`: the Helm charts below `charts`."""

import shutil
import sys
from pathlib import Path

from echelon.install.agent import MEMBER
from echelon.install.hub import HUB

CHARTS = Path(__file__).resolve().parents[1] / "charts"


def main(directory: Path = CHARTS) -> int:
    """Write all charts anew."""
    for installation in (HUB, MEMBER):
        place = directory / installation.name
        shutil.rmtree(place, ignore_errors=True)
        for path, text in installation.chart().items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
