"""`python -m tests.engine.pod_clique.fuzz --runs 5000 --seed 0`: many whole lives of sets, and what went wrong."""

import argparse
import sys
import time
from collections import Counter

from tests.engine.pod_clique.lives import live


def main() -> int:
    """Live lives and print those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, counts, failed = time.monotonic(), Counter[str](), 0
    for seed in range(options.seed, options.seed + options.runs):
        life = live(seed)
        counts += life.counts
        if life.faults:
            failed += 1
            print(f"seed {seed}: {life.faults[0]}  ({len(life.faults)} in all)", flush=True)
    counts["lives"], counts["failed"] = options.runs, failed
    print(", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())))
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
