"""An archive carries memory and sessions from one constellation to another: all of it, once, and nothing else."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.carry.arrival import (
    Conflicts,
    ImportReport,
    NewerArchiveError,
    Proposal,
    accept,
    proposals,
    read_contents,
)
from pattern_acp.carry.car import ArchiveDamagedError, ArchiveWriter, read_archive
from pattern_acp.carry.export import (
    FORMAT,
    PAGE_BYTES,
    ChainedEvent,
    Choice,
    ExportReport,
    History,
    SessionRecord,
    export,
)
from pattern_acp.config.settings import PolicySettings, Settings
from pattern_acp.db.connection import Database, Row, Transaction, open_database
from pattern_acp.db.table_rows import all_rows, columns_of
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId, ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.tool_calls import MISSING, FileChange
from pattern_acp.journal.events import ArchiveImported, LandingStarted, SessionConfigured, SessionTitled
from pattern_acp.journal.leases import acquire, this_process
from pattern_acp.journal.reader import read_everywhere, verify_stream
from pattern_acp.journal.sessions import set_option, set_title
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.history import blame_lines, list_writes, read_history, text_of_version
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.access import ARCHIVE, MemoryEdit
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.store import load_block
from pattern_acp.memory.write_validation import SecretRule
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.recovery.checks import Health, check_rows
from pattern_acp.workspace.snapshots import capture_in_place
from tests.support.agent import RunningAgent, record_session, running_agent
from tests.support.constellation import FakeClock
from tests.support.editor import JsonDict
from tests.support.scripts import calls, says

NOW = FakeClock().now_ms() + 10_000_000
PROJECT, OTHER = "/project", "/elsewhere"
KEY = "sk-" + "ant-api03-" + "Zx8Qw1Er2Ty3Ui4Op5As6Df7Gh8Jk9Lz0Xc1Vb2Nm3" * 2


@asynccontextmanager
async def home(folder: Path) -> AsyncGenerator[Database, None]:
    await anyio.Path(folder).mkdir(exist_ok=True)
    async with open_database(folder / "constellation.db", clock=FakeClock()) as database:
        yield database


def memory_of(database: Database, project: str = PROJECT, *, peer: int = 7) -> ConstellationMemory:
    owner = MemoryScope("tester", project, SessionId(CONSTELLATION_STREAM))
    rules = MemoryRules(secrets=SecretRule.ASK)
    return ConstellationMemory(
        database, owner, clock=FakeClock(), ids=RandomIds(), peer=peer, writer=PERSON, rules=rules
    )


async def say(database: Database, label: str, text: str, *, project: str = PROJECT, peer: int = 7) -> None:
    await memory_of(database, project, peer=peer).commit(MemoryEdit(label, "append", text, reason="It was said."), None)


async def fill(database: Database) -> None:
    """Memory of every kind: blocks with a history, facts, a trap."""
    memory = memory_of(database)
    for text in ("The port is 7433.", "Build with ninja.", "Test with pytest."):
        await memory.commit(MemoryEdit("project", "append", text), None)
    await memory.commit(MemoryEdit("project", "replace", "Build with make.", old_text="Build with ninja."), None)
    await memory.commit(MemoryEdit(ARCHIVE, "append", "The parser is recursive descent."), None)
    await memory.commit(MemoryEdit(ARCHIVE, "append", "gen is generated.", kind="trap", paths=("gen/**",)), None)


async def talk(database_file: Path, folder: Path, prompt: str = "Where is it?", answer: str = "There.") -> str:
    await anyio.Path(folder).mkdir(exist_ok=True)
    await anyio.Path(folder / "a.txt").write_text("x\n", encoding="utf-8")
    model = ScriptedProvider([says("Let me look.") + calls("read_file", path="a.txt"), says(answer)])
    return await record_session(database_file, folder, model, prompt)


async def leave(
    database: Database, file: Path, choice: Choice | None = None, project_of: Callable[[str], str] = str
) -> ExportReport:
    with file.open("w+b") as into:
        return await database.read(lambda tx: export(tx, into, choice or Choice(), SecretMask(), project_of))


async def arrive(
    database: Database, file: Path, conflicts: Conflicts = "both", chosen: set[int] | None = None
) -> ImportReport:
    with file.open("rb") as opened:
        archive = read_archive(opened)
        found = await database.read(lambda tx: proposals(tx, archive, {}))
        choices: dict[int, Conflicts] = {
            one.number: conflicts for one in found if chosen is None or one.number in chosen
        }
        return await database.write(lambda tx: accept(tx, archive, {}, choices, now_ms=NOW))


async def offered(database: Database, file: Path) -> tuple[Proposal, ...]:
    with file.open("rb") as opened:
        archive = read_archive(opened)
        return await database.read(lambda tx: proposals(tx, archive, {}))


async def text_of(database: Database, label: str = "project", owner: str = PROJECT) -> str:
    return (await database.read(lambda tx: load_block(tx, BlockKey(Scope.PROJECT, owner, label)))).text


def state(tx: Transaction) -> dict[str, list[Row]]:
    tables = ("events", "blocks", "block_updates", "archival_entries", "bound_entries", "sessions", "origins", "usage")
    return {table: all_rows(tx, table, columns_of(tx, table)) for table in tables}


async def is_sound(database: Database) -> list[str]:
    findings = await database.write(lambda tx: list(check_rows(tx)))
    return [one.detail for one in findings if one.health is Health.BROKEN]


async def test_what_is_exported_imported_and_exported_again_is_the_same_to_the_byte(tmp_path: Path):
    file, again = tmp_path / "a.car", tmp_path / "b.car"
    async with home(tmp_path / "one") as one:
        await fill(one)
    session = await talk(tmp_path / "one" / "constellation.db", tmp_path / "work")
    async with home(tmp_path / "one") as one:
        report = await leave(one, file)
        assert (report.blocks, report.entries, report.sessions, report.left_out) == (6, 2, 1, [])
        blamed = await one.read(_blame)
    async with home(tmp_path / "two") as two:
        taken = await arrive(two, file)
        assert (taken.blocks, taken.facts, taken.sessions) == (6, 2, 1)
        assert await is_sound(two) == []
        assert await text_of(two) == "The port is 7433.\nBuild with make.\nTest with pytest."
        assert await two.read(_blame) == blamed
        assert (await two.read(lambda tx: verify_stream(tx, session))).ok
        assert (await leave(two, again)).root == report.root
        hits = await memory_of(two).search("recursive descent parser", 3)
        assert "recursive descent" in hits[0].text
    assert again.read_bytes() == file.read_bytes()


def _blame(tx: Transaction) -> list[tuple[str, int]]:
    block = load_block(tx, BlockKey(Scope.PROJECT, PROJECT, "project"))
    return [(line.text, line.number) for line in blame_lines(read_history(tx, block))]


async def test_importing_twice_changes_nothing(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one:
        await fill(one)
        await leave(one, file)
        before = await one.read(state)
        assert (await arrive(one, file)).events == 0
        assert await one.read(state) == before
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
        before = await two.read(state)
        assert {one.state for one in await offered(two, file)} == {"known"}
        assert (await arrive(two, file)).events == 0
        assert await two.read(state) == before


async def test_where_an_event_came_from_is_recorded_and_chained(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one:
        await fill(one)
        report = await leave(one, file)
        (first,) = await one.read(lambda tx: tx.all("SELECT hash FROM events WHERE seq = 1"))
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
        imported = [entry.event for entry in await two.read(lambda tx: read_everywhere(tx, ArchiveImported))]
        assert [(event.root, event.stores) for event in imported if isinstance(event, ArchiveImported)] == [
            (report.root, (first[0],))
        ]
        block = await two.read(lambda tx: load_block(tx, BlockKey(Scope.PROJECT, PROJECT, "project")))
        writes = await two.read(lambda tx: list_writes(tx, block))
        assert {write.store for write in writes} == {first[0]}
        assert (await two.read(lambda tx: verify_stream(tx, CONSTELLATION_STREAM))).ok
        await two.write(lambda tx: tx.execute("UPDATE origins SET store = 'somebody' WHERE seq = 3"))
        assert any("says another origin" in problem for problem in await is_sound(two))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_by_name_and_nothing_is_imported(archived: bytes, at: float, bit: int, tmp_path: Path):
    content = bytearray(archived)
    content[int(at * len(content))] ^= 1 << bit
    file = tmp_path / "flipped.car"
    file.write_bytes(content)

    async def refused() -> None:
        async with home(tmp_path / "two") as two:
            before = await two.read(state)
            with pytest.raises(ArchiveDamagedError):
                await arrive(two, file)
            assert await two.read(state) == before

    anyio.run(refused)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_short_is_refused(archived: bytes, length: float, tmp_path: Path):
    file = tmp_path / "short.car"
    file.write_bytes(archived[: int(length * len(archived))])
    with file.open("rb") as opened, pytest.raises(ArchiveDamagedError):
        read_archive(opened)


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("archived")

    async def make() -> None:
        async with home(folder / "one") as one:
            await fill(one)
            await leave(one, folder / "a.car")

    anyio.run(make)
    return (folder / "a.car").read_bytes()


async def test_writes_of_both_sides_are_merged_and_both_sides_end_with_the_same(tmp_path: Path):
    there, back = tmp_path / "there.car", tmp_path / "back.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await say(one, "project", "The port is 7433.")
        await leave(one, there)
        await arrive(two, there)
        await say(one, "project", "One says this.", peer=8)
        await say(two, "project", "Two says that.", peer=9)
        await leave(one, there)
        assert [(each.state, each.about) for each in await offered(two, there) if each.name == "project"] == [
            ("changed", "1 write more than here, and it continued here too")
        ]
        await arrive(two, there)
        await leave(two, back)
        await arrive(one, back)
        assert await text_of(one) == await text_of(two)
        assert {"One says this.", "Two says that."} <= set((await text_of(one)).splitlines())
        assert await is_sound(one) == await is_sound(two) == []
        await leave(one, there)
        assert {each.state for each in await offered(two, there)} == {"known"}


@pytest.mark.parametrize(
    ("conflicts", "text"),
    [("mine", "The port is 7433.\nTwo says that."), ("theirs", "The port is 7433.\nOne says this.")],
)
async def test_where_both_sides_wrote_one_of_them_can_be_chosen(tmp_path: Path, conflicts: Conflicts, text: str):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await say(one, "project", "The port is 7433.")
        await leave(one, file)
        await arrive(two, file)
        await say(one, "project", "One says this.", peer=8)
        await say(two, "project", "Two says that.", peer=9)
        await leave(one, file)
        await arrive(two, file, conflicts)
        assert await text_of(two) == text
        assert await is_sound(two) == []


@pytest.mark.parametrize(
    ("conflicts", "mine"), [("mine", "Two began."), ("theirs", "One began."), ("both", "Two began.")]
)
async def test_another_block_of_the_same_label_stays_gives_way_or_stands_beside(
    tmp_path: Path, conflicts: Conflicts, mine: str
):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await say(one, "project", "One began.")
        await say(two, "project", "Two began.")
        await leave(one, file, Choice(project=PROJECT))
        [(conflict)] = await offered(two, file)
        assert conflict.state == "conflict"
        report = await arrive(two, file, conflicts)
        assert await text_of(two) == mine
        assert report.kept_mine == (1 if conflicts == "mine" else 0)
        if conflicts == "both":
            assert await text_of(two, f"project-{conflict.stores[0][:6]}") == "One began."
        assert await is_sound(two) == []
        assert (await arrive(two, file, "both")).events == 0 if conflicts != "mine" else True


@pytest.mark.parametrize(("history", "writes"), [("none", 1), ("recent", 21), ("full", 31)])
async def test_history_goes_along_as_far_as_it_is_wanted(tmp_path: Path, history: History, writes: int):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        for number in range(30):
            await say(one, "project", f"Fact number {number}.")
        await leave(one, file, Choice(history=history))
        await arrive(two, file)
        assert await text_of(two) == await text_of(one)
        block = await two.read(lambda tx: load_block(tx, BlockKey(Scope.PROJECT, PROJECT, "project")))
        assert block.head_update == writes
        assert await is_sound(two) == []
        if history == "recent":
            read = await two.read(lambda tx: read_history(tx, block))
            assert text_of_version(read, 20).splitlines()[-1] == "Fact number 28."
        before = await two.read(state)
        await arrive(two, file)
        assert await two.read(state) == before
        if history != "recent":
            again = tmp_path / "b.car"
            await leave(two, again, Choice(history=history))
            assert again.read_bytes() == file.read_bytes()


async def test_only_what_is_chosen_leaves(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one:
        await say(one, "project", "The canary sings.", project=OTHER)
        await say(one, "human", "They drink tea.")
        await say(one, "project", "The port is 7433.")
        await leave(one, file, Choice(project=PROJECT))
    for word in (b"canary", b"tea", OTHER.encode()):
        assert word not in file.read_bytes()
    assert b"7433" in file.read_bytes()


async def test_a_persona_a_session_or_a_day_can_be_chosen_alone(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one:
        await say(one, "human", "They drink tea.")
        await say(one, "project", "The port is 7433.")
        changed_ms = FakeClock().now_ms()
    sessions = [await talk(tmp_path / "one" / "constellation.db", tmp_path / "work", word) for word in ("one", "two")]
    async with home(tmp_path / "one") as one:
        rows = await one.read(lambda tx: tx.all("SELECT persona, max(updated_ms) FROM sessions"))
        ((persona, talked_ms),) = rows

        async def chosen(choice: Choice) -> set[str]:
            await leave(one, file, choice)
            async with open_database(tmp_path / "empty.db", clock=FakeClock()) as empty:
                return {each.name for each in await offered(empty, file)}

        everything = await chosen(Choice())
        assert everything >= {"human", "project", "one", "two"}
        assert await chosen(Choice(persona="tester")) == await chosen(Choice(persona="tester", since_ms=changed_ms))
        assert "human" in await chosen(Choice(persona="tester"))
        assert not {"project", "one", "two"} & await chosen(Choice(persona="tester"))
        assert {"one", "two"} <= await chosen(Choice(persona=str(persona)))
        assert await chosen(Choice(session=sessions[0])) == {"one"}
        assert await chosen(Choice(since_ms=max(int(str(talked_ms)), changed_ms) + 1)) == set()
        assert await chosen(Choice(since_ms=1)) == everything


async def test_secrets_stay_where_they_are(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one:
        await say(one, "project", f"The key is {KEY}.")
        await say(one, "human", "They drink tea.")
    session = await talk(
        tmp_path / "one" / "constellation.db", tmp_path / "work", f"Use {KEY} for it.", f"I see {KEY}."
    )
    async with home(tmp_path / "one") as one:
        report = await leave(one, file)
    assert report.left_out == ["The memory block project seems to hold a secret, so it stays here."]
    assert report.masked > 0
    assert KEY.encode() not in file.read_bytes()
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
        assert await is_sound(two) == []
        assert (await two.read(lambda tx: verify_stream(tx, session))).ok
        again = tmp_path / "b.car"
        await leave(two, again)
    assert again.read_bytes() == file.read_bytes()


def set_mode(tx: Transaction, session: SessionId, mode: str) -> None:
    """Choose a mode as the user does."""
    event = SessionConfigured("mode", mode, "client")
    seq = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=NOW).seq
    set_option(tx, session, "mode", mode, seq=seq, at_ms=NOW)


async def opened_mode(agent: RunningAgent, session: str, how: str = "load") -> str:
    """The mode that a session is opened in."""
    params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
    opened = await agent.editor.request(f"session/{how}", params)
    return agent.sessions.get(opened.get("sessionId", session)).state.policy.mode


async def test_a_fork_comes_with_its_parent_whatever_their_events_are_called_there(tmp_path: Path):
    file, moved, folder = tmp_path / "a.car", tmp_path / "two" / "constellation.db", tmp_path / "work"
    folder.mkdir()
    async with running_agent(ScriptedProvider([says("There.")] * 2), database=tmp_path / "one.db") as agent:
        params: JsonDict = {"cwd": str(folder), "mcpServers": []}
        session = (await agent.editor.request("session/new", params))["sessionId"]
        await agent.editor.prompt(session, "Where is it?")
        fork = (await agent.editor.request("session/fork", {**params, "sessionId": session}))["sessionId"]
        await agent.editor.prompt(fork, "And the other one?")
    async with open_database(tmp_path / "one.db", clock=FakeClock()) as one:
        await leave(one, file)
    async with home(tmp_path / "two") as two:
        # What is here already gives every event that comes another number.
        await fill(two)
        await arrive(two, file)
        assert await is_sound(two) == []
    async with running_agent(ScriptedProvider([says("Here.")]), database=moved) as agent:
        await agent.editor.request("session/load", {**params, "sessionId": fork})
        assert "Where is it?" in str(agent.editor.updates)


async def test_a_session_from_elsewhere_begins_with_no_more_than_a_new_one_may_here(tmp_path: Path):
    file, again, moved = tmp_path / "a.car", tmp_path / "b.car", tmp_path / "two" / "constellation.db"
    session = SessionId(await talk(tmp_path / "one.db", tmp_path / "work"))
    async with open_database(tmp_path / "one.db", clock=FakeClock()) as one:
        await one.write(lambda tx: set_mode(tx, session, "auto"))
        await leave(one, file)
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
        assert await is_sound(two) == []
        assert await two.read(lambda tx: tx.all("SELECT count(*) FROM grants")) == [(0,)]
        # Nothing is added to it before somebody uses it, or it could not be brought up to date.
        await leave(two, again)
    assert again.read_bytes() == file.read_bytes()
    remembering = Settings(policy=PolicySettings(remember_mode=True))
    async with running_agent(ScriptedProvider([says("Yes."), says("Yes.")]), database=moved) as agent:
        assert await opened_mode(agent, session, "fork") == "ask"
        assert await opened_mode(agent, session) == "ask"
        sentence = "where its mode was auto. Here it continues in ask"
        await agent.editor.prompt(session, "Are you here?")
        assert agent.editor.said().count(sentence) == 1
    async with running_agent(ScriptedProvider([says("Yes.")]), database=moved) as agent:
        assert await opened_mode(agent, session) == "ask"
        await agent.editor.prompt(session, "Still here?")
        # The one of the day before, replayed.
        assert agent.editor.said().count(sentence) == 1
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "auto"})
    async with running_agent(ScriptedProvider([says("Yes.")]), database=moved, settings=remembering) as agent:
        assert await opened_mode(agent, session) == "auto"
        new = await agent.editor.open_session(str(tmp_path / "work"))
        assert agent.sessions.get(new).state.policy.mode == "ask"


async def test_a_session_from_elsewhere_in_a_mode_that_may_do_less_stays_in_it(tmp_path: Path):
    file = tmp_path / "a.car"
    session = SessionId(await talk(tmp_path / "one.db", tmp_path / "work"))
    async with open_database(tmp_path / "one.db", clock=FakeClock()) as one:
        await one.write(lambda tx: set_mode(tx, session, "plan"))
        await leave(one, file)
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
    settings = Settings(mode="edit")
    database = tmp_path / "two" / "constellation.db"
    async with running_agent(ScriptedProvider([]), database=database, settings=settings) as agent:
        assert await opened_mode(agent, session) == "plan"


async def test_what_was_cut_off_on_another_machine_changes_no_file_here(tmp_path: Path):
    file, made = tmp_path / "a.car", tmp_path / "work" / "made.txt"
    session = SessionId(await talk(tmp_path / "one.db", tmp_path / "work"))
    made.write_text("Mine.\n", encoding="utf-8")
    after = (await anyio.to_thread.run_sync(capture_in_place, str(made))).state
    files = (FileChange(str(made), MISSING, after),)

    def cut_off(tx: Transaction) -> None:
        started = LandingStarted("land_1", TurnId("turn_1"), ToolCallId("call_1"), (), files)
        append(tx, session, started, actor=Actor.SYSTEM, origin=Origin.MEMORY, at_ms=NOW)

    async with open_database(tmp_path / "one.db", clock=FakeClock()) as one:
        await one.write(cut_off)
        await leave(one, file)
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
    async with running_agent(ScriptedProvider([]), database=tmp_path / "two" / "constellation.db") as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(tmp_path / "work"), "mcpServers": []}
        await agent.editor.request("session/load", params)
    assert made.read_text(encoding="utf-8") == "Mine.\n"


async def test_a_session_that_went_on_is_brought_up_to_date_and_one_that_parted_is_not(tmp_path: Path):
    file = tmp_path / "a.car"
    session = SessionId(await talk(tmp_path / "one.db", tmp_path / "work"))

    def title(name: str) -> Callable[[Transaction], None]:
        def write(tx: Transaction) -> None:
            event = SessionTitled(name)
            seq = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=NOW).seq
            set_title(tx, session, name, seq=seq, at_ms=NOW)

        return write

    async with open_database(tmp_path / "one.db", clock=FakeClock()) as one, home(tmp_path / "two") as two:
        await leave(one, file)
        await arrive(two, file)
        await one.write(title("It went on"))
        await leave(one, file)
        assert [(each.state, each.about) for each in await offered(two, file) if each.kind == "session"] == [
            ("changed", "1 events more than here")
        ]
        held = this_process("a window")
        await two.write(lambda tx: acquire(tx, session, held, NOW))
        with pytest.raises(ArchiveDamagedError, match="close it there, and import again"):
            await arrive(two, file)
        await two.write(lambda tx: tx.execute("DELETE FROM leases"))
        await arrive(two, file)
        assert await is_sound(two) == []
        await one.write(title("One way"))
        await two.write(title("Another way"))
        await leave(one, file)
        (parted,) = (each for each in await offered(two, file) if each.kind == "session")
        assert parted.state == "gone"
        assert "fork one of them" in parted.about
        assert (await arrive(two, file)).sessions == 0


async def test_one_thing_can_be_accepted_alone(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await fill(one)
        await leave(one, file)
        trap = next(each for each in await offered(two, file) if each.about == "trap")
        report = await arrive(two, file, chosen={trap.number})
        assert (report.blocks, report.facts) == (0, 1)
        assert await is_sound(two) == []


async def test_facts_that_were_damaged_here_before_do_not_make_an_archive_unsound(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await memory_of(one).commit(MemoryEdit(ARCHIVE, "append", "The parser is recursive descent."), None)
        await memory_of(two).commit(MemoryEdit(ARCHIVE, "append", "The port is 7433."), None)
        await two.write(lambda tx: tx.execute("UPDATE archival_entries SET check_command = 'true'"))
        await leave(one, file)
        assert (await arrive(two, file)).facts == 1
        assert any("text or check_command" in problem for problem in await is_sound(two))


async def test_nothing_is_merged_into_a_block_that_is_damaged_here(tmp_path: Path):
    file = tmp_path / "a.car"
    async with home(tmp_path / "one") as one, home(tmp_path / "two") as two:
        await say(one, "project", "The port is 7433.")
        await leave(one, file)
        await arrive(two, file)
        await say(one, "project", "Build with ninja.", peer=8)
        await leave(one, file)
        await two.write(lambda tx: tx.execute("UPDATE block_updates SET reason = 'Another.' WHERE number = 2"))
        before = await two.read(state)
        with pytest.raises(PatternError, match="The memory block project is damaged here"):
            await arrive(two, file)
        assert await two.read(state) == before


async def test_large_events_are_in_pages_of_their_own(tmp_path: Path):
    file = tmp_path / "a.car"
    prompts = [letter * (PAGE_BYTES // 2) for letter in "ab"]
    await talk(tmp_path / "one.db", tmp_path / "work", prompts[0], prompts[1])
    async with open_database(tmp_path / "one.db", clock=FakeClock()) as one:
        await leave(one, file)
    with file.open("rb") as opened:
        archive = read_archive(opened)
        (page,) = read_contents(archive).sessions
        (session,) = archive.read(page, list[bytes])
        pages = archive.read(session, SessionRecord).events
        sizes = [sum(len(one.event.payload) for one in archive.read(each, list[ChainedEvent])) for each in pages]
    assert len(sizes) > 1
    assert max(sizes) <= PAGE_BYTES
    async with home(tmp_path / "two") as two:
        await arrive(two, file)
        assert await is_sound(two) == []


def test_an_archive_of_a_newer_program_and_a_file_of_another_kind_are_refused(tmp_path: Path):
    newer, other = tmp_path / "newer.car", tmp_path / "other.car"
    for file, name, form in ((newer, FORMAT, 99), (other, "something else", 1)):
        into = BytesIO()
        ArchiveWriter(into).finish({"format": name, "form": form, "schema": 1})
        file.write_bytes(into.getvalue())

    async def refused() -> None:
        async with home(tmp_path / "two") as two:
            with pytest.raises(NewerArchiveError, match="upgrade"):
                await offered(two, newer)
            with pytest.raises(ArchiveDamagedError, match="not an archive"):
                await offered(two, other)

    anyio.run(refused)
