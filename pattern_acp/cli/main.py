"""Dispatches the command line.

Imports nothing heavy at the top: every command waits for it. What editors spawn goes past it (`serving`).
"""

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
from pattern_acp.cli.explain_arguments import Explain
from pattern_acp.cli.journal_arguments import Journal
from pattern_acp.cli.memory_arguments import Memory
from pattern_acp.cli.models_arguments import ModelsWanted
from pattern_acp.cli.serving import run_serve, start
from pattern_acp.cli.trust_arguments import Trust
from pattern_acp.cli.usage_arguments import UsageWanted

if TYPE_CHECKING:
    from pattern_acp.bootstrap.process import Process
    from pattern_acp.domain.errors import PatternError


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
            from pattern_acp.cli.output import write_failure

            write_failure("cli.usage", sentence)
            return EXIT_USAGE
        case Explain():
            from pattern_acp.cli.explain import run_explain

            return run_explain(arguments)
        case _:
            return _run_in_terminal(arguments)


def _run_in_terminal(arguments: InTerminal) -> int:
    from pattern_acp.domain.errors import PatternError

    process = start(arguments.flags, stderr=False)
    try:
        return _run_command(arguments, process)
    except PatternError as error:
        return _fail(error, as_json=getattr(arguments, "json", False) is True)
    finally:
        from pattern_acp.cli.output import finish_output

        finish_output()


def _fail(error: "PatternError", *, as_json: bool) -> int:
    import logging
    from contextlib import suppress

    from pattern_acp.cli.output import OutputClosed, write_failed

    logging.getLogger(__name__).warning("a command failed (%s): %s", error.failure_code, type(error).__name__)
    with suppress(OutputClosed):
        write_failed(error, as_json=as_json)
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
