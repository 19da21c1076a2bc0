"""`pattern-acp doctor`: the diagnosis as a table, as lines for a pipe, or as JSON."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from pattern_acp.bootstrap.diagnosis import FROM_DEFAULT, Diagnosis, diagnose
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Doctor
from pattern_acp.cli.chat.glyphs import Marks, marks_for
from pattern_acp.cli.output import OutputClosed, format_table, printable, write_line
from pattern_acp.domain.clock import SystemClock
from pattern_acp.recovery.checks import Finding, Health, Repair, repair

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

SETTING = "Setting "
"""Prefix of findings about settings in use; they have a table of their own."""

ALWAYS_SHOWN = (
    "pattern-acp",
    "Constellation file",
    "Configuration",
    "Log",
    "Provider ",
    "Model",
    "Disk usage",
    "Verified ",
)
"""Prefixes of findings that inform even when all is well: what is used, and where it is."""

STYLES = {Health.OK: "green", Health.NOTE: "yellow", Health.BROKEN: "bold red"}


def run_doctor(arguments: Doctor, process: Process) -> int:
    """Print the diagnosis of a session in this directory; 1 when something that is needed is broken."""
    here = in_folder(process, Path.cwd())
    look = partial(diagnose, here, thorough=arguments.verify)
    diagnosis = anyio.run(look)
    done: list[tuple[Repair, str]] = []
    if arguments.repair:
        path = here.loaded.paths.constellation_path(here.loaded.settings.constellation)
        done = repair(path, diagnosis.findings, now_ms=SystemClock().now_ms())
        diagnosis = anyio.run(look) if done else diagnosis
    try:
        if arguments.json:
            print_json(diagnosis, done)
            return EXIT_OK if diagnosis.is_usable else EXIT_ERROR
        for _, sentence in done:
            write_line(printable(sentence))
        if arguments.repair and not done:
            write_line("Nothing can be repaired without a decision of yours.")
        if sys.stdout.isatty():
            from rich.console import Console

            print_table(diagnosis, Console(), whole=arguments.all)
        else:
            print_lines(diagnosis, whole=arguments.all)
    except OutputClosed:
        pass  # `head` has seen enough; the exit code still tells
    return EXIT_OK if diagnosis.is_usable else EXIT_ERROR


def in_folder(process: Process, folder: Path) -> Process:
    """`process` with the settings that a session in `folder` has: those of the project's file count too."""
    return replace(process, loaded=process.load_project(str(folder)))


def print_json(diagnosis: Diagnosis, done: Sequence[tuple[Repair, str]] = ()) -> None:
    """One JSON object: `ok`, the findings with the repair that each has, and what was repaired."""
    findings = [
        {
            "name": one.name,
            "health": one.health.value,
            "detail": one.detail,
            "remedy": one.remedy,
            "code": one.code or None,
            "repair": _as_json(one.repair) if one.repair else None,
        }
        for one in diagnosis.findings
    ]
    repaired = [{**_as_json(one), "done": sentence} for one, sentence in done]
    write_line(json.dumps({"ok": diagnosis.is_usable, "findings": findings, "repaired": repaired}, indent=2))


def _as_json(wanted: Repair) -> dict[str, str | bool]:
    return {"action": wanted.action, "target": wanted.target, "safe": wanted.safe}


def rows_of(findings: Sequence[Finding], *, whole: bool) -> list[Finding]:
    """Order the findings: broken, remarks, then what is well: all of it, or what informs and a count of the rest."""
    attention = [one for health in (Health.BROKEN, Health.NOTE) for one in findings if one.health is health]
    well = [one for one in findings if one.health is Health.OK]
    checks, settings = [one for one in well if not is_setting(one)], [one for one in well if is_setting(one)]
    if whole:
        return [*attention, *checks, *settings]
    rows = [*attention, *(one for one in checks if not _is_counted(one))]
    if counted := [one.name for one in checks if _is_counted(one)]:
        rows.append(Finding(f"{len(counted)} more", Health.OK, f"{', '.join(counted)} (--all tells more)"))
    rows += [one for one in settings if not _is_counted(one)]
    if untouched := sum(map(_is_counted, settings)):
        rows.append(Finding(f"{SETTING}{untouched} more", Health.OK, "have their defaults (--all lists them)"))
    return rows


def _is_counted(finding: Finding) -> bool:
    """Tell whether a finding that all is well is only counted, since no user looks for it."""
    if is_setting(finding):
        return finding.detail.endswith(FROM_DEFAULT)
    return not finding.name.startswith(ALWAYS_SHOWN)


def print_lines(diagnosis: Diagnosis, *, whole: bool) -> None:
    """One line a finding, however long, for a pipe; `whole` as for `rows_of`."""
    rows = [
        (one.health.value, one.name, f"{told(one)} Remedy: {one.remedy}" if one.remedy else told(one))
        for one in rows_of(diagnosis.findings, whole=whole)
    ]
    write_line(format_table(("STATE", "WHAT", "DETAIL"), rows))
    write_line(summary(diagnosis))


def told(finding: Finding) -> str:
    """Return the finding's text with the failure code that `pattern-acp explain` knows."""
    return f"{finding.detail} [{finding.code}]" if finding.code else finding.detail


def print_table(diagnosis: Diagnosis, console: "Console", *, whole: bool) -> None:
    """Two tables, findings and settings, and a last line that sums up; `whole` as for `rows_of`."""
    from rich.text import Text

    marks = marks_for(console.encoding)
    rows = rows_of(diagnosis.findings, whole=whole)
    settings = [one for one in rows if is_setting(one)]
    console.print(_table([one for one in rows if not is_setting(one)], marks))
    if settings:
        console.print(Text("\nSettings", style="bold"))
        console.print(_table(settings, marks))
    health = Health.OK if diagnosis.is_usable else Health.BROKEN
    console.print(Text(f"\n{summary(diagnosis)}", style=STYLES[health]))


def is_setting(finding: Finding) -> bool:
    """Tell whether a finding shows the value of a setting with nothing wrong."""
    return finding.name.startswith(SETTING) and finding.health is Health.OK


def summary(diagnosis: Diagnosis) -> str:
    """The diagnosis in one sentence."""
    broken = [finding.name for finding in diagnosis.findings if finding.health is Health.BROKEN]
    notes = sum(finding.health is Health.NOTE for finding in diagnosis.findings)
    if broken:
        return f"Broken: {printable(', '.join(broken))}."
    if notes:
        return f"Everything that is needed works; {notes} {'remark' if notes == 1 else 'remarks'} above."
    return "Everything that is needed works."


def _table(findings: Sequence[Finding], marks: Marks) -> "Table":
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=1)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(*_cells(finding, marks))
    return table


def _cells(finding: Finding, marks: Marks) -> "tuple[Text, Text, Text]":
    from rich.text import Text

    style = STYLES[finding.health]
    signs = {Health.OK: marks.done, Health.NOTE: marks.kind("other"), Health.BROKEN: marks.failed}
    detail = Text(printable(told(finding)))
    if finding.remedy:
        detail.append(f"\n{marks.kind('read')} {printable(finding.remedy)}", style=style)
    name = finding.name.removeprefix(SETTING) if is_setting(finding) else finding.name
    return Text(signs[finding.health], style=style), Text(name, style="bold"), detail
