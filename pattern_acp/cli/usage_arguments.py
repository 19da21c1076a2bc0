"""What `pattern-acp usage` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy, since the command line is read before anything
else.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse

UsageGrouping: TypeAlias = Literal["day", "model", "project", "session"]

GROUPINGS: tuple[str, ...] = get_args(UsageGrouping)

SINCE = re.compile(r"\d{4}-\d{2}-\d{2}|[1-9]\d{0,3}d")


class UsageWanted(Struct, frozen=True):
    """Sum up what models used and cost."""

    flags: Flags = field(default_factory=Flags)
    by: UsageGrouping = "day"
    since: str = ""
    """A day, `2026-11-01`, or how many days back, `30d`; empty for everything."""
    form: Literal["text", "json", "csv"] = "text"


class UsageArgumentsError(ValueError):
    """The arguments cannot be used; the message is a sentence."""


def add_usage_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    about = "what the sums are over: " + ", ".join(GROUPINGS)
    parser.add_argument("--by", choices=GROUPINGS, default="day", help=about)
    about = "only from this day on: 2026-11-01, or 30d for the last 30 days"
    parser.add_argument("--since", metavar="DAY", default="", help=about)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON")
    forms.add_argument("--csv", action="store_true", help="print comma-separated values")


def usage_arguments(flags: Flags, found: Mapping[str, object]) -> UsageWanted:
    """What parsed arguments mean.

    Raises:
        UsageArgumentsError: the day is none.
    """
    since = str(found.get("since") or "")
    if since and not SINCE.fullmatch(since):
        raise UsageArgumentsError("--since takes a day such as 2026-11-01, or a number of days such as 30d.")
    form = "json" if found.get("json") else "csv" if found.get("csv") else "text"
    return UsageWanted(flags, cast("UsageGrouping", found.get("by") or "day"), since, form)
