"""An editor of `tests.support.editor_kinds` with the real agent behind it: what its user does and sees.

Owns: playing the habits on the wire. Must not know: what is asked of the agent.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import anyio.lowlevel

from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.jsonrpc.transport import Oversize, Transport
from tests.support.editor import FakeEditor, JsonDict
from tests.support.editor_kinds import FOLDER, AtCancel, EditorKind
from tests.support.editor_terminals import FakeTerminalState, really_run
from tests.support.process import AgentProcess, Launch, running_process
from tests.support.screen import Screen
from tests.support.turns import PromptInFlight
from tests.support.wire import WireFaultError


class HabitTransport:
    """Between a fake editor and the agent: makes the editor's messages those of its kind, which reads no long lines."""

    def __init__(self, inner: Transport, kind: EditorKind) -> None:
        self._inner = inner
        self._kind = kind
        self._writes: set[object] = set()

    async def receive(self) -> bytes | Oversize | None:
        """See `Transport.receive`."""
        line = await self._inner.receive()
        if not isinstance(line, bytes):
            return line
        if len(line) > self._kind.line_limit:
            raise WireFaultError(f"{self._kind.name} cannot read a line of {len(line)} bytes.")
        message = cast("JsonDict", json.loads(line))
        method = message.get("method")
        if method == "fs/write_text_file":
            self._writes.add(message["id"])
        if method == "session/update" and message["params"]["update"]["sessionUpdate"] in self._kind.complains:
            refused = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "Invalid params"}}
            await self._inner.send(json.dumps(refused).encode() + b"\n")
        if self._kind.text_ids and method is None and isinstance(message.get("id"), str):
            message["id"] = int(message["id"].removeprefix("request-"))
            return json.dumps(message).encode()
        return line

    async def send(self, line: bytes) -> None:
        """See `Transport.send`."""
        message = cast("JsonDict", json.loads(line))
        method = message.get("method")
        if method is not None and "id" in message and self._kind.text_ids:
            message["id"] = f"request-{message['id']}"
        if method == "session/cancel":
            message["params"].update(self._kind.cancel_members)
        if method is not None and self._kind.empty_tables and message["params"].get("mcpServers") == []:
            message["params"]["mcpServers"] = {}
        if method is None and message["id"] in self._writes and self._kind.nulls and "result" in message:
            message["result"] = None
        await self._inner.send(json.dumps({**self._kind.members, **message}).encode() + b"\n")


@dataclass(slots=True)
class Person:
    """Answers questions; what they were asked is in the editor."""

    answer: str = "allow_once"
    waits: bool = False
    """Looks at a question and does not answer yet."""
    outcome: JsonDict | None = None
    """What a question that waited is answered with; None: nothing, ever."""
    decided: anyio.Event = field(default_factory=anyio.Event)
    answered: int = 0
    open: int = 0

    async def decide(self, params: JsonDict) -> JsonDict:
        """See `PermissionAnswer`."""
        del params
        if not self.waits:
            return {"outcome": "selected", "optionId": self.answer}
        self.open += 1
        await self.decided.wait()
        if self.outcome is None:
            await anyio.sleep_forever()
        self.answered += 1
        return cast("JsonDict", self.outcome)


class SimulatedEditor:
    """One window of an editor with one session."""

    def __init__(self, kind: EditorKind, agent: AgentProcess, person: Person, folder: Path) -> None:
        self.kind = kind
        self.agent = agent
        self.person = person
        self.folder = folder
        self.screen = Screen()
        self.session = ""
        self.opened: JsonDict = {}
        self.faults: list[str] = []
        self._cancelled_text = ""
        self._said: list[str] = []
        editor = agent.editor
        editor.watch = self._see
        habits = editor.disk.habits
        habits.missing_as_empty = kind.missing_as_empty
        habits.drops_newline = kind.drops_newline
        if kind.adds_newline:
            habits.formatter = "{}\n".format
        editor.terminals.run = self._run
        if kind.kill_fails:
            editor.terminals.errors["terminal/kill"] = RpcError(-32602, "Invalid params: sessionID")

    @property
    def editor(self) -> FakeEditor:
        """The client's end of the connection."""
        return self.agent.editor

    async def begin(self) -> None:
        """What the editor does before it has a session."""
        if self.kind.authenticates:
            method = self.agent.initialized["authMethods"][0]["id"]
            await self.editor.request("authenticate", {"methodId": method})
        if self.kind.lists is not None:
            params = {key: value or str(self.folder) for key, value in self.kind.lists.items()}
            await self.editor.request("session/list", params)

    async def new_session(self) -> None:
        """A new thread."""
        await self.begin()
        self._take_opened(await self.editor.request("session/new", self._opening()))
        self.session = self.opened["sessionId"]

    async def open_again(self, session: str) -> None:
        """A thread of the past."""
        await self.begin()
        self.session = session
        self._take_opened(await self.editor.request(self.kind.reopens, {"sessionId": session, **self._opening()}))

    async def set_mode(self, mode: str) -> None:
        """Choose a mode in the way of this editor."""
        if self.kind.options:
            params = {"sessionId": self.session, "configId": "mode", "value": mode}
            answer = await self.editor.request("session/set_config_option", params)
            (shown,) = [option for option in answer["configOptions"] if option["id"] == "mode"]
            self.screen.mode = shown["currentValue"]
        else:
            await self.editor.request("session/set_mode", {"sessionId": self.session, "modeId": mode})
            self.screen.mode = mode

    async def say(self, words: str) -> str:
        """Send a prompt and wait for its end; the stop reason."""
        again = [{"type": "text", "text": self._cancelled_text}] if self._cancelled_text else []
        self._cancelled_text = ""
        blocks = [*self.kind.before, *again, *self.kind.dresses(words, self._said), *self.kind.behind]
        self._said.append(words)
        prompt = json.loads(json.dumps(blocks).replace(FOLDER, str(self.folder)))
        params = {"sessionId": self.session, "prompt": prompt}
        answer = await self.editor.request("session/prompt", params)
        if self.kind.repeats and answer["stopReason"] == "cancelled":
            self._cancelled_text = words
        return cast("str", answer["stopReason"])

    @asynccontextmanager
    async def saying(self, words: str) -> AsyncGenerator[PromptInFlight, None]:
        """Send a prompt and go on while it runs; it is waited for when the context ends."""
        flight = PromptInFlight()

        async def run() -> None:
            flight.answer = {"stopReason": await self.say(words)}
            flight.answered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield flight

    async def cancel(self) -> None:
        """Press stop."""
        person, habit = self.person, self.kind.at_cancel
        if habit is AtCancel.ANSWERED_FIRST and person.open:
            await self._decide({"outcome": "cancelled"})
        await self.editor.cancel(self.session)
        if habit is AtCancel.ANSWERED_AFTER and person.open:
            await self._decide({"outcome": "cancelled"})
        if habit is AtCancel.ALLOWED_LATE and person.open:
            await self._decide({"outcome": "selected", "optionId": "allow_once"})

    def seen(self, path: Path) -> str:
        """The text of a file as the editor shows it."""
        buffer = self.editor.files.get(str(path))
        return path.read_text(encoding="utf-8") if buffer is None else buffer

    async def _decide(self, outcome: JsonDict) -> None:
        self.person.outcome = outcome
        self.person.decided.set()
        while self.person.answered < self.person.open:
            await anyio.lowlevel.checkpoint()

    def _opening(self) -> JsonDict:
        return {"cwd": str(self.folder), "mcpServers": list(self.kind.servers)}

    def _take_opened(self, answer: JsonDict) -> None:
        self.opened = answer
        if self.kind.options:
            (shown,) = [option for option in answer["configOptions"] if option["id"] == "mode"]
            self.screen.mode = shown["currentValue"]
        else:
            self.screen.mode = answer["modes"]["currentModeId"]

    def _see(self, update: JsonDict) -> None:
        try:
            self.screen.take(update["update"])
        except AssertionError as fault:
            self.faults.append(str(fault))

    def _run(self, state: FakeTerminalState) -> None:
        if not self.kind.quotes:
            state.words = ("/bin/sh", "-c", " ".join(state.words))
        really_run(state)
        finish = state.finish
        if self.kind.pty and finish is not None:

            async def finish_in_a_pty() -> None:
                await finish()
                state.output = state.output.replace("\n", "\r\n")

            state.finish = finish_in_a_pty


@asynccontextmanager
async def simulated_editor(
    kind: EditorKind, home: Path, folder: Path, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> AsyncGenerator[SimulatedEditor, None]:
    """The editor with an agent of its own, as it starts one; it leaves in its own way when the context ends."""
    person = Person()
    launch = Launch(
        home,
        tuple(arguments),
        environment,
        cwd="/",
        introduction=kind.introduction,
        permission=person.decide,
        wrap=lambda transport: HabitTransport(transport, kind),
    )
    async with running_process(launch) as agent:
        window = SimulatedEditor(kind, agent, person, folder)
        yield window
        if kind.closes:
            await window.editor.request("session/close", {"sessionId": window.session})
        if kind.terminates:
            agent.terminate()
            await agent.wait()
        if window.faults:
            raise WireFaultError("\n".join(window.faults))
