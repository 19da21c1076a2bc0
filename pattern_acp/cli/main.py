"""Dispatches the command line.

Imports nothing heavy at the top: an editor waits for `serve`, and descriptors are claimed before anything else is
loaded.
"""

import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.cli.arguments import (
    EXIT_ERROR,
    EXIT_OK,
    EXIT_USAGE,
    BadUsage,
    Chat,
    Doctor,
    InTerminal,
    Serve,
    Sessions,
    ShowText,
    parse_arguments,
)
from pattern_acp.cli.auth_arguments import Auth
from pattern_acp.cli.backup_arguments import BackUp, Restore, Sweep
from pattern_acp.cli.journal_arguments import Journal
from pattern_acp.cli.memory_arguments import Memory
from pattern_acp.cli.models_arguments import ModelsWanted
from pattern_acp.cli.trust_arguments import Trust
from pattern_acp.cli.usage_arguments import UsageWanted
from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    from pattern_acp.bootstrap.process import Process


def run(argv: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    arguments = parse_arguments(argv)
    match arguments:
        case Serve(flags):
            return run_serve(flags)
        case ShowText(text):
            sys.stdout.write(text.rstrip("\n") + "\n")
            return EXIT_OK
        case BadUsage(sentence):
            sys.stderr.write(sentence + "\n")
            return EXIT_USAGE
        case (
            Chat()
            | Sessions()
            | Memory()
            | Journal()
            | Trust()
            | Auth()
            | UsageWanted()
            | ModelsWanted()
            | BackUp()
            | Restore()
            | Sweep()
            | Doctor()
        ):
            return _run_in_terminal(arguments)


def run_serve(flags: Flags) -> int:
    """Serve ACP on the standard streams."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the server listens for signals there is nothing to clean up, and a traceback would help nobody.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pattern_acp.jsonrpc.stdio import claim_standard_streams

    read_fd, write_fd = claim_standard_streams()
    from pattern_acp.bootstrap.serve import serve

    return serve(_start(flags, stderr=True), read_fd, write_fd)


def _run_in_terminal(arguments: InTerminal) -> int:
    from pattern_acp.domain.errors import PatternError

    process = _start(arguments.flags, stderr=False)
    try:
        return _run_command(arguments, process)
    except PatternError as error:
        sys.stderr.write(f"pattern-acp: {error.sentence}\n")
        return EXIT_ERROR


def _run_command(arguments: InTerminal, process: "Process") -> int:  # noqa: C901, PLR0911  one for each command
    match arguments:
        case Doctor():
            from pattern_acp.cli.doctor import run_doctor

            return run_doctor(arguments, process)
        case Sessions():
            from pattern_acp.cli.sessions import run_sessions

            return run_sessions(arguments, process)
        case Memory():
            from pattern_acp.cli.memory import run_memory

            return run_memory(arguments, process)
        case Journal():
            from pattern_acp.cli.journal.command import run_journal

            return run_journal(arguments, process)
        case Trust():
            from pattern_acp.cli.trust import run_trust

            return run_trust(arguments, process)
        case Auth():
            from pattern_acp.cli.auth import run_auth

            return run_auth(arguments, process)
        case UsageWanted():
            from pattern_acp.cli.usage import run_usage

            return run_usage(arguments, process)
        case ModelsWanted():
            from pattern_acp.cli.models import run_models

            return run_models(arguments, process)
        case BackUp() | Restore() | Sweep():
            from pattern_acp.cli.backup import run_backup_command

            return run_backup_command(arguments, process)
        case Chat():
            from pattern_acp.cli.chat import run_chat

            return run_chat(arguments, process)


def _start(flags: Flags, *, stderr: bool) -> "Process":
    from pattern_acp.bootstrap.process import start_process
    from pattern_acp.config.load import known_secrets, process_environment
    from pattern_acp.config.logs import start_logging

    process = start_process(flags, process_environment())
    settings = process.loaded.settings
    start_logging(process.loaded.paths.state, settings.log_level, known_secrets(settings), stderr=stderr)
    return process
