"""Sessions in two windows against a model: any order of new, prompt, cancel, fork, delete, bringing back, taking over,
closing and opening again comes to the conversations that the model knows, also after both processes have ended."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.config.settings import Settings
from pattern_acp.domain.messages import Role
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.base import ProviderEvent, ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep
from pattern_acp.recovery.checks import Health, verify
from tests.support.agent import RunningAgent, running_agent, temporary_folder
from tests.support.editor import JsonDict, choose
from tests.support.requests import begin_prompt
from tests.support.scripts import says

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

WAIT = "and wait"


class Answering(ScriptedProvider):
    """Answers every prompt, but for those that ask it to wait until they are cancelled."""

    def __init__(self) -> None:
        super().__init__([])
        self.waits = anyio.Event()
        """Set when it waits."""

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        if not request.messages[-1].text.endswith(WAIT):
            return ScriptedProvider([says("Well.")]).stream(request)
        self.waits.set()
        return ScriptedProvider([(ScriptStep(wait_for="cancel"),)]).stream(request)


@dataclass(frozen=True, slots=True)
class Step:
    """Something a person does in one of the windows, with one of the sessions that were made so far."""

    kind: str
    window: int
    session: int


KINDS = ("new", "prompt", "prompt", "prompt", "cancel", "fork", "delete", "undelete", "close")

steps = st.builds(Step, st.sampled_from(KINDS), st.integers(0, 1), st.integers(0, 5))


@dataclass(slots=True)
class Known:
    """A session as the model knows it."""

    said: list[str] = field(default_factory=list[str])
    is_deleted: bool = False
    holder: int | None = None
    shown: set[int] = field(default_factory=set[int])
    """The windows that have it open; one of them at most holds it."""


@dataclass(slots=True)
class Play:
    """Two windows on one constellation, and what should be in it."""

    windows: tuple[RunningAgent, RunningAgent]
    models: tuple[Answering, Answering]
    project: str
    """The folder of all sessions, which outlives the windows."""
    desks: list[str] = field(default_factory=list[str])
    """Of each window, the session in which its person brings others back."""
    known: dict[str, Known] = field(default_factory=dict[str, Known])

    async def take(self, number: int, step: Step) -> None:
        """Take a step, and look whether both sides come to the same."""
        if step.kind == "new" or not self.known:
            session = await self.windows[step.window].editor.open_session(self.project)
            self.known[session] = Known(holder=step.window, shown={step.window})
            return
        session = list(self.known)[step.session % len(self.known)]
        if step.kind == "undelete":
            await self.undelete(session, step.window)
        elif self.known[session].is_deleted:
            await self.is_refused("session/load", session, step.window)
        else:
            await self.use(number, step, session)

    async def use(self, number: int, step: Step, session: str) -> None:
        """Take a step with a session that is there."""
        known, window = self.known[session], step.window
        editor = self.windows[window].editor
        if step.kind == "delete":
            await self.delete(session, window)
        elif step.kind == "close":
            if window in known.shown:
                await editor.request("session/close", {"sessionId": session})
                known.shown.discard(window)
                known.holder = None if known.holder == window else known.holder
        elif step.kind == "fork":
            fork = (await editor.request("session/fork", self.opening(session)))["sessionId"]
            self.known[fork] = Known(list(known.said), holder=window, shown={window})
        else:
            await self.show(session, window)
            await self.prompt(session, window, f"Prompt {number} {WAIT if step.kind == 'cancel' else ''}".strip())
            assert self.conversation(session, window) == known.said

    async def prompt(self, session: str, window: int, text: str) -> None:
        """Prompt, which takes the session over when the other window has it."""
        editor, known = self.windows[window].editor, self.known[session]
        before = len(editor.asked)
        if text.endswith(WAIT):
            model = self.models[window]
            model.waits = anyio.Event()
            async with anyio.create_task_group() as tasks:
                running = begin_prompt(tasks, editor, session, text)
                with anyio.fail_after(30):
                    await model.waits.wait()
                await editor.cancel(session)
                assert await running.end() == {"stopReason": "cancelled"}
        else:
            assert await editor.prompt(session, text) == {"stopReason": "end_turn"}
        assert len(editor.asked) - before == int(known.holder not in (None, window)), "a question, when it is taken"
        known.holder = window
        known.said.append(text)

    async def show(self, session: str, window: int) -> None:
        """Open the session in the window; nobody else's turn is disturbed by that."""
        known = self.known[session]
        if window not in known.shown:
            await self.windows[window].editor.request("session/load", self.opening(session))
            known.shown.add(window)
            known.holder = window if known.holder is None else known.holder

    async def delete(self, session: str, window: int) -> None:
        """Delete, which is refused while the other window holds it."""
        known = self.known[session]
        if known.holder not in (None, window):
            await self.is_refused("session/delete", session, window)
        elif not known.shown - {window}:
            await self.windows[window].editor.request("session/delete", {"sessionId": session})
            known.is_deleted, known.holder, known.shown = True, None, set()

    async def undelete(self, session: str, window: int) -> None:
        """Bring it back; harmless when it is there."""
        await self.windows[window].editor.prompt(self.desks[window], f"/undelete {session}")
        self.known[session].is_deleted = False

    async def is_refused(self, method: str, session: str, window: int) -> None:
        """The request is answered with a sentence."""
        with pytest.raises(RemoteError) as caught:
            await self.windows[window].editor.request(method, self.opening(session))
        assert caught.value.message.endswith(".")

    def opening(self, session: str) -> JsonDict:
        return {"sessionId": session, "cwd": self.project, "mcpServers": []}

    def conversation(self, session: str, window: int) -> list[str]:
        return prompts_of(self.windows[window], session)


def prompts_of(agent: RunningAgent, session: str) -> list[str]:
    history = agent.sessions.get(session).state.history
    return [m.text for m in history if m.role is Role.USER and m.text.startswith("Prompt ")]


@pytest.mark.slow
@pytest.mark.timeout(180)
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=6, max_size=10))
async def test_any_order_of_steps_in_two_windows_comes_to_what_a_model_says(taken: list[Step]):
    with temporary_folder() as folder:
        path = folder / "constellation.db"
        models = (Answering(), Answering())
        takes = choose("allow_always")
        async with (
            running_agent(models[0], settings=AUTO, database=path, permission=takes) as first,
            running_agent(models[1], settings=AUTO, database=path, permission=takes) as second,
        ):
            play = Play((first, second), models, str(folder))
            play.desks = [await agent.editor.open_session(str(folder)) for agent in (first, second)]
            for number, step in enumerate(taken):
                await play.take(number, step)
        async with running_agent(Answering(), settings=AUTO, database=path) as later:
            rows = (await later.editor.request("session/list", {}))["sessions"]
            listed = {row["sessionId"] for row in rows}
            for session, known in play.known.items():
                assert (session in listed) <= (not known.is_deleted)
                if not known.is_deleted:
                    await later.editor.request("session/load", play.opening(session))
                    assert prompts_of(later, session) == known.said
        assert {finding.health for finding in verify(path)} == {Health.OK}
