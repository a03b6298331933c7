"""Golden vectors: those of the repository, and those of a directory that `ECHELON_VECTORS` names, plain or gzip."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

OURS = Path(__file__).resolve().parents[1] / "vectors"


def files(name: str) -> list[Path]:
    more = os.environ.get("ECHELON_VECTORS")
    directories = [OURS, *([Path(more)] if more else [])]
    paths = [each / f"{name}.jsonl{suffix}" for each in directories for suffix in ("", ".gz")]
    return [path for path in paths if path.is_file()]


def lines(path: Path) -> Iterator[str]:
    text = path.read_bytes()
    plain = gzip.decompress(text) if path.suffix == ".gz" else text
    yield from (line for line in plain.decode().splitlines() if line.strip())
