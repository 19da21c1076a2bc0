"""What a checkpoint holds after turns that changed files in every way."""

import os
import sys
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import RunCommand
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.domain.tool_calls import MISSING, StopReason
from pattern_acp.journal.contents import read_content
from pattern_acp.journal.events import CheckpointTaken, FilesSaved, TurnEnded
from pattern_acp.journal.history import read_history
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.rewind.plan import list_points
from pattern_acp.turn.recorder import NewEvent
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, gate, says
from tests.support.turns import events_of, of_type, prompting

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permission bits of POSIX")


async def content(agent: RunningAgent, digest: str) -> bytes | None:
    return await agent.database.read(lambda tx: read_content(tx, digest))


async def test_a_turn_that_changes_files_ends_with_a_checkpoint_of_both_sides_and_another_turn_with_one_of_none():
    edit = calls("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}])
    model = ScriptedProvider(
        [
            calls("read_file", path="a.txt"),
            edit,
            calls("write_file", path="sub/new.txt", content="n\n"),
            says("Done."),
            says("Nothing to do."),
        ]
    )
    async with running_agent(model, settings=AUTO) as agent:
        (agent.folder / "a.txt").write_text("one\n")
        (agent.folder / "a.txt").chmod(0o640)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Change it.")
        events = await events_of(agent, session)
        [taken] = of_type(events, CheckpointTaken)
        assert taken.cause == "turn"
        assert [Path(change.path).name for change in taken.changes] == ["a.txt", "new.txt"]
        edited, new = taken.changes
        assert (await content(agent, edited.before.digest), edited.before.mode) == (b"one\n", 0o640)
        assert (await content(agent, edited.after.digest), edited.after.mode) == (b"two\n", 0o640)
        assert new.before == MISSING
        assert taken.memory
        assert len(taken.state_hash) == 64
        # What was there is kept before it is changed, and the turn's end comes before its checkpoint.
        kinds = [type(event) for event in events]
        assert kinds.index(FilesSaved) < kinds.index(TurnEnded) < kinds.index(CheckpointTaken)
        await agent.editor.prompt(session, "And now?")
        events = await events_of(agent, session)
        _, nothing = of_type(events, CheckpointTaken)
        assert (nothing.cause, nothing.changes, nothing.turn_id) == ("turn", (), of_type(events, TurnEnded)[-1].turn_id)
        assert isinstance(events[nothing.position - 1], TurnEnded)


async def test_what_a_command_changes_is_found_and_a_command_that_reads_is_not_looked_at():
    line = "printf x > made.txt; rm gone.txt; chmod 600 kept.txt; mv old.txt new.txt"
    model = ScriptedProvider(
        [
            calls("write_file", path="w.txt", content="w"),
            calls("run_command", command=line),
            says("Ran."),
            calls("run_command", command="ls"),
            says("Looked."),
        ]
    )
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        for name in ("gone.txt", "kept.txt", "old.txt"):
            (agent.folder / name).write_text(name)
        (agent.folder / "kept.txt").chmod(0o644)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Run.")
        first, second = of_type(await events_of(agent, session), CheckpointTaken)
        assert (first.cause, second.cause) == ("tool", "turn")
        changes = {Path(change.path).name: change for change in second.changes}
        assert set(changes) == {"made.txt", "gone.txt", "kept.txt", "old.txt", "new.txt"}
        assert await content(agent, changes["gone.txt"].before.digest) == b"gone.txt"
        assert (changes["kept.txt"].before.mode, changes["kept.txt"].after.mode) == (0o644, 0o600)
        assert changes["made.txt"].before == changes["old.txt"].after == MISSING
        await agent.editor.prompt(session, "Look.")
        *_, third = of_type(await events_of(agent, session), CheckpointTaken)
        assert (third.cause, third.changes) == ("turn", ())


async def test_commands_and_cancelled_turns_end_with_a_checkpoint_and_moments_are_listed_as_before():
    waits = gate()
    async with running_agent(ScriptedProvider([[waits], says("Done.")]), settings=AUTO) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason() == "cancelled"
        await agent.editor.prompt(session, "/usage")
        await agent.editor.prompt(session, "Go on.")
        events = await events_of(agent, session)
        ended, taken = of_type(events, TurnEnded), of_type(events, CheckpointTaken)
        assert [checkpoint.turn_id for checkpoint in taken] == [end.turn_id for end in ended]
        assert len(taken) == 3
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert [point.kind for point in list_points(recorded)] == ["turn", "turn"]


async def test_the_end_of_a_turn_and_its_checkpoint_are_one_transaction():
    async with running_agent(ScriptedProvider([says("Done.")]), settings=AUTO) as agent:
        session = await agent.editor.open_session(str(agent.folder))

        def fail(tx: Transaction) -> None:
            raise DatabaseError("no")

        recorder = agent.sessions.get(session).recorder
        before = await events_of(agent, session)
        with pytest.raises(DatabaseError):
            await recorder.record(NewEvent(TurnEnded(TurnId("turn_1"), StopReason.END_TURN)), behind=fail)
        assert await events_of(agent, session) == before


async def test_credentials_and_files_outside_are_named_and_not_kept():
    model = ScriptedProvider([calls("write_file", path=".env", content="SECRET=1\n"), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Write.")
        [taken] = of_type(await events_of(agent, session), CheckpointTaken)
        assert taken.changes == ()
        assert [left.why for left in taken.left_out] == ["it looks like credentials"]


async def test_what_is_being_changed_when_another_call_takes_a_checkpoint_is_not_lost():
    async with running_agent(ScriptedProvider([]), settings=AUTO) as agent:
        session_id = await agent.editor.open_session(str(agent.folder))
        checkpoints = agent.sessions.get(session_id).checkpoints
        path = agent.folder / "a.txt"
        await checkpoints.before_change([str(path)])
        await checkpoints.take("tool")
        path.write_text("new")
        await checkpoints.after_change([str(path)])
        assert not checkpoints.is_clean
        await checkpoints.take("turn")
        changes = [taken.changes for taken in of_type(await events_of(agent, session_id), CheckpointTaken)]
        assert [[Path(change.path).name for change in each] for each in changes] == [[], ["a.txt"]]


async def test_a_change_that_two_commands_side_by_side_saw_counts_once():
    async with running_agent(ScriptedProvider([]), settings=AUTO) as agent:
        session_id = await agent.editor.open_session(str(agent.folder))
        checkpoints = agent.sessions.get(session_id).checkpoints
        access = (RunCommand("make", str(agent.folder)),)
        async with checkpoints.around(TurnId("turn_1"), access), checkpoints.around(TurnId("turn_1"), access):
            (agent.folder / "a.txt").write_text("new")
        await checkpoints.take("turn")
        [taken] = of_type(await events_of(agent, session_id), CheckpointTaken)
        assert len(taken.changes) == 1


async def test_the_constellation_itself_is_never_kept_though_it_lies_in_the_folder():
    model = ScriptedProvider([calls("run_command", command="echo x > made.txt"), says("Ran.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        assert agent.database.path.is_relative_to(agent.folder)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Run.")
        [taken] = of_type(await events_of(agent, session), CheckpointTaken)
        assert [Path(change.path).name for change in taken.changes] == ["made.txt"]
        assert taken.left_out == ()


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no UTF-8")
async def test_a_folder_in_the_place_of_a_link_and_a_name_that_is_no_utf_8_go_back_and_come_again():
    named = os.fsdecode(b"bad\xff.txt")
    command = "rm link; mkdir link; echo 1 > link/one; for f in bad*; do echo more >> $f; done"
    model = ScriptedProvider([calls("run_command", command=command), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "real").mkdir()
        (agent.folder / "real" / "one").write_text("of the real one\n")
        (agent.folder / "link").symlink_to("real")
        (agent.folder / named).write_text("bad\n")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Change them.")
        for _ in range(2):
            await agent.editor.prompt(session, "/rewind 1 yes")
            assert (agent.folder / "link").readlink() == Path("real")
            assert (agent.folder / named).read_text() == "bad\n"
            await agent.editor.prompt(session, "/rewind undo yes")
            assert (agent.folder / "link" / "one").read_text() == "1\n"
            assert (agent.folder / named).read_text() == "bad\nmore\n"
            assert (agent.folder / "real" / "one").read_text() == "of the real one\n"
        assert "was not put back" not in agent.editor.said()
        assert [path.name for path in agent.folder.iterdir() if path.name.startswith("bad")] == [named]


@pytest.mark.parametrize("in_git", [False, pytest.param(True, marks=pytest.mark.needs("git"))])
async def test_a_folder_that_was_moved_and_linked_to_comes_back_with_what_was_in_it(in_git: bool):
    # The old paths still lead to the same bytes, through the link.
    command = "mv kept moved; ln -s moved kept; echo new > kept/new.txt"
    model = ScriptedProvider([calls("run_command", command=command), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "kept" / "deep").mkdir(parents=True)
        (agent.folder / "kept" / "one.txt").write_text("one\n")
        (agent.folder / "kept" / "deep" / "two.txt").write_text("two\n")
        if in_git:
            commit = "git init -q && git add -A kept && git -c user.name=t -c user.email=t@example.org commit -qm 1"
            await anyio.run_process(["sh", "-c", commit], cwd=agent.folder)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Move it.")
        for _ in range(2):
            await agent.editor.prompt(session, "/rewind 1 files yes")
            assert not (agent.folder / "kept").is_symlink()
            assert (agent.folder / "kept" / "one.txt").read_text() == "one\n"
            assert (agent.folder / "kept" / "deep" / "two.txt").read_text() == "two\n"
            assert not (agent.folder / "kept" / "new.txt").exists()
            assert not (agent.folder / "moved").exists()
            await agent.editor.prompt(session, "/rewind undo yes")
            assert (agent.folder / "kept").readlink() == Path("moved")
            assert (agent.folder / "moved" / "deep" / "two.txt").read_text() == "two\n"
            assert (agent.folder / "moved" / "new.txt").read_text() == "new\n"
        assert "was not put back" not in agent.editor.said()
