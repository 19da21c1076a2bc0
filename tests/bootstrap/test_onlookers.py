"""Several clients of one server on one session: one steers, all see it, and a question has one answer."""

import anyio
import msgspec
import pytest

from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.providers.scripted import ScriptStep
from tests.support.editor import FakeEditor, JsonDict
from tests.support.remote import remote_editor, served_remotely
from tests.support.second_editor import SECOND, send, states
from tests.support.serving import Home, temporary_home

TOUCH = ScriptStep(tool="run_command", arguments={"command": "touch made.txt"})
FORMS: JsonDict = {"elicitation": {"form": {}}}


class Held:
    """A user who answers when told to, also a question that was withdrawn: most clients do not know of that."""

    def __init__(self, option: str = "allow_once") -> None:
        self.option = option
        self.asked = anyio.Event()
        self.says = anyio.Event()

    async def __call__(self, params: JsonDict) -> JsonDict:
        self.asked.set()
        await self.says.wait()
        return {"outcome": "selected", "optionId": self.option}


def withdrawals(editor: FakeEditor) -> int:
    return sum(b"$/cancel_request" in line for line in editor.recording.lines)


def opened_live(home: Home, session: str) -> JsonDict:
    return {
        "sessionId": session,
        "cwd": str(home.project),
        "mcpServers": [],
        "_meta": {"pattern": {"live": True}},
    }


async def look_on(home: Home, editor: FakeEditor, session: str) -> None:
    await editor.request("session/load", opened_live(home, session))


@pytest.mark.parametrize("first", ["the one that steers", "one that looks on"])
async def test_every_window_is_asked_and_the_first_answer_withdraws_the_question_from_the_others(first: str) -> None:
    steers, looks, idle = Held(), Held(), Held("reject_once")
    async with temporary_home() as home:
        home.script([ScriptStep(text="Look. "), TOUCH], [ScriptStep(text="Done.")], [ScriptStep(text="Still here.")])
        async with (
            served_remotely(home) as served,
            remote_editor(served, permission=steers) as one,
            remote_editor(served, permission=looks) as two,
            remote_editor(served, permission=idle) as three,
        ):
            session = await one.open_session(str(home.project))
            for editor in (two, three):
                await look_on(home, editor, session)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.prompt, session, "make it")
                for user in (steers, looks, idle):
                    await user.asked.wait()
                (steers if first == "the one that steers" else looks).says.set()
            for editor in (two, three):
                await editor.wait_until(lambda editor=editor: editor.said().endswith("Done."))
            assert (home.project / "made.txt").exists()
            assert [withdrawals(editor) for editor in (one, two, three)] == (
                [0, 1, 1] if first == "the one that steers" else [1, 0, 1]
            )
            assert [len(editor.asked) for editor in (one, two, three)] == [1, 1, 1]
            assert one.said() == "Look. Done."
            for editor in (two, three):
                assert editor.said().endswith("Look. Done.")
                assert [each["status"] for each in editor.of_kind("tool_call_update")][-1] == "completed"
            # Answers that come too late change nothing.
            for user in (steers, looks, idle):
                user.says.set()
            await one.prompt(session, "and?")
            for editor in (two, three):
                await editor.wait_until(lambda editor=editor: editor.said().endswith("Still here."))


async def test_a_window_that_begins_to_look_on_is_asked_what_is_open_and_what_it_dismisses_decides_nothing() -> None:
    steers, late = Held(), Held()

    async def dismiss(params: JsonDict) -> JsonDict:
        return {"outcome": "cancelled"}

    async with temporary_home() as home:
        home.script([TOUCH], [ScriptStep(text="Done.")])
        async with (
            served_remotely(home) as served,
            remote_editor(served, permission=steers) as one,
            remote_editor(served, permission=dismiss) as two,
            remote_editor(served, permission=late) as three,
        ):
            session = await one.open_session(str(home.project))
            await look_on(home, two, session)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.prompt, session, "make it")
                await steers.asked.wait()
                await two.wait_until(lambda: len(two.asked) == 1)
                await look_on(home, three, session)
                await late.asked.wait()
                assert not (home.project / "made.txt").exists()
                late.says.set()
            assert (home.project / "made.txt").exists()
            assert [withdrawals(editor) for editor in (one, two, three)] == [1, 0, 0]


async def test_the_question_where_a_prompt_of_an_onlooker_goes_on_is_its_own() -> None:
    own, other = Held("reject_once"), Held()
    async with temporary_home() as home:
        home.script([ScriptStep(text="Hello.")])
        async with (
            served_remotely(home) as served,
            remote_editor(served) as one,
            remote_editor(served, permission=own) as two,
            remote_editor(served, permission=other) as three,
        ):
            session = await one.open_session(str(home.project))
            await one.prompt(session, "Hi")
            for editor in (two, three):
                await look_on(home, editor, session)
            own.says.set()
            await two.prompt(session, "me too")
            assert "Nothing was sent" in two.said()
            assert len(two.asked) == 1
            assert one.asked == []
            assert three.asked == []


async def test_a_question_of_the_model_is_filled_in_once() -> None:
    asked = anyio.Event()

    async def never(_raw: msgspec.Raw, _context: RequestContext) -> JsonDict:
        asked.set()
        await anyio.sleep_forever()
        return {}

    async def answer(_raw: msgspec.Raw, _context: RequestContext) -> JsonDict:
        await asked.wait()
        return {"action": "accept", "content": {"own_words": "blue"}}

    async with temporary_home() as home:
        home.script([ScriptStep(tool="ask_user", arguments={"question": "Which colour?"})], [ScriptStep(text="Done.")])
        async with (
            served_remotely(home) as served,
            remote_editor(served, capabilities=FORMS, also={"elicitation/create": never}) as one,
            remote_editor(served, capabilities=FORMS, also={"elicitation/create": answer}) as two,
        ):
            session = await one.open_session(str(home.project))
            await look_on(home, two, session)
            await one.prompt(session, "paint it")
            assert "blue" in str(one.of_kind("tool_call_update"))


async def test_onlookers_of_version_2_see_states_and_are_asked_too() -> None:
    steers, looks = Held(), Held()
    async with temporary_home() as home:
        home.script([ScriptStep(text="Look. "), TOUCH], [ScriptStep(text="Done.")])
        async with (
            served_remotely(home) as served,
            remote_editor(served, permission=steers, introduction=SECOND) as one,
            remote_editor(served, permission=looks, introduction=SECOND) as two,
        ):
            session = await one.open_session(str(home.project))
            await two.request("session/resume", opened_live(home, session) | {"replayFrom": {"type": "start"}})
            await send(one, session, "make it")
            await steers.asked.wait()
            await looks.asked.wait()
            looks.says.set()
            for editor in (one, two):
                await editor.wait_until(lambda editor=editor: states(editor)[-1] == "idle:end_turn")
            assert states(two) == ["idle", "running", "requires_action", "running", "idle:end_turn"]
            assert states(one) == ["running", "requires_action", "running", "idle:end_turn"]
            assert [withdrawals(one), withdrawals(two)] == [1, 0]


@pytest.mark.parametrize("end", ["the server ends", "the client that steers leaves"])
async def test_a_subscription_ends_with_its_reason_however_it_ends(end: str) -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="Hello.")])
        async with served_remotely(home) as served, remote_editor(served) as looks:
            async with remote_editor(served) as steers:
                session = await steers.open_session(str(home.project))
                await steers.prompt(session, "Hi")
                await looks.request("_pattern/session/subscribe", {"sessionId": session})
                await looks.wait_until(lambda: bool(looks.session_events))
                if end == "the server ends":
                    served.server.stop()
                    await looks.wait_until(lambda: looks.session_events[-1]["event"]["type"] == "done")
            await looks.wait_until(lambda: looks.session_events[-1]["event"]["type"] == "done")
            reason = looks.session_events[-1]["event"]["reason"]
            assert reason in {"shutdown", "closed"} if end == "the server ends" else reason == "closed"
