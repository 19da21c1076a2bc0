"""No archive, however it was changed, does harm: it is refused by a sentence with nothing stored, or it is sound.

Blocks are changed and hashed anew all the way up to the root, as somebody would who means harm. More of them:
`python -m tests.carry.test_mutated_archives 10000`.
"""

import random
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.carry.arrival import Conflicts, accept, proposals
from pattern_acp.carry.car import CID_BYTES, ArchiveReader, ArchiveWriter, Node, read_archive
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.errors import PatternError
from pattern_acp.recovery.checks import Health, check_rows
from tests.carry.test_archive import NOW, fill, home, leave, state, talk
from tests.carry.test_task_lists import add, work
from tests.support.constellation import FakeClock

EXAMPLES = 40


class RolledBackError(Exception):
    """Ends a transaction of which nothing is to stay."""


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_archive(tmp_path_factory.mktemp("mutated"))


def make_archive(folder: Path) -> bytes:
    """The bytes of an archive with all kinds of records."""

    async def make() -> None:
        async with home(folder / "one") as one:
            await fill(one)
            await add(one, "Parse it")
            await add(one, "Print it")
            await one.write(work)
        await talk(folder / "one" / "constellation.db", folder / "work")
        async with home(folder / "one") as one:
            await leave(one, folder / "a.car")

    anyio.run(make)
    return (folder / "a.car").read_bytes()


class Mutator:
    """Makes an archive in which one value of one block is another."""

    def __init__(self, content: bytes, chance: random.Random) -> None:
        self._archive = read_archive(BytesIO(content))
        self._chance = chance
        self._target = chance.choice(sorted(set(_reached(self._archive, self._archive.root))))
        self._into = BytesIO()
        self._writer = ArchiveWriter(self._into)

    def mutated(self) -> bytes:
        """The bytes of the archive."""
        self._writer.finish(self._node(self._archive.root))
        return self._into.getvalue()

    def _node(self, cid: bytes) -> Node:
        node = _read(self._archive, cid)
        if cid == self._target:
            node = self._changed(node)
        return self._linked(node)

    def _linked(self, node: Node) -> Node:
        if isinstance(node, dict):
            return {name: self._linked(value) for name, value in node.items()}
        if isinstance(node, list):
            return [self._linked(value) for value in node]
        if isinstance(node, bytes) and _is_link(self._archive, node):
            return self._writer.add(self._node(node))
        return node

    def _changed(self, node: Node) -> Node:
        """Change one value somewhere in a block."""
        if isinstance(node, dict) and node and self._chance.random() < 0.95:
            name = self._chance.choice(sorted(node))
            if self._chance.random() < 0.1:
                return {key: value for key, value in node.items() if key != name}
            return {**node, name: self._changed(node[name])}
        if isinstance(node, list) and node and self._chance.random() < 0.9:
            at = self._chance.randrange(len(node))
            match self._chance.random():
                case chance if chance < 0.05:
                    return [*node[:at], *node[at + 1 :]]
                case chance if chance < 0.1:
                    return [*node, node[at]]
                case chance if chance < 0.15:
                    return node[::-1]
                case _:
                    return [*node[:at], self._changed(node[at]), *node[at + 1 :]]
        return self._other(node)

    def _other(self, value: Node) -> Node:
        choice = self._chance
        if isinstance(value, bytes) and value and choice.random() < 0.8:
            at = choice.randrange(len(value))
            return value[:at] + bytes([value[at] ^ 1 << choice.randrange(8)]) + value[at + 1 :]
        if isinstance(value, str) and choice.random() < 0.6:
            return choice.choice([value + "x", value[:-1], "", "\x00", value * 2, "../../x", "constellation"])
        if isinstance(value, int) and choice.random() < 0.7:
            return choice.choice([value + 1, -value, 0, (1 << 63) - 1, -(1 << 63), not value])
        return choice.choice(cast("list[Node]", [None, 0, "", b"", [], {}, True, "text", 1 << 40, ["hex", "zz"]]))


def _read(archive: ArchiveReader, cid: bytes) -> Node:
    return cast("Node", archive.read(cid, object))


def _is_link(archive: ArchiveReader, value: bytes) -> bool:
    if len(value) != CID_BYTES:
        return False
    try:
        archive.read(value, object)
    except PatternError:
        return False
    return True


def _reached(archive: ArchiveReader, cid: bytes) -> Iterator[bytes]:
    yield cid
    yield from _links_in(archive, _read(archive, cid))


def _links_in(archive: ArchiveReader, node: Node) -> Iterator[bytes]:
    if isinstance(node, dict):
        for value in node.values():
            yield from _links_in(archive, value)
    elif isinstance(node, list):
        for value in node:
            yield from _links_in(archive, value)
    elif isinstance(node, bytes) and _is_link(archive, node):
        yield from _reached(archive, node)


def take(tx: Transaction, content: bytes) -> None:
    """Import an archive; whatever came is sound, and goes again."""
    archive = read_archive(BytesIO(content))
    choices: dict[int, Conflicts] = {one.number: "both" for one in proposals(tx, archive, {}) if one.is_open}
    accept(tx, archive, {}, choices, now_ms=NOW)
    broken = [one.detail for one in check_rows(tx) if one.health is Health.BROKEN]
    if broken:
        raise AssertionError("; ".join(broken))
    raise RolledBackError


async def try_it(database: Database, content: bytes) -> str:
    """Import an archive and take it back; the sentence of a refusal."""
    before = await database.read(state)
    try:
        await database.write(lambda tx: take(tx, content))
    except RolledBackError:
        return ""
    except PatternError as error:
        assert await database.read(state) == before
        return error.sentence
    raise AssertionError("unreachable")


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 1 << 62))
def test_a_changed_archive_is_refused_by_a_sentence_or_is_sound(archived: bytes, seed: int, tmp_path: Path):
    async def run() -> None:
        async with open_database(tmp_path / "constellation.db", clock=FakeClock()) as database:
            sentence = await try_it(database, Mutator(archived, random.Random(seed)).mutated())
            assert sentence == "" or sentence.endswith(".")

    anyio.run(run)


@pytest.mark.slow
async def test_of_a_thousand_changed_archives_none_does_harm(archived: bytes, tmp_path: Path):
    assert 0 < await refusals(tmp_path, archived, 1_000) < 1_000


async def refusals(folder: Path, content: bytes, count: int) -> int:
    """Import so many archives, each changed otherwise; the number of those that were refused."""
    refused = 0
    async with open_database(folder / "constellation.db", clock=FakeClock()) as database:
        for seed in range(count):
            sentence = await try_it(database, Mutator(content, random.Random(seed)).mutated())
            assert sentence == "" or sentence.endswith("."), seed
            refused += bool(sentence)
    return refused


async def many(folder: Path, count: int) -> None:
    """Print what became of so many archives."""
    refused = await refusals(folder, await anyio.to_thread.run_sync(make_archive, folder), count)
    sys.stdout.write(f"{count:,} archives: {refused:,} refused, {count - refused:,} sound, none half imported\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        anyio.run(many, Path(name), int(sys.argv[1]))
