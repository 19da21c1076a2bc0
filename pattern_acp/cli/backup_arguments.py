"""What `pattern-acp backup` and `pattern-acp restore` take.

Owns: their arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before
anything else.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from pattern_acp.config.settings import Flags
from pattern_acp.domain.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class BackUp:
    """Copy the constellation, or list the copies that there are."""

    flags: Flags = field(default_factory=Flags)
    output: str = ""
    """Where to; empty for the folder of backups."""
    list_only: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Put a copy in the place of the constellation."""

    flags: Flags = field(default_factory=Flags)
    file: str = ""
    """The copy; empty for the newest one."""
    json: bool = False


class BackupUsageError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_backup_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `backup`."""
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="write this file, which must not exist yet")
    parser.add_argument("--list", dest="list_only", action="store_true", help="list the backups that there are")
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_restore_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `restore`."""
    parser.add_argument("file", nargs="?", default="", metavar="FILE", help="the backup to go back to")
    parser.add_argument("--latest", action="store_true", help="go back to the newest backup that is sound")
    parser.add_argument("--json", action="store_true", help="print JSON")


def backup_arguments(flags: Flags, found: Mapping[str, object]) -> BackUp:
    """What parsed arguments of `backup` mean.

    Raises:
        BackupUsageError: they contradict each other.
    """
    output, list_only = str(found.get("output") or ""), bool(found.get("list_only"))
    if output and list_only:
        raise BackupUsageError("backup --list writes nothing; leave out --output.")
    return BackUp(flags, output, list_only, json=bool(found.get("json")))


def restore_arguments(flags: Flags, found: Mapping[str, object]) -> Restore:
    """What parsed arguments of `restore` mean.

    Raises:
        BackupUsageError: there is no backup named, or two are.
    """
    file, latest = str(found.get("file") or ""), bool(found.get("latest"))
    if bool(file) == latest:
        raise BackupUsageError("restore needs the FILE of a backup, or --latest; backup --list shows what there is.")
    return Restore(flags, file, json=bool(found.get("json")))
