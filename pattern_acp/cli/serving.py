"""The way from the spawn to a served connection.

Owns: what happens in which order before the event loop runs. Must not know: what is served. An editor waits for the
answer to its first line, initialize. That one is sent with nothing but a JSON reader imported; the rest of the program
follows while the editor takes the answer in.
"""

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from pattern_acp.acp.initialize_response import answer_plainly
from pattern_acp.jsonrpc.stdio import claim_standard_streams, read_first, write_first

if TYPE_CHECKING:
    from pattern_acp.bootstrap.process import Process
    from pattern_acp.config.settings import Flags

SERVE_PLAINLY: tuple[list[str], ...] = ([], ["acp"], ["--acp"])
"""The command lines that editors send: they are known for what they are without a parser."""


_M_ARENA_MAX = -8
"""glibc's malloc.h."""


def run_serve(flags: "Flags | None" = None) -> int:
    """Serve ACP on the standard streams; the exit code. Without flags the settings are as they are."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the server listens for signals there is nothing to clean up, and a traceback would help nobody.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Modules stay to the end: to look through them for garbage, again and again while they come, finds nothing.
    gc.disable()
    read_fd, write_fd = claim_standard_streams()
    received = read_first(read_fd)
    answer = answer_plainly(received.partition(b"\n")[0]) if b"\n" in received else None
    if answer is not None:
        _end_on_signals()
    is_introduced = answer is not None and write_first(write_fd, answer)
    # Late, like all that follows: the first line is answered.
    from pattern_acp.config.code_bundle import use_bundle

    use_bundle()
    share_memory_of_threads()
    from pattern_acp.bootstrap.serve import serve
    from pattern_acp.config.settings import Flags

    process = start(flags or Flags(), stderr=True)
    gc.freeze()
    gc.enable()
    return serve(process, read_fd, write_fd, received, is_introduced=is_introduced)


def share_memory_of_threads() -> None:
    """Have all threads take memory from one heap, where the C library is glibc: from one each they free 4 MB for none.

    Python's own lock lets one thread work at a time anyway. A number of heaps that the user has set stays.
    """
    from pattern_acp.config.load import process_environment

    environment = process_environment()
    is_set = "MALLOC_ARENA_MAX" in environment or "arena_max" in environment.get("GLIBC_TUNABLES", "")
    if sys.platform == "linux" and not is_set:
        # musl, which has one heap, has no such function; a Python that was built without libffi has no ctypes.
        with suppress(AttributeError, OSError, ImportError):
            import ctypes

            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _end_on_signals() -> None:
    """A peer that has its answer may end us as one that is served; there is nothing to clean up yet."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = signal.Signals.__members__.get(name)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, frame: object) -> None:
    del number, frame
    os._exit(0)


def start(flags: "Flags", *, stderr: bool) -> "Process":
    """Read the settings and start the log. `stderr`: warnings go there, too."""
    from pattern_acp.bootstrap.process import start_process
    from pattern_acp.config.load import import_only_what_is_installed, known_secrets, process_environment
    from pattern_acp.config.logs import start_logging

    process = start_process(flags, process_environment())
    import_only_what_is_installed()
    settings = process.loaded.settings
    start_logging(process.loaded.paths.state, settings.log_level, known_secrets(settings), stderr=stderr)
    return process
