"""`pattern-acp trust`: trust a folder from the terminal, list those that are trusted, take it back."""

import sys
from pathlib import Path

import anyio

from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.project import read_project
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK, Trust
from pattern_acp.cli.opening import constellation_path, open_for_command, refuse_if_lost
from pattern_acp.cli.output import OutputClosed, write_failure, write_json, write_line, write_sentence
from pattern_acp.db.connection import Database
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.project_parts import digest_of_parts
from pattern_acp.session.trust import decide_trust
from pattern_acp.trust.records import (
    Agreement,
    count_parts,
    describe_changes,
    describe_parts,
    list_agreements,
    load_agreement,
)


def run_trust(arguments: Trust, process: Process) -> int:
    """Carry it out; 1 when the folder cannot be trusted, or the person does not want it.

    Raises:
        PatternError: the constellation cannot be used.
    """
    try:
        return anyio.run(_run, arguments, process)
    except OutputClosed:
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_CANCELLED


async def _run(arguments: Trust, process: Process) -> int:
    if arguments.action == "list":
        refuse_if_lost(constellation_path(process))
    async with open_for_command(process) as database:
        if arguments.action == "list":
            return await _list(database, as_json=arguments.json)
        root = folder_meant(arguments.path)
        if arguments.action == "revoke":
            return await _revoke(database, root)
        return await _trust(database, process, root, assume_yes=arguments.assume_yes)


def folder_meant(path: str) -> str:
    """The folder of a command line with symbolic links followed; the current one when none is named."""
    return resolve_path(str(Path(path or ".").absolute()))


async def _list(database: Database, *, as_json: bool) -> int:
    agreements = await database.read(list_agreements)
    if as_json:
        write_json([_facts(agreement) for agreement in agreements])
        return EXIT_OK
    for agreement in agreements:
        write_line(f"{agreement.root}  {count_parts(agreement.parts)}")
    if not agreements:
        write_line("No folder is trusted.")
    return EXIT_OK


def _facts(agreement: Agreement) -> dict[str, Json]:
    parts: list[Json] = [{"kind": part.kind.value, "name": part.name, "text": part.text} for part in agreement.parts]
    return {"folder": agreement.root, "decided_ms": agreement.decided_ms, "parts": parts}


async def _revoke(database: Database, root: str) -> int:
    agreement = await database.read(lambda tx: load_agreement(tx, root))
    if agreement is None:
        write_failure(
            "trust.undecided",
            f"pattern-acp: {root} is not trusted; `pattern-acp trust list` shows the folders that are.",
        )
        return EXIT_ERROR
    await decide_trust(database, root, agreement.parts, "revoked", at_ms=SystemClock().now_ms())
    write_line(f"{root} is not trusted any more.")
    return EXIT_OK


async def _trust(database: Database, process: Process, root: str, *, assume_yes: bool) -> int:
    if not await anyio.Path(root).is_dir():
        write_failure("cli.file-unusable", f"pattern-acp: {root} is no folder.")
        return EXIT_ERROR
    parts = (await anyio.to_thread.run_sync(read_project, process, root)).offer.parts
    agreement = await database.read(lambda tx: load_agreement(tx, root))
    if not parts:
        write_sentence(f"{root} brings no hooks, MCP servers, checks, commands or skills; there is nothing to trust.")
        return EXIT_OK
    if agreement is not None and agreement.digest == digest_of_parts(parts):
        write_sentence(f"{root} is trusted already: {count_parts(parts)}.")
        return EXIT_OK
    from pattern_acp.cli.chat.calls import plain_text

    told = describe_changes(agreement.parts, parts) if agreement is not None else describe_parts(parts)
    write_line(plain_text(told, None))
    if not assume_yes and not _confirmed(root, count_parts(parts)):
        return EXIT_ERROR
    await decide_trust(database, root, parts, "trusted", at_ms=SystemClock().now_ms())
    write_sentence(f"{root} is trusted until one of these changes.")
    return EXIT_OK


def _confirmed(root: str, counted: str) -> bool:
    if not sys.stdin.isatty():
        write_failure(
            "cli.not-confirmed", "pattern-acp: nothing was changed; say --yes to trust this without a question."
        )
        return False
    sys.stdout.write(f"\nTrust {root} to run {counted} as you? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
