"""What `pattern-acp explain` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse


class Explain(Struct, frozen=True):
    """Say what a failure code means."""

    flags: Flags = field(default_factory=Flags)
    code: str = ""
    """The code, or what somebody took for it; empty to list them all."""
    json: bool = False


def add_explain_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    parser.add_argument("code", nargs="?", default="", metavar="CODE", help="a code such as provider.overloaded")
    parser.add_argument("--json", action="store_true", help="print JSON")


def explain_arguments(flags: Flags, found: Mapping[str, object]) -> Explain:
    """What parsed arguments mean."""
    return Explain(flags, code=str(found.get("code") or ""), json=bool(found.get("json")))
