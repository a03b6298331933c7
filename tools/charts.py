"""Write what is made from `echelon.install`: the Helm charts below `charts`, and the page of metrics."""

import shutil
import sys
from pathlib import Path

from echelon.install.agent import MEMBER
from echelon.install.hub import HUB
from echelon.install.metrics_page import page

ROOT = Path(__file__).resolve().parents[1]
CHARTS, PAGE = ROOT / "charts", ROOT / "docs" / "metrics.md"


def main() -> int:
    """Write all of it anew."""
    for installation in (HUB, MEMBER):
        place = CHARTS / installation.name
        shutil.rmtree(place, ignore_errors=True)
        for path, text in installation.chart().items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
