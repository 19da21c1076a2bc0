"""Holding a call that changes files until the model has read what memory holds about them.

Owns: when that is so. Must not know: what patterns mean, or the words (`memory/path_notes.py`).

What the model knows is told by its conversation alone: an entry whose id stands in the result of a call is known, for
as long as that result stands there. So a trap is told once, again after the conversation lost it (compaction, /clear,
/rewind), and a session that is loaded knows the same as before. A corrected entry has another id.
"""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from pattern_acp.domain.access import Access, RunCommand, WritePath
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.permissions import Isolation
from pattern_acp.policy.approver import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.policy.paths import is_windows_path
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS
from pattern_acp.workspace.git import git_facts

if TYPE_CHECKING:
    from pattern_acp.db.connection import Transaction
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import InjectionQueue, SessionState
    from pattern_acp.tasks.claims import Claim, ClaimTarget
    from pattern_acp.turn.budget import UserWaitTimer

logger = logging.getLogger(__name__)


RENEWED_MS = 60_000
"""The time in milliseconds after which claims of a session that works are renewed."""


OVERLAP_CALL = "overlapping_edit"
"""Name of the call that shows the question."""

OVERLAP_OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Go on: edit beside that session"),
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Take over: ask that session, and edit once it gives way"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Wait: leave it alone for now"),
)

CLAIM_MS = 15 * 60_000
"""Life of a claim behind its last renewal, as in `tasks/claims.py`, which only edits import."""


class EditWarnings:
    """`turn.tool_hooks.BeforeEdits` of one conversation, the session's or a subagent's, for one turn."""

    def __init__(
        self,
        session: "Session",
        queue: "InjectionQueue | SessionState",
        agent: str = "",
        *,
        waits: "UserWaitTimer | None" = None,
        lands: bool = False,
    ) -> None:
        """`agent` is the name of the subagent whose conversation it is; empty for the session's own.

        `waits` counts the time that the user takes to answer. `lands`: its changes become the user's at its end only,
        where those that do not fit together are found.
        """
        self._session = session
        self._agent = agent
        self._waits = waits
        self._lands = lands
        self._heard_by = queue
        self._told: dict[str, int] = {}
        """Ids that were told, with the length of the conversation then: its result may not stand in it yet."""

    async def before(self, accesses: Sequence[Access]) -> str:
        """Text that the model reads instead of the effect of a call with these accesses; empty to let the call run.

        Unreadable memory defers no call.
        """
        paths = [path for access in accesses for path in _changed(access)]
        claimed = await self._claim(paths, of_command=any(isinstance(access, RunCommand) for access in accesses))
        if not paths or claimed:
            return claimed
        # Late: what only edits need, which the first turn need not wait for.
        from pattern_acp.memory.path_notes import NoteKind, acting_entries

        session = self._session
        owner, now_ms = memory_owner(session.state), session.constellation.clock.now_ms()
        isolated = session.state.settings.memory.isolation != Isolation.NONE
        owners = [one for one in owner.sources if not (isolated and one[0] is Scope.PERSONA)]
        try:
            acting = await session.constellation.database.read(lambda tx: acting_entries(tx, owners, now_ms=now_ms))
        except PatternError as error:
            logger.warning("traps were not looked for: %s", type(error).__name__)
            return ""
        if not acting:
            return ""
        # Late: most constellations have none.
        from pattern_acp.memory import path_notes as warnings

        root = await anyio.to_thread.run_sync(project_root, session.state.cwd)
        meant = warnings.entries_about(acting, warnings.relative_names(paths, root), root)
        known = self._known([one.bound.entry.id for one in meant])
        unknown = warnings.unknown_of(meant, known)
        if not unknown:
            return ""
        length = len(self._heard_by.history)
        fresh = [one for one in unknown if self._told.get(one.bound.entry.id) != length]
        if not fresh:
            return warnings.again_text(unknown)
        self._told |= {one.bound.entry.id: length for one in unknown}
        decisions = [
            one for one in meant if one.bound.terms.kind is NoteKind.DECISION and one.bound.entry.id not in known
        ]
        return warnings.warning_text(fresh, decisions, now_ms=now_ms)

    async def _claim(self, paths: Sequence[str], *, of_command: bool) -> str:
        """Claim the files, unless another open session does; then the text that tells of it, once a file.

        A command may change folders, or what a pattern means; another call changes files.

        What cannot be read or written defers no call. Without files, claims that there are are renewed.
        """
        session = self._session
        state, now_ms = session.state, session.constellation.clock.now_ms()
        due = any(now_ms - renewed > RENEWED_MS for renewed in state.claims.values())
        # A claim that ran out may be another one's by now.
        new = [path for path in dict.fromkeys(paths) if now_ms - state.claims.get(path, 0) > CLAIM_MS]
        beside = self._beside(paths)
        if not new and not due and not beside:
            return ""
        # Late: a session is there before it edits.
        from pattern_acp.tasks import claims

        if beside:
            state.told_claims |= {(self._agent, path) for path in beside}
            return claims.beside_text(beside)
        if of_command:
            cwd = state.cwd
            targets = await anyio.to_thread.run_sync(lambda: [claims.target_of(path, cwd) for path in new])
        else:
            targets = [claims.ClaimTarget(path) for path in new]
        try:
            met = await self._taken(targets, due=due)
        except PatternError as error:
            logger.warning("files were not claimed: %s", type(error).__name__)
            return ""
        if met:
            overlap = state.settings.claims.overlap
            held = await self._ask(met, targets) if overlap == "ask" else claims.overlap_text(met, len(new), overlap)
            if not held or overlap != "ask":
                state.told_claims |= {(one.session_id, one.target.path) for one in met}
            # What the user allowed is claimed, too, unless a further session was quicker.
            return held or await self._claim(paths, of_command=of_command)
        state.claims |= dict.fromkeys([*state.claims, *new] if due else new, now_ms)
        if self._agent:
            state.claiming_agents |= dict.fromkeys(paths, self._agent)
        return ""

    async def _taken(self, targets: "Sequence[ClaimTarget]", *, due: bool) -> "tuple[Claim, ...]":
        """Claim the targets, unless there are claims of other sessions to tell of, which are returned."""
        from pattern_acp.tasks import claims

        state, now_ms = self._session.state, self._session.constellation.clock.now_ms()
        denies = state.settings.claims.overlap == "deny"

        def look(tx: "Transaction") -> "tuple[Claim, ...]":
            met = claims.overlapping(tx, state.session_id, targets, now_ms=now_ms) if targets else ()
            fresh = tuple(one for one in met if denies or (one.session_id, one.target.path) not in state.told_claims)
            if not fresh:
                claims.take_claims(
                    tx, state.session_id, targets, now_ms=now_ms, agent=self._agent, renews=due or not state.claims
                )
            return fresh

        return await self._session.constellation.database.write(look)

    async def _ask(self, met: "Sequence[Claim]", targets: "Sequence[ClaimTarget]") -> str:
        """Ask the user about an overlap; empty if the call goes on, else the text that the model reads instead.

        Raises:
            DatabaseError: the question could not be recorded.
        """
        from pattern_acp.tasks import claims

        session, state = self._session, self._session.state
        reason = claims.overlap_question(met)
        call = ToolCallView(
            ToolCallId(session.constellation.ids.new("call")),
            OVERLAP_CALL,
            "Another session works there: edit all the same?",
            ToolKind.OTHER,
            {"paths": [one.target.shown for one in met]},
            content=(TextContent(reason),),
        )
        turn_id = session.memory.turn_id or TurnId("")
        asked = PermissionAsked(turn_id, call.call_id, reason, tuple(one.answer.value for one in OVERLAP_OPTIONS))
        answer = PermissionAnswer.CANCELLED
        with self._waits.waiting() if self._waits is not None else nullcontext():
            async with state.policy.asking:
                await session.recorder.record(
                    NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM), NewEvent(asked, Actor.SYSTEM)
                )
                try:
                    answer = await session.approver.ask(ApprovalRequest(call, reason, OVERLAP_OPTIONS))
                finally:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                        status = ToolCallStatus.COMPLETED if answer.allows else ToolCallStatus.FAILED
                        chosen = next((one.name for one in OVERLAP_OPTIONS if one.answer is answer), "Nobody answered.")
                        await session.recorder.record(
                            NewEvent(
                                PermissionAnswered(turn_id, call.call_id, answer.value), Actor.HUMAN, Origin.PERSON
                            ),
                            NewEvent(ToolCallFinished(turn_id, call.call_id, status, chosen), Actor.SYSTEM),
                        )
        if answer is PermissionAnswer.ALLOW_ONCE:
            return ""
        if not answer.allows:
            return claims.waiting_text(met, asked=False)
        now_ms, session_id = session.constellation.clock.now_ms(), state.session_id

        def take(tx: "Transaction") -> bool:
            asked = [claims.take_over(tx, session_id, target, now_ms=now_ms)[1] for target in targets]
            return any(asked)

        return claims.waiting_text(met, asked=True) if await session.constellation.database.write(take) else ""

    def _beside(self, paths: Sequence[str]) -> dict[str, str]:
        """Those of the files that another subagent which runs beside this one edits, with its name."""
        state = self._session.state
        return {
            path: other
            for path in paths
            if self._agent
            and not self._lands
            and (other := state.claiming_agents.get(path, self._agent)) != self._agent
            and (self._agent, path) not in state.told_claims
        }

    def end(self) -> None:
        """Forget which files the subagent edits, which has ended."""
        state = self._session.state
        state.claiming_agents = {path: name for path, name in state.claiming_agents.items() if name != self._agent}

    def _known(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that the conversation has in the result of a call."""
        left = set(ids)
        for message in reversed(self._heard_by.history):
            for part in message.parts:
                if isinstance(part, ToolResultPart):
                    left -= {one for one in left if one in part.text}
        return frozenset(ids) - left


async def renew_claims(session: "Session") -> None:
    """Renew the claims of a session that begins a turn, and tell its user who asks for one of them."""
    state, now_ms = session.state, session.constellation.clock.now_ms()
    # Late: most turns begin without claims.
    from pattern_acp.tasks import claims

    database, session_id = session.constellation.database, state.session_id
    try:
        if any(now_ms - renewed > RENEWED_MS for renewed in state.claims.values()):
            await database.write(lambda tx: claims.take_claims(tx, session_id, (), now_ms=now_ms))
            state.claims |= dict.fromkeys(state.claims, now_ms)
        wanted = await database.read(lambda tx: claims.wanted_claims(tx, session_id))
    except PatternError as error:
        logger.warning("claims were not renewed: %s", type(error).__name__)
        return
    for one in wanted:
        if (one.session_id, one.path) not in state.told_claims:
            state.told_claims.add((one.session_id, one.path))
            state.notices.append(
                f"{one.who}, another window, asks for `{one.path}`, which this session works on. `/board release "
                f"{one.path}` gives it over; without a word from you it stays with this session."
            )


def _changed(access: Access) -> tuple[str, ...]:
    """The files that a call with this access is known to change, as absolute paths."""
    if isinstance(access, WritePath):
        return (access.path,)
    if not isinstance(access, RunCommand):
        return ()
    # Late: most first turns run no command.
    from pattern_acp.policy.command_paths import changed_files
    from pattern_acp.policy.commands import read_command_line

    line = read_command_line(access.line, windows=is_windows_path(access.cwd))
    return changed_files(line, access.cwd)


def project_root(cwd: str) -> str:
    """The folder that patterns are relative to: the repository's around `cwd`, or `cwd` itself. Blocks shortly."""
    return git_facts(cwd).root or resolve_path(cwd)
