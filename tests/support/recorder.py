"""Stands between a client that we did not write and the agent, and keeps what each wrote.

`python -m tests.support.recorder FOLDER COMMAND…` runs the command, passes its standard streams on, and writes a
file of JSON lines into FOLDER for each run: `{"from": "client" or "agent", "line": "…"}`, in the order in which the
lines were passed on.

Owns: passing on and keeping. Must not know: what the lines mean. It imports little, since clients wait for it.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

USAGE = "usage: python -m tests.support.recorder FOLDER COMMAND…"


class Recording:
    """The file of one run. Both directions write to it, each line before it is passed on."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lock = threading.Lock()

    def keep(self, side: str, line: bytes) -> None:
        """Write one line down."""
        with self._lock:
            self._file.write(json.dumps({"from": side, "line": line.decode("utf-8", "surrogateescape")}) + "\n")
            self._file.flush()


def run(folder: Path, command: Sequence[str]) -> int:
    """Run `command` between our own streams; its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / f"{os.getpid()}.jsonl").open("w", encoding="utf-8") as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        recording = Recording(file)
        if process.stdin is None or process.stdout is None:
            return 1
        incoming = (recording, "client", sys.stdin.buffer, process.stdin)
        threading.Thread(target=_pass_on, args=incoming, daemon=True).start()
        _pass_on(recording, "agent", process.stdout, sys.stdout.buffer)
        return process.wait()


def _pass_on(recording: Recording, side: str, source: IO[bytes], target: IO[bytes]) -> None:
    try:
        for line in source:
            recording.keep(side, line)
            target.write(line)
            target.flush()
        target.close()
    except (OSError, ValueError):
        # Whoever reads there is gone; the other direction ends by itself.
        return


def main() -> int:
    """Run the command line; the exit code."""
    if len(sys.argv) < 3:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    return run(Path(sys.argv[1]), sys.argv[2:])


if __name__ == "__main__":
    # The thread that reads our stdin may sit in a read that never returns.
    code = main()
    sys.stderr.flush()
    os._exit(code)
