"""Cost of starting a command in the sandbox: `python benchmarks/confine.py [RUNS]`."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from pattern_acp.processes.confinement import Confinement, Profile


def main() -> None:
    """Print the median of each way to start `true`."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        confinement = Confinement(Path(folder))
        print(anyio.run(confinement.find))
        ways = {"bare": None, "supervised": Profile(confines=False), "confined": Profile(writable=(folder,))}
        for name, profile in ways.items():
            times: list[float] = []
            for _ in range(runs):
                words = ("/bin/true",)
                began = time.perf_counter()
                if profile is not None:
                    words = confinement.prepare(profile, words, in_group=True).arguments
                subprocess.run(words, check=True)
                times.append((time.perf_counter() - began) * 1000)
            print(f"{name}: {statistics.median(times):.1f} ms, p95 {sorted(times)[int(runs * 0.95)]:.1f} ms")


if __name__ == "__main__":
    main()
