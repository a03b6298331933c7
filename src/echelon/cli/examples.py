"""Where the examples are: beside a person in the repository, and otherwise in what was installed."""

from importlib.resources import files
from pathlib import Path


def example(name: str) -> Path:
    """Return the path of an example as a person would type it, from wherever the program was started."""
    nearby = Path("examples") / name
    return nearby if nearby.is_file() else Path(str(files("echelon"))) / "examples" / name
