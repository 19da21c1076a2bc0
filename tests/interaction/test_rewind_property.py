"""Rewinds against a model: any order of edits, commands, changes by others, checkpoints, rewinds, undos and crashes.

The model is told what is on the disk after a turn and after others changed something; what a rewind makes of files,
memory and conversation it works out by itself, and the agent has to come to the same.
"""

import os
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.config.settings import Settings
from pattern_acp.domain.messages import Role
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.rewind.execution import put_everything_back, start_rewind
from pattern_acp.rewind.plan import PARTS, find_target, plan_rewind, recorded_of
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, calls, says

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permission bits of POSIX")

NAMES = ("a.txt", "b.txt", "sub/c.txt")

State = tuple[bytes, int] | None
Disk = dict[str, tuple[bytes, int]]
"""Bytes and permission bits by name; what is missing is not there."""

names = st.sampled_from(NAMES)
bodies = st.sampled_from(["", "one\n", "two\n", "three\r\n"])
actions = st.one_of(
    st.tuples(names, bodies).map(lambda it: calls("write_file", path=it[0], content=it[1])),
    names.map(lambda name: command(f"echo more >> {name}")),
    names.map(lambda name: command(f"rm -f {name}")),
    st.tuples(names, names).map(lambda it: command(f"mv {it[0]} {it[1]} || true")),
    st.tuples(names, st.sampled_from([600, 755])).map(lambda it: command(f"chmod {it[1]} {it[0]} || true")),
    names.map(lambda name: calls("memory_write", label="human", operation="append", text=f"Fact {name}")),
    st.just(says("Nothing to do.")),
)
parts = st.sampled_from([PARTS, ("files",), ("conversation",), ("memory",), ("conversation", "files")])


@dataclass(frozen=True, slots=True)
class Prompt:
    """The session runs a turn of the model."""

    does: Turn


@dataclass(frozen=True, slots=True)
class Others:
    """Somebody else writes a file, or deletes it."""

    name: str
    body: str | None


@dataclass(frozen=True, slots=True)
class Back:
    """The person goes back to before one of the turns; with `cut_after`, the process dies after so many files."""

    turn: int
    parts: tuple[str, ...]
    overwrite: bool
    cut_after: int | None


@dataclass(frozen=True, slots=True)
class Undo:
    """The person takes the last rewind back."""


@dataclass(frozen=True, slots=True)
class Name:
    """The person names a checkpoint."""


Step = Prompt | Others | Back | Undo | Name

steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Prompt, actions),
    st.builds(Prompt, actions),
    st.builds(Others, names, st.sampled_from([None, "theirs\n"])),
    st.builds(Back, st.integers(0, 9), parts, st.booleans(), st.sampled_from([None, None, 0, 1, 2, 3])),
    st.just(Undo()),
    st.just(Name()),
)


def command(line: str) -> Turn:
    return calls("run_command", command=line)


@dataclass(slots=True)
class Moment:
    """The state before something the session did, and which files that changed."""

    conversation: list[str]
    memory: str
    changes: dict[str, tuple[State, State]] = field(default_factory=dict[str, tuple[State, State]])


@dataclass(slots=True)
class Model:
    """What a session that goes back should come to."""

    disk: Disk
    memory: str
    conversation: list[str] = field(default_factory=list[str])
    past: list[Moment] = field(default_factory=list[Moment])
    turns: list[int] = field(default_factory=list[int])
    """Of each prompt, its place in `past`."""
    named: list[int] = field(default_factory=list[int])
    last_rewind: tuple[int, tuple[str, ...]] | None = None

    def did(self, prompt: str, disk: Disk, memory: str) -> None:
        """The session ran a turn."""
        self.turns.append(len(self.past))
        self.past.append(Moment(list(self.conversation), self.memory, changes(self.disk, disk)))
        self.conversation.append(prompt)
        self.disk, self.memory = disk, memory

    def rewind(self, place: int, chosen: tuple[str, ...], *, overwrite: bool) -> None:
        """The person went back to before `past[place]`; a place behind the end is now."""
        now = Moment(list(self.conversation), self.memory)
        then = self.past[place] if place < len(self.past) else now
        before = dict(self.disk)
        if "files" in chosen:
            self._put_back(place, overwrite=overwrite)
        if "conversation" in chosen:
            self.conversation = list(then.conversation)
        if "memory" in chosen:
            self.memory = then.memory
        self.last_rewind = (len(self.past), chosen)
        now.changes = changes(before, self.disk)
        self.past.append(now)

    def _put_back(self, place: int, *, overwrite: bool) -> None:
        for name in NAMES:
            since = [moment.changes[name] for moment in self.past[place:] if name in moment.changes]
            if not since or self.disk.get(name) == since[0][0]:
                continue
            gaps = any(one[1] != other[0] for one, other in pairwise(since))
            if (gaps or self.disk.get(name) != since[-1][1]) and not overwrite:
                continue
            found = since[0][0]
            if found is None:
                del self.disk[name]
            else:
                self.disk[name] = found


def changes(before: Disk, after: Disk) -> dict[str, tuple[State, State]]:
    return {name: (before.get(name), after.get(name)) for name in NAMES if before.get(name) != after.get(name)}


def look(folder: Path) -> Disk:
    found = [(name, folder / name) for name in NAMES]
    return {name: (path.read_bytes(), path.stat().st_mode & 0o777) for name, path in found if path.exists()}


async def memory_of(agent: RunningAgent, session: str) -> str:
    blocks = await agent.sessions.get(session).memory.blocks()
    return next(block.text for block in blocks if block.label == "human")


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=3, max_size=9))
async def test_any_order_of_changes_rewinds_undos_and_crashes_comes_to_what_a_model_says(taken: list[Step]):
    script: list[Turn] = []
    for step in taken:
        if isinstance(step, Prompt):
            script += [step.does] if step.does == says("Nothing to do.") else [step.does, says("Done.")]
    async with running_agent(ScriptedProvider(script), settings=AUTO, permission=choose("allow_once")) as agent:
        (agent.folder / "sub").mkdir()
        (agent.folder / "b.txt").write_bytes(b"\xff\x00")
        session = await agent.editor.open_session(str(agent.folder))
        model = Model(look(agent.folder), await memory_of(agent, session))
        for number, step in enumerate(taken):
            await take_step(agent, session, model, number, step)
            assert look(agent.folder) == model.disk, step
            assert await memory_of(agent, session) == model.memory, step
            history = agent.sessions.get(session).state.history
            said = [m.text for m in history if m.role is Role.USER and m.text.startswith("Prompt ")]
            assert said == model.conversation, step


async def take_step(agent: RunningAgent, session: str, model: Model, number: int, step: Step) -> None:
    match step:
        case Prompt():
            await agent.editor.prompt(session, f"Prompt {number}")
            model.did(f"Prompt {number}", look(agent.folder), await memory_of(agent, session))
        case Others(name=name, body=body):
            if body is None:
                (agent.folder / name).unlink(missing_ok=True)
            else:
                (agent.folder / name).write_text(body)
            model.disk = look(agent.folder)
        case Back() if model.turns:
            await go_back(agent, session, model, step)
        case Undo() if model.last_rewind is not None:
            place, picked = model.last_rewind
            if await rewound(agent, session, "undo", overwrite=False):
                model.rewind(place, picked, overwrite=False)
        case Name():
            await agent.editor.prompt(session, f"/checkpoint named {number}")
            assert f"checkpoint: named {number}" in await said(agent, session, "/checkpoints")
        case _:
            pass


async def go_back(agent: RunningAgent, session: str, model: Model, step: Back) -> None:
    turn = step.turn % len(model.turns)
    if step.cut_after is not None:
        await cut_off(agent, session, str(turn + 1), step)
    elif not await rewound(agent, session, f"{turn + 1} {' '.join(step.parts)}", overwrite=step.overwrite):
        return
    model.rewind(model.turns[turn], step.parts, overwrite=step.overwrite)


async def said(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def rewound(agent: RunningAgent, session: str, text: str, *, overwrite: bool) -> bool:
    """Whether there was anything to go back to."""
    more = " overwrite" if overwrite else ""
    return "Nothing has changed" not in await said(agent, session, f"/rewind {text} yes{more}")


async def cut_off(agent: RunningAgent, session_id: str, named: str, step: Back) -> None:
    """Begin a rewind, put only some files back, and open the session anew, as after a crash."""
    scope, done = agent.sessions.get(session_id).checkpoints.scope, step.cut_after or 0
    recorded = await recorded_of(scope)
    plan = await plan_rewind(scope, recorded, find_target(recorded, named))
    before = recorded[-1].session_seq
    started = await start_rewind(scope, plan, step.parts, overwrite=step.overwrite, before=before)
    some = replace(started, files=started.files[:done], blocks=started.blocks if done == 3 else ())
    await put_everything_back(scope, some, None)
    params: JsonDict = {"sessionId": session_id, "cwd": str(agent.folder), "mcpServers": []}
    await agent.editor.request("session/load", params)
