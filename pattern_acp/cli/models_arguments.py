"""What `pattern-acp models` takes.

Owns: its arguments. Must not know: what they do. Imports nothing heavy.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse


class ModelsWanted(Struct, frozen=True):
    """List the models that can be used."""

    flags: Flags = field(default_factory=Flags)
    json: bool = False
    model: str = ""
    """Only this one, `PROVIDER/MODEL`, with who says each figure."""


def add_models_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments."""
    parser.add_argument(
        "one_model", nargs="?", default="", metavar="PROVIDER/MODEL", help="only this one, and who says each figure"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def models_arguments(flags: Flags, found: Mapping[str, object]) -> ModelsWanted:
    """What parsed arguments mean."""
    return ModelsWanted(flags, json=bool(found.get("json")), model=str(found.get("one_model") or ""))
