"""The agent and its memory for programs in Python: open a constellation, run a prompt, read what is remembered.

Owns: these few functions and values, which stay. Must not know: how a turn runs (`pattern_acp.PatternAgent` does).
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import acp
import anyio
import anyio.to_thread
from acp import schema as sdk
from msgspec import Struct

from pattern_acp.bootstrap.constellation_choice import process_in
from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import Flags, Mode
from pattern_acp.db.connection import open_for_reading
from pattern_acp.domain.clock import SystemClock
from pattern_acp.embedded_agent import PatternAgent
from pattern_acp.memory.blocks import Scope, project_key
from pattern_acp.memory.store import list_blocks
from pattern_acp.workspace.git import git_facts

__all__ = ["Answer", "MemoryBlock", "OpenConstellation", "open_constellation", "read_memory"]


class Answer(Struct, frozen=True):
    """The answer to one prompt."""

    text: str
    stop_reason: str
    """As in ACP: `end_turn`, `max_tokens`, `max_turn_requests`, `refusal` or `cancelled`."""
    session: str
    """The session that the next prompt may continue."""


class MemoryBlock(Struct, frozen=True):
    """One block of memory."""

    label: str
    scope: str
    """`persona` or `project`."""
    description: str
    text: str


class OpenConstellation:
    """The agent over one constellation, in one folder; made by `open_constellation`."""

    def __init__(self, agent: PatternAgent, client: "_Client", folder: anyio.Path) -> None:
        self._agent = agent
        self._client = client
        self._folder = folder

    async def prompt(self, text: str, *, session: str = "") -> Answer:
        """Run one prompt to its end, in a new session or in one that an `Answer` names.

        Raises:
            acp.RequestError: the agent refused it, with a sentence in `data["details"]`.
        """
        session = session or (await self._agent.new_session(cwd=str(self._folder))).session_id
        self._client.texts[session] = []
        ended = await self._agent.prompt(session_id=session, prompt=[acp.text_block(text)])
        return Answer("".join(self._client.texts.pop(session)), ended.stop_reason, session)


class _Client:
    """A client without a screen. The agent reads and writes files itself, within the policy."""

    def __init__(self, permit: Callable[[sdk.ToolCallUpdate], bool]) -> None:
        self.texts: dict[str, list[str]] = {}
        self._permit = permit

    async def session_update(self, session_id: str, update: object, **kwargs: object) -> None:
        del kwargs
        if isinstance(update, sdk.AgentMessageChunk) and isinstance(update.content, sdk.TextContentBlock):
            self.texts.setdefault(session_id, []).append(update.content.text)

    async def request_permission(
        self, session_id: str, tool_call: sdk.ToolCallUpdate, options: list[sdk.PermissionOption], **kwargs: object
    ) -> sdk.RequestPermissionResponse:
        del session_id, kwargs
        wanted = "allow_once" if self._permit(tool_call) else "reject_once"
        for option in options:
            if option.kind == wanted:
                chosen = sdk.AllowedOutcome(outcome="selected", option_id=option.option_id)
                return sdk.RequestPermissionResponse(outcome=chosen)
        return sdk.RequestPermissionResponse(outcome=sdk.DeniedOutcome(outcome="cancelled"))


def _permit_nothing(_: sdk.ToolCallUpdate) -> bool:
    return False


@asynccontextmanager
async def open_constellation(
    folder: Path,
    *,
    model: str | None = None,
    constellation: str | None = None,
    persona: str | None = None,
    mode: Mode | None = None,
    permit: Callable[[sdk.ToolCallUpdate], bool] = _permit_nothing,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[OpenConstellation]:
    """Run the agent in `folder` until the context ends.

    Args:
        folder: Where sessions work.
        model: `PROVIDER/MODEL`. This and the next three are as the user's settings have them when None.
        constellation: Whose memory is used.
        persona: Who answers.
        mode: What runs without a question.
        permit: Whether a call that the policy asks about may run once; none may when this is left out.
        environ: The environment, instead of the process's own.

    Raises:
        ConfigError: the settings name what cannot be used.
    """
    client = _Client(permit)
    async with PatternAgent(
        model=model, constellation=constellation, persona=persona, mode=mode, environ=environ
    ) as agent:
        agent.on_connect(cast("acp.Client", client))
        await agent.initialize(acp.PROTOCOL_VERSION)
        yield OpenConstellation(agent, client, await anyio.Path(folder).absolute())


async def read_memory(
    folder: Path,
    *,
    constellation: str | None = None,
    persona: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[MemoryBlock, ...]:
    """Read the blocks of the persona and of the project that `folder` is in; none where nothing was recorded yet.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    flags = Flags(constellation=constellation, persona=persona)
    process = start_process(flags, process_environment() if environ is None else environ)
    path, owners = await anyio.to_thread.run_sync(_looked_up, process, folder)
    if path is None:
        return ()
    async with open_for_reading(path, clock=SystemClock()) as database:
        blocks = await database.read(lambda tx: list_blocks(tx, owners))
    return tuple(MemoryBlock(one.key.label, one.key.scope.value, one.description, one.text) for one in blocks)


def _looked_up(process: Process, folder: Path) -> tuple[Path | None, tuple[tuple[Scope, str], ...]]:
    """The constellation's file where there is one, and whose blocks a session in `folder` sees."""
    place = str(folder.absolute())
    path = process_in(process, place).constellation_path
    project = project_key(git_facts(place).common_dir, place)
    persona = process.loaded.settings.persona
    return path if path.exists() else None, ((Scope.PERSONA, persona), (Scope.PROJECT, project))
