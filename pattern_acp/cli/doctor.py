"""`pattern-acp doctor`: the diagnosis as a table, or as JSON."""

import json
import sys

import anyio

from pattern_acp.bootstrap.diagnosis import Diagnosis, Health, diagnose
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Doctor

MARKS = {Health.OK: ("✓", "green"), Health.NOTE: ("•", "yellow"), Health.BROKEN: ("✗", "bold red")}


def run_doctor(arguments: Doctor, process: Process) -> int:
    """Print the diagnosis; 1 when something that is needed is broken."""
    diagnosis = anyio.run(diagnose, process)
    if arguments.json:
        print_json(diagnosis)
    else:
        print_table(diagnosis)
    return EXIT_OK if diagnosis.is_usable else EXIT_ERROR


def print_json(diagnosis: Diagnosis) -> None:
    """One JSON object: `ok` and the findings."""
    findings = [
        {"name": one.name, "health": one.health.value, "detail": one.detail, "remedy": one.remedy}
        for one in diagnosis.findings
    ]
    json.dump({"ok": diagnosis.is_usable, "findings": findings}, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_table(diagnosis: Diagnosis) -> None:
    """A table with a mark a line, and a last line that sums up."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(width=1)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in diagnosis.findings:
        mark, style = MARKS[finding.health]
        detail = Text(finding.detail)
        if finding.remedy:
            detail.append(f"\n→ {finding.remedy}", style=style)
        table.add_row(Text(mark, style=style), finding.name, detail)
    console = Console()
    console.print(table)
    broken = [finding.name for finding in diagnosis.findings if finding.health is Health.BROKEN]
    if broken:
        console.print(Text(f"\nBroken: {', '.join(broken)}.", style="bold red"))
    else:
        console.print(Text("\nEverything that is needed works.", style="bold green"))
