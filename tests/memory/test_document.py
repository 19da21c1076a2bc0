"""Documents over loro: convergence, consolidation, damage."""

from dataclasses import dataclass, field

import loro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.memory.blocks import PERSONA_TEXT
from pattern_acp.memory.document import EMPTY_FRONTIERS, PREPARED_PEER, BlockDocument, create_document
from pattern_acp.memory.edits import Append, BlockEdit, Operation, PlannedEdit, Replace, Rewrite, Splice, plan_edit
from pattern_acp.memory.errors import BlockCorruptError, DocumentError, UnusableEditError

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)
LINES = st.lists(st.sampled_from(["alpha", "beta", "gamma 1", "δ", "", "👩‍🚀 x"]), max_size=8).map("\n".join)
REWRITES = (ANY_TEXT | LINES).map(Rewrite)
APPENDS = (ANY_TEXT | LINES).map(Append)
EDITS = REWRITES | APPENDS


def edit_document(document: BlockDocument, edit: BlockEdit) -> bytes | None:
    """Apply the edit and give its update, or None when the edit is refused."""
    try:
        planned = plan_edit(edit, document.text, label="test", limit=100_000)
    except UnusableEditError:
        return None
    before = document.frontiers
    document.apply(planned)
    assert document.text == planned.text
    return document.export_update(before)


def test_a_new_document_reads_its_text_and_can_be_loaded():
    document = BlockDocument.create("human", "a\nb", peer=7)
    loaded = BlockDocument.load("human", [document.export_update(EMPTY_FRONTIERS)], peer=8)
    assert loaded.text == "a\nb"
    assert loaded.frontiers == document.frontiers


@pytest.mark.parametrize("text", ["", PERSONA_TEXT])
def test_a_prepared_document_is_the_one_that_loro_makes(text: str):
    made = BlockDocument.create("persona", text, peer=PREPARED_PEER)
    created = create_document("persona", text, peer=7)
    assert (created.update, created.frontiers) == (made.export_update(EMPTY_FRONTIERS), made.frontiers)
    assert (created.text, created.peer, created.base, created.archive) == (
        text, PREPARED_PEER, created.update, created.update
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", PERSONA_TEXT, "I am Ada."])
def test_a_new_document_is_written_to_from_its_base_and_its_archive(text: str):
    created = create_document("persona", text, peer=7)
    for stored in (created.base, created.archive):
        document = BlockDocument.load("persona", [stored], peer=8)
        assert (document.text, document.frontiers) == (text, created.frontiers)
        update = edit_document(document, Append("I like tea."))
        assert update is not None
        other = BlockDocument.load("persona", [created.update, update], peer=9)
        assert (other.text, other.text_at(created.frontiers)) == (document.text, text)


def test_an_empty_document_has_the_empty_version():
    assert BlockDocument.create("human", "", peer=7).frontiers == EMPTY_FRONTIERS


def test_history_is_read_from_a_full_snapshot_and_not_from_a_shallow_one():
    document = BlockDocument.create("human", "first", peer=7)
    version = document.frontiers
    edit_document(document, Append("second"))
    full = BlockDocument.load("human", [document.full_snapshot()], peer=8)
    assert full.text_at(version) == "first"
    shallow = BlockDocument.load("human", [document.shallow_snapshot()], peer=8)
    with pytest.raises(DocumentError):
        shallow.text_at(version)


def test_a_shallow_snapshot_does_not_hold_deleted_text():
    document = BlockDocument.create("human", "a secret word", peer=7)
    edit_document(document, Replace("secret ", ""))
    assert b"secret" not in document.shallow_snapshot()


def test_lines_changed_by_two_peers_at_once_are_both_kept():
    base = BlockDocument.create("project", "build: make\ntest: pytest\nrun: make run", peer=1).full_snapshot()
    left, right = BlockDocument.load("project", [base], peer=2), BlockDocument.load("project", [base], peer=3)
    from_left = edit_document(left, Rewrite("build: ninja\ntest: pytest\nrun: make run"))
    from_right = edit_document(right, Append("lint: ruff"))
    assert from_left is not None
    assert from_right is not None
    left.merge(from_right)
    right.merge(from_left)
    assert left.text == right.text == "build: ninja\ntest: pytest\nrun: make run\nlint: ruff"


@given(base=LINES, left_edits=st.lists(EDITS, max_size=5), right_edits=st.lists(EDITS, max_size=5), data=st.data())
def test_edits_of_two_peers_converge_in_any_order(
    base: str, left_edits: list[BlockEdit], right_edits: list[BlockEdit], data: st.DataObject
):
    snapshot = BlockDocument.create("test", base, peer=1).full_snapshot()
    queues: list[list[bytes]] = []
    for peer, edits in ((2, left_edits), (3, right_edits)):
        document = BlockDocument.load("test", [snapshot], peer=peer)
        queues.append([update for edit in edits if (update := edit_document(document, edit)) is not None])
    in_order = BlockDocument.load("test", [snapshot, *queues[0], *queues[1]], peer=4)
    # An update before its predecessor is an error for us, so the shuffle keeps each peer's own order.
    merged: list[bytes] = []
    while waiting := [queue for queue in queues if queue]:
        merged.append(data.draw(st.sampled_from(waiting)).pop(0))
    shuffled = BlockDocument.load("test", [snapshot, *merged], peer=5)
    assert (shuffled.text, shuffled.frontiers) == (in_order.text, in_order.frontiers)


@dataclass
class Model:
    """A plain string, and what a store would hold of the document that is to equal it."""

    text: str
    base: bytes
    updates: list[bytes] = field(default_factory=list[bytes])
    log: list[bytes] = field(default_factory=list[bytes])


@given(start=ANY_TEXT, steps=st.lists(st.tuples(EDITS, st.booleans(), st.integers(2, 4)), max_size=12))
def test_random_edits_with_reloads_and_new_bases_equal_a_plain_string(
    start: str, steps: list[tuple[BlockEdit, bool, int]]
):
    created = BlockDocument.create("test", start, peer=1)
    model = Model(start, created.shallow_snapshot(), log=[created.export_update(EMPTY_FRONTIERS)])
    for edit, rebase, peer in steps:
        document = BlockDocument.load("test", [model.base, *model.updates], peer=peer)
        assert document.text == model.text
        update = edit_document(document, edit)
        if update is None:
            continue
        model.text = plan_edit(edit, model.text, label="test", limit=100_000).text
        model.log.append(update)
        model.updates.append(update)
        if rebase:
            model.base, model.updates = document.shallow_snapshot(), []
    assert BlockDocument.load("test", [model.base, *model.updates], peer=9).text == model.text
    assert BlockDocument.load("test", model.log, peer=9).text == model.text


@settings(max_examples=200)
@given(data=st.data())
def test_a_flipped_bit_is_an_error_or_does_no_harm(data: st.DataObject):
    document = BlockDocument.create("project", "build: make\ntest: pytest\n", peer=1)
    update = edit_document(document, Append("deploy: make ship"))
    assert update is not None
    parts = [BlockDocument.create("project", "build: make\ntest: pytest\n", peer=1).shallow_snapshot(), update]
    which = data.draw(st.integers(0, 1))
    damaged = bytearray(parts[which])
    bit = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    parts[which] = bytes(damaged)
    try:
        text = BlockDocument.load("project", parts, peer=5).text
    except BlockCorruptError:
        return
    # What loro accepts nevertheless is a flip in its unused header bytes.
    assert text == document.text


@pytest.mark.parametrize("data", [b"", b"not loro", b"loro" + bytes(40)])
def test_bytes_that_are_no_document_are_an_error_that_names_the_block(data: bytes):
    with pytest.raises(BlockCorruptError, match="'human'"):
        BlockDocument.load("human", [data], peer=1)


def test_an_update_whose_predecessor_is_missing_is_an_error_and_not_parked():
    document = BlockDocument.create("human", "a", peer=1)
    base = document.full_snapshot()
    edit_document(document, Append("b"))
    last = edit_document(document, Append("c"))
    assert last is not None
    with pytest.raises(BlockCorruptError, match="missing"):
        BlockDocument.load("human", [base, last], peer=2)


def test_an_edit_planned_for_another_text_is_an_error_of_ours():
    document = BlockDocument.create("human", "short", peer=1)
    with pytest.raises(DocumentError, match="'human'"):
        document.apply(PlannedEdit(Operation.REPLACE, "", (Splice(100, 1, "x"),)))


def test_a_version_that_the_document_never_had_is_an_error():
    other = BlockDocument.create("human", "other", peer=2)
    with pytest.raises(DocumentError, match="never had"):
        BlockDocument.create("human", "this", peer=1).export_update(other.frontiers)


def test_bytes_that_are_no_version_are_an_error():
    with pytest.raises(DocumentError):
        BlockDocument.create("human", "this", peer=1).export_update(b"\xff\xff")


@dataclass
class Copy:
    """One of two copies of a document that words are taken out of, with all versions it had."""

    document: BlockDocument
    versions: list[bytes] = field(default_factory=list[bytes])

    def edit(self, edit: BlockEdit) -> None:
        edit_document(self.document, edit)
        self.versions.append(self.document.frontiers)


SECRET = "quartzvejle"
SECRET_LINES = st.lists(st.sampled_from(["alpha", f"it is {SECRET}", "δ", f"{SECRET} {SECRET}"]), max_size=5)
SECRET_EDITS = SECRET_LINES.map("\n".join).map(Rewrite) | SECRET_LINES.map("\n".join).map(Append)


def places(text: str) -> list[tuple[int, int]]:
    return [(at, at + len(SECRET)) for at in range(len(text)) if text.startswith(SECRET, at)]


def mask(text: str) -> str:
    return text.replace(SECRET, "")


@settings(deadline=None)
@given(before=st.lists(SECRET_EDITS, max_size=6), after=st.lists(st.tuples(st.booleans(), SECRET_EDITS), max_size=6))
def test_a_document_without_words_has_them_in_no_version_and_merges_with_one_that_has_them(
    before: list[BlockEdit], after: list[tuple[bool, BlockEdit]]
):
    one = Copy(BlockDocument.create("test", f"It is {SECRET}.", peer=7))
    one.versions.append(one.document.frontiers)
    for edit in before:
        one.edit(edit)
    two = Copy(BlockDocument.load("test", [one.document.full_snapshot()], peer=8))
    one.edit(Rewrite(mask(one.document.text)))
    without = one.document.without_words(one.versions, places, mask)
    assert without is not None
    assert (without.text, without.frontiers) == (one.document.text, one.document.frontiers)
    assert without.character_ids() == one.document.character_ids()
    assert all(SECRET not in without.text_at(version) for version in one.versions)
    # A snapshot may be packed.
    opened = loro.LoroDoc()
    opened.import_(without.full_snapshot())
    assert SECRET not in opened.export_json_updates(loro.VersionVector(), opened.oplog_vv)
    copies = (Copy(without), two)
    for first, edit in after:
        copies[0 if first else 1].edit(edit)
    two.document.merge_from_elsewhere(without.full_snapshot())
    update = two.document.export_update(one.versions[len(before)])
    without.merge(update)
    assert without.text == two.document.text
    assert without.frontiers == two.document.frontiers


def test_a_document_that_lacks_its_past_has_no_form_without_words():
    document = BlockDocument.create("test", f"It is {SECRET}.", peer=7)
    shallow = BlockDocument.load("test", [document.shallow_snapshot()], peer=8)
    assert shallow.without_words([], places, mask) is None
