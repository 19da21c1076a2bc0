"""What a correction of a trap takes over, and what it changes."""

import pytest

from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.path_notes import NoteKind, NoteRule, Severity, end_of_day
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.archive import terms_of

UNTIL = end_of_day("2026-12-31")
OLD = NoteRule(NoteKind.TRAP, ("src/**",), Severity.HIGH, UNTIL)


def correction(until: str = "") -> MemoryEdit:
    return MemoryEdit("archive", "replace", "The pool hangs.", until=until)


def test_what_is_not_given_stays():
    assert terms_of(correction(), OLD) == OLD


@pytest.mark.parametrize(
    ("until", "kept"), [("", UNTIL), ("2027-01-01", end_of_day("2027-01-01")), ("never", None), (" Never ", None)]
)
def test_the_last_day_stays_changes_or_goes(until: str, kept: int | None):
    assert terms_of(correction(until=until), OLD) == NoteRule(NoteKind.TRAP, ("src/**",), Severity.HIGH, kept)


def test_a_day_that_is_none_is_refused_with_what_can_be_written():
    with pytest.raises(UnusableEditError, match="2026-12-31, or 2h, or never"):
        terms_of(correction(until="soon"), OLD)
