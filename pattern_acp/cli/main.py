"""Dispatches the command line.

Imports nothing heavy at the top: every command waits for it. What editors spawn goes past it (`serving`).
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from pattern_acp.cli.arguments import (
    EXIT_CANCELLED,
    EXIT_ERROR,
    EXIT_OK,
    EXIT_USAGE,
    FOR_THE_USER,
    Auth,
    BackUp,
    BadUsage,
    Chat,
    ConfigWanted,
    Connect,
    Doctor,
    Explain,
    InTerminal,
    Journal,
    Mcp,
    ModelsWanted,
    Policy,
    Restore,
    Serve,
    ServeClients,
    Setup,
    ShowText,
    Sweep,
    Tour,
    decides_for_user,
)
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.serving import run_serve, start
from pattern_acp.commands.parameters import TypedCommand

if TYPE_CHECKING:
    from pattern_acp.bootstrap.process import Process
    from pattern_acp.domain.errors import PatternError


RUNNERS: dict[type[InTerminal], str] = {
    Auth: "pattern_acp.cli.auth:run_auth",
    Mcp: "pattern_acp.cli.mcp:run_mcp",
    BackUp: "pattern_acp.cli.backup:run_backup",
    Chat: "pattern_acp.cli.chat:run_chat",
    Doctor: "pattern_acp.cli.setup:run_doctor",
    Journal: "pattern_acp.cli.journal:run_journal",
    TypedCommand: "pattern_acp.cli.command_runner:run_call",
    Policy: "pattern_acp.cli.policy:run_policy",
    ModelsWanted: "pattern_acp.cli.models:run_models",
    Restore: "pattern_acp.cli.backup:run_restore",
    Setup: "pattern_acp.cli.setup:run_setup",
    Sweep: "pattern_acp.cli.backup:run_sweep",
    Tour: "pattern_acp.cli.tour:run_tour",
    ServeClients: "pattern_acp.cli.remote:run_serve_clients",
    Connect: "pattern_acp.cli.remote:run_connect",
}
"""The function of each command, written as an entry point: its module is imported when the command is called."""


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
        case ConfigWanted():
            from pattern_acp.cli.config_schema import run_config

            return run_config(arguments)
        case _:
            return _run_in_terminal(arguments)


def _run_in_terminal(arguments: InTerminal) -> int:
    from pattern_acp.config.keys import INSIDE_VARIABLE
    from pattern_acp.config.load import process_environment

    # Before anything is opened, made or logged.
    if command := decides_for_user(arguments):
        from pattern_acp.processes.ancestry import is_of_agent

        if is_of_agent(INSIDE_VARIABLE, process_environment()):
            return _refuse(command, as_json=getattr(arguments, "json", False) is True)
    process = start(arguments.flags, stderr=False)
    try:
        return run_with(arguments, process)
    finally:
        from pattern_acp.cli.output import finish_output

        finish_output()


def run_with(arguments: InTerminal, process: "Process") -> int:
    """Run a command that was read, with settings that were; the exit code."""
    from pattern_acp.cli.output import OutputClosed
    from pattern_acp.domain.errors import PatternError

    try:
        return _run_command(arguments, process)
    except PatternError as error:
        return _fail(error, as_json=getattr(arguments, "json", False) is True)
    except OutputClosed:
        return EXIT_OK
    except (KeyboardInterrupt, EOFError):
        return EXIT_CANCELLED


def _refuse(command: str, *, as_json: bool) -> int:
    from contextlib import suppress

    from pattern_acp.cli.output import OutputClosed, finish_output, write_failed
    from pattern_acp.domain.errors import PatternError

    with suppress(OutputClosed):
        error = PatternError(FOR_THE_USER.format(command), failure_code="cli.started-by-agent")
        write_failed(error, as_json=as_json)
        finish_output()
    return EXIT_ERROR


def _fail(error: "PatternError", *, as_json: bool) -> int:
    import logging
    from contextlib import suppress

    from pattern_acp.cli.output import OutputClosed, write_failed

    logging.getLogger(__name__).warning("a command failed (%s): %s", error.failure_code, type(error).__name__)
    with suppress(OutputClosed):
        write_failed(error, as_json=as_json)
    return EXIT_ERROR


def _run_command(arguments: InTerminal, process: "Process") -> int:
    from pkgutil import resolve_name

    if isinstance(arguments, BackUp | Doctor | Journal | Policy | Restore | Sweep):
        from pathlib import Path

        from pattern_acp.bootstrap.constellation_choice import process_of_command

        process = process_of_command(process, str(Path.cwd()), begins=isinstance(arguments, Doctor))
    run = cast("Callable[[InTerminal, Process], int]", resolve_name(RUNNERS[type(arguments)]))
    return run(arguments, process)
