"""What `pattern-acp backup`, `restore` and `gc` take.

Owns: their arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before
anything else.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse


class BackUp(Struct, frozen=True):
    """Copy the constellation, or list the copies that there are."""

    flags: Flags = field(default_factory=Flags)
    output: str = ""
    """Where to; empty for the folder of backups."""
    list_only: bool = False
    json: bool = False


class Restore(Struct, frozen=True):
    """Put a copy in the place of the constellation."""

    flags: Flags = field(default_factory=Flags)
    file: str = ""
    """The copy; empty for the newest one."""
    json: bool = False


class Sweep(Struct, frozen=True):
    """Take away what serves nothing any more."""

    flags: Flags = field(default_factory=Flags)
    dry_run: bool = False
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


def add_sweep_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of `gc`."""
    parser.add_argument("--dry-run", action="store_true", help="show what would go, and how much it is")
    parser.add_argument("--json", action="store_true", help="print JSON")


def sweep_arguments(flags: Flags, found: Mapping[str, object]) -> Sweep:
    """What parsed arguments of `gc` mean."""
    return Sweep(flags, dry_run=bool(found.get("dry_run")), json=bool(found.get("json")))


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


BACKUP_READERS: "Mapping[str, Callable[[Flags, Mapping[str, object]], BackUp | Restore | Sweep]]" = {
    "backup": backup_arguments,
    "restore": restore_arguments,
    "gc": sweep_arguments,
}
"""What the arguments of each command mean."""

BACKUP_COMMANDS: "tuple[tuple[str, str, str, Callable[[argparse.ArgumentParser], None], str], ...]" = (
    (
        "backup",
        "copy the constellation while it is used",
        "Write a checked copy of the constellation, with all sessions and memory, into its folder of backups or to "
        "FILE. Sessions may go on meanwhile. Snapshots are taken by themselves too, and --list shows both.",
        add_backup_arguments,
        "",
    ),
    (
        "restore",
        "go back to a backup of the constellation",
        "Put a backup in the place of the constellation. What was there is kept in the folder of backups, so that this "
        "can be taken back. Every window that uses the constellation has to be closed first.",
        add_restore_arguments,
        "FILE | --latest",
    ),
    (
        "gc",
        "take away copies and contents that serve nothing any more",
        "Delete what [retention] in config.toml does not want kept: the words of sessions that were deleted more than "
        "30 days ago, contents of files that no checkpoint names, what restores and migrations kept, snapshots that "
        "may hold words which were forgotten since, and large payloads of no event. Backups that you asked for stay.",
        add_sweep_arguments,
        "",
    ),
)
"""Name, summary, description, arguments and words of each command, for its help."""
