"""Random walks over the real process, longer and with other seeds than the suite's.

    python benchmarks/walk.py --seed 7 --steps 300
    python benchmarks/walk.py --seed 100 --walks 20 --steps 200

It prints every step, what it found, and ends with 1 when it found something. Timing is the machine's, so that a seed
repeats the steps but not always their interleaving.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.walk import Walk


def tell(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--walks", type=int, default=1, help="how many walks, each with the next seed")
    parser.add_argument("--keep", type=Path, help="a folder in which each walk's files stay")
    options = parser.parse_args()
    found = 0
    for seed in range(options.seed, options.seed + options.walks):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name) if options.keep is None else options.keep / str(seed)
            folder.mkdir(parents=True, exist_ok=True)
            walk = Walk(seed, folder, tell=tell)
            walk.run(options.steps)
        found += len(walk.judge.findings)
        print(f"seed {seed}: {len(walk.judge.steps)} steps, {len(walk.judge.findings)} findings", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
