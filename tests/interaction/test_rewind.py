"""/checkpoint, /checkpoints and /rewind over the wire."""

import json
import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.journal.events import SessionRewound
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.redaction import RedactionWanted, redact_session
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.heard import conversation
from tests.support.scripts import Turn, calls, gate, says
from tests.support.turns import events_of, of_type, prompting

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permission bits of POSIX")


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


def write(path: str, content: str) -> Turn:
    return calls("write_file", path=path, content=content)


async def opened(agent: RunningAgent) -> str:
    return await agent.editor.open_session(str(agent.folder))


async def test_files_conversation_and_memory_go_back_together_and_an_undo_brings_them_again():
    remember = calls("memory_write", label="human", operation="append", text="Likes plums.")
    model = ScriptedProvider(
        [
            write("a.txt", "one\n"),
            says("First done."),
            write("a.txt", "two\n"),
            calls("run_command", command="rm b.txt; chmod 700 run.sh; echo x > made"),
            remember,
            says("Second done."),
            says("Again."),
            says("And again."),
        ]
    )
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "b.txt").write_bytes(b"b\xff")
        (agent.folder / "run.sh").write_text("#!/bin/sh\n")
        (agent.folder / "run.sh").chmod(0o644)
        session = await opened(agent)
        await answer(agent, session, "Make the first.")
        await answer(agent, session, "Make the second.")
        assert (agent.folder / "a.txt").read_text() == "two\n"
        assert "plums" in await answer(agent, session, "/memory show human")
        listed = await answer(agent, session, "/rewind")
        assert "| `/rewind 1` | before “Make the first.” |" in listed
        assert "| `/rewind 2` | before “Make the second.” |" in listed
        said = await answer(agent, session, "/rewind 2")
        assert "**Back to before turn 2 (“Make the second.”).**" in said
        assert "The model no longer knows 1 turn" in said
        assert (agent.folder / "a.txt").read_text() == "one\n"
        assert (agent.folder / "b.txt").read_bytes() == b"b\xff"
        assert (agent.folder / "run.sh").stat().st_mode & 0o777 == 0o644
        assert not (agent.folder / "made").exists()
        assert "plums" not in await answer(agent, session, "/memory show human")
        await answer(agent, session, "What do you know?")
        heard = str(conversation(model.requests[-1]))
        assert "First done." in heard
        assert "second" not in heard.lower()
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        replayed = agent.editor.said()
        assert "First done." in replayed
        assert "Second done." not in replayed
        assert "**Back to before turn 2" in replayed
        said = await answer(agent, session, "/rewind undo")
        assert "The model knows 1 turn again." in said
        assert (agent.folder / "a.txt").read_text() == "two\n"
        assert not (agent.folder / "b.txt").exists()
        assert (agent.folder / "run.sh").stat().st_mode & 0o777 == 0o700
        assert (agent.folder / "made").read_text() == "x\n"
        assert "plums" in await answer(agent, session, "/memory show human")
        await answer(agent, session, "And now?")
        heard = str(conversation(model.requests[-1]))
        assert "Second done." in heard
        assert "What do you know?" not in heard


async def test_a_file_that_others_changed_is_kept_unless_the_person_says_so():
    model = ScriptedProvider([write("a.txt", "one\n"), write("b.txt", "b\n"), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await opened(agent)
        await answer(agent, session, "Write.")
        (agent.folder / "a.txt").write_text("the person's\n")
        said = await answer(agent, session, "/rewind 1 files")
        assert "1 file put back: `b.txt`" in said
        assert "Left as they are, since others changed them: `a.txt`" in said
        assert (agent.folder / "a.txt").read_text() == "the person's\n"
        assert not (agent.folder / "b.txt").exists()
        await answer(agent, session, "/rewind 1 files overwrite yes")
        assert not (agent.folder / "a.txt").exists()
        await answer(agent, session, "/rewind undo yes")
        assert (agent.folder / "a.txt").read_text() == "the person's\n"


@pytest.mark.first_version("diffs are patches")
async def test_the_preview_shows_turns_files_with_differences_and_conflicts_and_a_refusal_changes_nothing():
    asked: list[JsonDict] = []

    async def refuse(params: JsonDict) -> JsonDict:
        asked.append(params)
        return {"outcome": {"outcome": "selected", "optionId": "reject_once"}}

    model = ScriptedProvider([write("a.txt", "one\n"), write("b.txt", "b\n"), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=refuse) as agent:
        session = await opened(agent)
        await answer(agent, session, "Write them.")
        (agent.folder / "b.txt").write_text("mine\n")
        assert await answer(agent, session, "/rewind last") == "Nothing was changed."
        [params] = asked
        call = params["toolCall"]
        assert call["title"] == "Go back to before turn 1 (“Write them.”)"
        assert call["content"][0] == {
            "type": "diff",
            "path": str(agent.folder / "a.txt"),
            "oldText": "one\n",
            "newText": "",
        }
        text = "\n".join(item["content"]["text"] for item in call["content"] if item["type"] == "content")
        assert "- 1. Write them." in text
        assert "- `a.txt` is deleted" in text
        assert "- `b.txt` is deleted — conflict" in text
        assert [option["name"] for option in params["options"]] == [
            "Put back conversation, files and memory; 1 changed by others stay",
            "The conversation only",
            "Leave everything as it is",
        ]
        assert (agent.folder / "a.txt").read_text() == "one\n"
        assert of_type(await events_of(agent, session), SessionRewound) == []


async def test_only_the_conversation_goes_back_by_the_second_choice_or_by_its_word():
    model = ScriptedProvider([write("a.txt", "one\n"), says("Done."), says("Hello.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_always")) as agent:
        session = await opened(agent)
        await answer(agent, session, "Write.")
        await answer(agent, session, "/rewind 1")
        assert (agent.folder / "a.txt").read_text() == "one\n"
        assert "`/rewind undo` takes it back" in await answer(agent, session, "/rewind")
        await answer(agent, session, "Start anew.")
        assert "Write." not in str(conversation(model.requests[-1]))


async def test_a_named_checkpoint_is_a_moment_of_its_own_and_unknown_ones_are_named():
    model = ScriptedProvider([write("a.txt", "one\n"), says("Done."), write("a.txt", "two\n"), says("Done again.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        assert "There is nothing to go back to: every prompt" in await answer(agent, session, "/checkpoints")
        await answer(agent, session, "Write.")
        assert "Checkpoint `before the refactoring` is taken" in await answer(
            agent, session, "/checkpoint before the refactoring"
        )
        await answer(agent, session, "Write again.")
        assert "checkpoint: before the refactoring" in await answer(agent, session, "/checkpoints")
        await answer(agent, session, "/rewind before the refactoring yes")
        assert (agent.folder / "a.txt").read_text() == "one\n"
        assert "There is no turn or checkpoint 'nowhere'" in await answer(agent, session, "/rewind nowhere")
        assert "There is no turn or checkpoint '9'" in await answer(agent, session, "/rewind 9")
        for name in ("", "12", "undo", "x" * 61):
            assert "Give the checkpoint a name" in await answer(agent, session, f"/checkpoint {name}")
        assert "Nothing has changed since the checkpoint" in await answer(
            agent, session, "/rewind before the refactoring yes"
        )


async def test_a_rewind_of_files_warns_of_a_background_command_that_still_runs():
    start = calls("run_command", command="echo x | tee made; sleep 300", background=True)
    async with running_agent(ScriptedProvider([start, says("Runs.")]), settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "Start it.")
        line = "`echo x | tee made; sleep 300`"
        warning = f"job1 ({line}) still runs and may change files again; `/background stop job1` ends it."
        assert warning in await answer(agent, session, "/rewind 1")
        [asked] = agent.editor.asked
        assert warning in str(asked["toolCall"]["content"])
        assert warning not in await answer(agent, session, "/rewind undo conversation yes")


async def test_a_named_checkpoint_stays_listed_when_the_session_went_back_to_it():
    model = ScriptedProvider([says("One."), says("Two.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "/checkpoint the beginning")
        await answer(agent, session, "First.")
        await answer(agent, session, "/checkpoint middle")
        await answer(agent, session, "Second.")
        await answer(agent, session, "/rewind middle yes")
        listed = await answer(agent, session, "/checkpoints")
        assert listed.index("`/rewind the beginning`") < listed.index("`/rewind 1`") < listed.index("`/rewind middle`")
        assert listed.count("checkpoint: ") == 2
        await answer(agent, session, "/rewind 1 yes")
        listed = await answer(agent, session, "/checkpoints")
        assert "`/rewind the beginning`" in listed
        assert "`/rewind middle`" not in listed


async def test_nothing_is_written_outside_through_a_link_that_came_between():
    model = ScriptedProvider([write("sub/a.txt", "one\n"), write("sub/a.txt", "two\n"), says("Done.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        (agent.folder / "sub").mkdir()
        (agent.folder / "sub" / "a.txt").write_text("zero\n")
        await answer(agent, session, "Write.")
        outside = agent.folder.parent / f"{agent.folder.name}-outside"
        (agent.folder / "sub").rename(outside)
        (agent.folder / "sub").symlink_to(outside)
        try:
            said = await answer(agent, session, "/rewind 1 files yes")
            assert "was not put back: a folder on the way to it is a link now." in said
            assert (outside / "a.txt").read_text() == "two\n"
        finally:
            _remove(outside)


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


async def test_an_editor_lists_previews_and_restores_with_methods_of_ours():
    model = ScriptedProvider(
        [write("a.txt", "one\n"), says("Done."), write("a.txt", "two\n"), says("Twice."), says("Ok.")]
    )
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "Write.")
        await answer(agent, session, "Write again.")

        async def ask(method: str, **more: object) -> JsonDict:
            return await agent.editor.request(method, {"sessionId": session, **more})

        points = (await ask("_pattern/checkpoint/list"))["points"]
        assert [(point["key"], point["text"], point["files"]) for point in points] == [
            ("1", "Write.", 1),
            ("2", "Write again.", 1),
        ]
        preview = await ask("_pattern/checkpoint/preview", to=points[1]["messageId"])
        assert preview["lost"] == ["2. Write again."]
        [file] = preview["files"]
        assert (file["kind"], file["oldText"], file["newText"]) == ("modify", "two\n", "one\n")
        for method in ("_pattern/checkpoint/restore", "_pattern/session/rewind"):
            with pytest.raises(RemoteError, match="`parts` is empty"):
                await ask(method, to="1", parts=[])
        assert (agent.folder / "a.txt").read_text() == "two\n"
        done = await ask("_pattern/session/rewind", to=points[1]["messageId"])
        assert done["lost"] == ["2. Write again."]
        assert done["files"] == []
        assert (agent.folder / "a.txt").read_text() == "two\n"
        await answer(agent, session, "Write something else.")
        heard = str(conversation(model.requests[-1]))
        assert "Write again." not in heard
        assert "Write something else." in heard
        done = await ask("_pattern/checkpoint/restore", to="1", parts=["files"])
        assert done["files"] == [str(agent.folder / "a.txt")]
        assert not (agent.folder / "a.txt").exists()
        await ask("_pattern/checkpoint/restore", to="undo")
        assert (agent.folder / "a.txt").read_text() == "two\n"
        wrong: tuple[JsonDict, ...] = ({"to": "nowhere"}, {"to": "1", "parts": ["soul"]})
        for params in wrong:
            with pytest.raises(RemoteError, match="There is no"):
                await ask("_pattern/checkpoint/restore", **params)


async def test_a_rewind_of_a_client_cancels_the_turn_that_runs_and_waits_for_its_end():
    held = gate()
    model = ScriptedProvider([says("Done."), (held,), says("Ok.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "First.")
        ended: list[JsonDict] = []

        async def second() -> None:
            ended.append(await agent.editor.prompt(session, "Second."))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(second)
            await held.reached.wait()
            with pytest.raises(RemoteError, match="A turn runs"):
                await agent.editor.request("_pattern/checkpoint/preview", {"sessionId": session, "to": "1"})
            await agent.editor.request("_pattern/session/rewind", {"sessionId": session, "to": "1"})
            assert ended == [{"stopReason": "cancelled"}]
        await answer(agent, session, "Third.")
        heard = str(conversation(model.requests[-1]))
        assert "Third." in heard
        assert "First." not in heard
        assert "Second." not in heard


async def test_moves_and_deletions_by_a_patch_are_taken_back():
    lines = ["*** Begin Patch", "*** Update File: a.txt", "*** Move to: moved.txt", "@@", "-one", "+two"]
    patch = "\n".join([*lines, "*** Delete File: b.txt", "*** End Patch"])
    model = ScriptedProvider([calls("apply_patch", input=patch), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "a.txt").write_text("one\n")
        (agent.folder / "b.txt").write_text("b\n")
        session = await opened(agent)
        await answer(agent, session, "Patch.")
        assert (agent.folder / "moved.txt").read_text() == "two\n"
        assert not (agent.folder / "b.txt").exists()
        await answer(agent, session, "/rewind 1 files yes")
        assert (agent.folder / "a.txt").read_text() == "one\n"
        assert (agent.folder / "b.txt").read_text() == "b\n"
        assert not (agent.folder / "moved.txt").exists()


async def test_what_a_cancelled_command_had_changed_can_be_put_back():
    model = ScriptedProvider([calls("run_command", command="echo x > made.txt; sleep 30"), says("Never.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await opened(agent)
        made = anyio.Path(agent.folder / "made.txt")
        async with prompting(agent.editor, session, "Run.") as turn:
            with anyio.fail_after(30):
                while not await made.exists():
                    await anyio.lowlevel.checkpoint()
            await agent.editor.cancel(session)
            assert await turn.stop_reason() == "cancelled"
        await answer(agent, session, "/rewind 1 files yes")
        assert not await made.exists()


async def test_a_kept_file_that_is_damaged_is_named_and_the_others_are_put_back():
    model = ScriptedProvider([calls("run_command", command="echo new > a.txt; echo new > b.txt"), says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "a.txt").write_text("old a\n")
        (agent.folder / "b.txt").write_text("old b\n")
        session = await opened(agent)
        await answer(agent, session, "Write.")
        digest = sha256_hex(b"old a\n")

        def damage(tx: Transaction) -> None:
            tx.execute(
                "UPDATE file_contents SET content = x'00', encoding = 'raw' WHERE hash = :hash", {"hash": digest}
            )

        await agent.database.write(damage)
        said = await answer(agent, session, "/rewind 1 files yes")
        assert "A stored file is not what it was; run pattern-acp doctor." in said
        assert (agent.folder / "b.txt").read_text() == "old b\n"
        assert (agent.folder / "a.txt").read_text() == "new\n"


async def test_a_client_cannot_take_a_session_back_that_another_window_has():
    model = ScriptedProvider([write("a.txt", "one\n"), says("Done.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await answer(agent, session, "Write.")

        def take(tx: Transaction) -> None:
            tx.execute("UPDATE leases SET holder = 'another' WHERE session_id = :id", {"id": session})

        await agent.database.write(take)
        with pytest.raises(RemoteError):
            await agent.editor.request("_pattern/checkpoint/restore", {"sessionId": session, "to": "1"})
        assert (agent.folder / "a.txt").read_text() == "one\n"


def names_below(folder: Path) -> list[str]:
    names = (str(path.relative_to(folder)) for path in folder.rglob("*"))
    return sorted(name for name in names if not name.startswith("constellation"))


async def test_files_that_became_folders_and_folders_that_became_files_go_back_and_forth():
    first = calls("run_command", command="echo one > place; mkdir -p new/deep; echo n > new/deep/n.txt; rm -r sub")
    second = calls(
        "run_command", command="rm place; mkdir -p place/in; echo i > place/in/i.txt; rm -r new; echo f > new"
    )
    model = ScriptedProvider([first, says("Done."), second, says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "sub").mkdir()
        (agent.folder / "sub" / "s.txt").write_text("s")
        session = await opened(agent)
        states = [names_below(agent.folder)]
        for prompt in ("First.", "Second."):
            await answer(agent, session, prompt)
            states.append(names_below(agent.folder))
        for step, expected in (("2", 1), ("undo", 2), ("1", 0), ("undo", 2), ("2", 1), ("1", 0), ("undo", 1)):
            said = await answer(agent, session, f"/rewind {step} files yes")
            assert names_below(agent.folder) == states[expected], said
            assert "not put back" not in said
        assert (agent.folder / "place").read_text() == "one\n"


async def test_a_file_that_is_too_large_to_be_kept_is_left_unless_the_person_says_so():
    make = calls("run_command", command="head -c 10000001 /dev/zero > large.bin; echo small > small.txt")
    model = ScriptedProvider([make, says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await opened(agent)
        await answer(agent, session, "Make them.")
        said = await answer(agent, session, "/rewind 1 files yes")
        assert "an undo could not bring back what they hold: `large.bin`. Add `overwrite`" in said
        assert names_below(agent.folder) == ["large.bin"]
        await answer(agent, session, "/rewind 1 files overwrite yes")
        assert names_below(agent.folder) == []


async def test_a_client_is_told_of_a_file_whose_content_was_too_large_to_be_kept():
    change = calls("run_command", command="echo more >> large.bin")
    model = ScriptedProvider([change, says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "large.bin").write_bytes(bytes(10_000_001))
        session = await opened(agent)
        await answer(agent, session, "Change it.")
        asked = {"sessionId": session, "to": "1", "parts": ["conversation"]}
        assert (await agent.editor.request("_pattern/checkpoint/restore", asked))["problems"] == []
        await agent.editor.request("_pattern/checkpoint/restore", {"sessionId": session, "to": "undo"})
        done = await agent.editor.request("_pattern/checkpoint/restore", {**asked, "parts": ["files"]})
        [problem] = done["problems"]
        assert problem.endswith("large.bin was not put back: its content was not saved: it is larger than 10 MB.")
        assert done["files"] == []


@pytest.mark.needs("git")
async def test_a_repository_that_a_command_made_is_said_to_stay_before_and_after():
    made = calls("run_command", command="git init -q inner && echo x > inner/a.txt")
    model = ScriptedProvider([made, says("Done.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        await anyio.run_process(["git", "init", "-q", str(agent.folder)])
        session = await opened(agent)
        await answer(agent, session, "Make another one.")
        said = await answer(agent, session, "/rewind 1 files")
        assert "`inner` stays (it is a git repository" in json.dumps(agent.editor.asked[-1], ensure_ascii=False)
        assert "inner was not put back: it is a git repository, submodule or worktree of its own" in said
        assert (agent.folder / "inner" / "a.txt").read_text() == "x\n"


@pytest.mark.parametrize(
    ("word", "left"),
    [
        ("secretplan", {"secretplan.txt": "two\n", "made-secretplan": "x\n"}),
        ("folder-of", {}),
        ("content", {}),
        ("first words", {"b.txt": "two\n"}),
    ],
)
async def test_a_file_whose_name_or_content_was_forgotten_stays_and_all_others_go_back(
    word: str, left: dict[str, str], tmp_path: Path
):
    folder = tmp_path / "folder-of"
    folder.mkdir()
    before = {"secretplan.txt": "one\n", "b.txt": "first words\n"}
    for name, content in before.items():
        (folder / name).write_text(content)
    reads = calls("read_file", path="secretplan.txt") + calls("read_file", path="b.txt")
    makes = write("secretplan.txt", "two\n") + write("made-secretplan", "x\n") + write("made", "x\n")
    model = ScriptedProvider([reads, makes, write("b.txt", "two\n"), says("Done.")])
    async with running_agent(model, settings=AUTO) as agent:
        session = await agent.editor.open_session(str(folder))
        await answer(agent, session, "Change them.")
        await redact_session(agent.database, RedactionWanted(session, match=word), at_ms=1)
        said = await answer(agent, session, "/rewind 1 overwrite")
        found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {**before, **left}
    assert ("its name was forgotten" in said) is (word == "secretplan")
    assert ("its content is not stored any more" in said) is (word == "first words")
