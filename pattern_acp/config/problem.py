"""Problems with settings, and the source of every effective value.

Owns: the two records that `doctor` and the log show. Must not know: how settings are read.
"""

from msgspec import Struct


class Problem(Struct, frozen=True):
    """A setting that was not used as written. The agent runs all the same (issue 2, section 2)."""

    place: str
    """The file, `$VARIABLE` or `--flag` that holds it."""
    line: int | None
    """1-based line in the file; None outside files or where it is not known."""
    key: str
    """The dotted key, such as `turn.max_wall_seconds`; empty when the whole file is meant."""
    sentence: str
    """A sentence that says what is wrong, what is allowed, and what is used instead. Never a key's secret value."""

    def __str__(self) -> str:
        """One line: place, line, key and sentence."""
        where = self.place if self.line is None else f"{self.place}:{self.line}"
        key = f"{self.key[:80]}: " if self.key else ""
        # A quoted key may hold anything, and a path too; neither may break the line or steer a terminal.
        return "".join(each if each.isprintable() else "?" for each in f"{where}: {key}{self.sentence}")


class EffectiveValue(Struct, frozen=True):
    """One setting as it is in force."""

    key: str
    shown: str
    """The value for a user; secrets are masked."""
    source: str
    """`default`, `$VARIABLE`, `--flag`, or `FILE:LINE`."""
