"""Preliminaries of calls that change files: claims that they make and meet, and what memory has about the files.

Owns: which claims those are, and when a call is held until the model has read of the files. Must not know: what becomes
of a call that meets claims (`policy/decide.py`), what patterns mean, or the words (`memory/archive.py`).

What the model knows is reported by its conversation alone: an entry whose id is in the result of a call is known, for
as long as that result is there. So a trap is reported once, again after the conversation lost it (compaction, /clear,
/rewind), and a session that is loaded knows the same as before. A corrected entry has another id.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from pattern_acp.domain.access import Access, RunCommand, WritePath
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import ToolResultPart
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import Advised
from pattern_acp.memory.blocks import Isolation, Scope
from pattern_acp.policy.paths import is_windows_path
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.workspace.git import git_facts

if TYPE_CHECKING:
    from pattern_acp.db.connection import Transaction
    from pattern_acp.policy.decision import ClaimElsewhere
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.state import InjectionQueue, SessionState
    from pattern_acp.tasks.claims import Claim, ClaimTarget

logger = logging.getLogger(__name__)

RENEWED_MS = 60_000
"""The time in milliseconds after which claims of a session that works are renewed."""

CLAIM_MS = 15 * 60_000
"""Life of a claim behind its last renewal, as in `tasks/claims.py`, which only edits import."""


class EditWarnings:
    """`turn.tool_runner.BeforeEdits` of one conversation, the session's or a subagent's, for one turn."""

    def __init__(
        self,
        dialogue: "Dialogue",
        queue: "InjectionQueue | SessionState",
        agent: str = "",
        *,
        lands: bool = False,
    ) -> None:
        """`agent` is the name of the subagent whose conversation it is; empty for the session's own.

        `lands`: its changes become the user's at its end only,
        where those that do not fit together are found.
        """
        self._dialogue = dialogue
        self._agent = agent
        self._lands = lands
        self._heard_by = queue
        self._told: dict[str, int] = {}
        """Ids that were reported, with the length of the conversation then: its result may not be in it yet."""

    async def claims(self, accesses: Sequence[Access]) -> "tuple[ClaimElsewhere, ...]":
        """Claim the files, unless another open session does; the claims of others that the call meets.

        A command may change folders, or what a pattern means; another call changes files. What cannot be read or
        written defers no call. Without files, claims that there are are renewed.
        """
        dialogue, paths = self._dialogue, _all_changed(accesses)
        state, now_ms = dialogue.state, dialogue.shared.clock.now_ms()
        due = any(now_ms - renewed > RENEWED_MS for renewed in state.claims.values())
        denies = state.policy.overlap == "deny"
        # A claim that ran out may be another one's by now, and who works beside another looks each time.
        looks = bool(state.told_claims) and not denies
        new = [path for path in paths if looks or now_ms - state.claims.get(path, 0) > CLAIM_MS]
        if not new and not due:
            return ()
        # Late: a session is there before it edits.
        from pattern_acp.policy.decision import ClaimElsewhere
        from pattern_acp.tasks import claims

        targets = await self._targets(accesses, new)

        def look(tx: "Transaction") -> "tuple[tuple[Claim, ...], bool]":
            met = claims.overlapping(tx, state.session_id, targets, now_ms=now_ms) if targets else ()
            if met and (denies or any(_name(one) not in state.told_claims for one in met)):
                return met, False
            renews = due or not state.claims
            claims.take_claims(tx, state.session_id, targets, now_ms=now_ms, agent=self._agent, renews=renews)
            return met, True

        try:
            met, taken = await dialogue.shared.database.write(look)
        except PatternError as error:
            logger.warning("files were not claimed: %s", type(error).__name__)
            return ()
        if taken:
            state.claims |= dict.fromkeys([*state.claims, *new] if due else new, now_ms)
        found = tuple(
            ClaimElsewhere(one.target.shown, one.session_id, _name(one) in state.told_claims, one.line) for one in met
        )
        if state.policy.overlap == "tell":
            state.told_claims |= {_name(one) for one in met}
        return found

    async def gives_way(self, accesses: Sequence[Access], *, takes_over: bool) -> bool:
        """Claim the files beside other sessions, as the user allowed; or ask those, and tell whether any is left.

        Raises:
            DatabaseError: the constellation cannot be written.
        """
        from pattern_acp.tasks import claims

        dialogue = self._dialogue
        state, now_ms = dialogue.state, dialogue.shared.clock.now_ms()
        targets = await self._targets(accesses, _all_changed(accesses))

        def take(tx: "Transaction") -> bool:
            if takes_over:
                asked = [claims.take_over(tx, state.session_id, target, now_ms=now_ms)[1] for target in targets]
                return any(asked)
            met = claims.overlapping(tx, state.session_id, targets, now_ms=now_ms)
            state.told_claims |= {_name(one) for one in met}
            claims.take_claims(tx, state.session_id, targets, now_ms=now_ms, agent=self._agent, renews=False)
            return False

        return await dialogue.shared.database.write(take)

    async def _targets(self, accesses: Sequence[Access], paths: Sequence[str]) -> "list[ClaimTarget]":
        from pattern_acp.tasks import claims

        if not any(isinstance(access, RunCommand) for access in accesses):
            return [claims.ClaimTarget(path) for path in paths]
        cwd = self._dialogue.state.cwd
        return await anyio.to_thread.run_sync(lambda: [claims.target_of(path, cwd) for path in paths])

    async def before(self, accesses: Sequence[Access]) -> Advised | None:
        """Text instead of the effect of a call with these accesses; None to let the call run.

        Unreadable memory defers no call.
        """
        paths = _all_changed(accesses)
        if not paths:
            return None
        if beside := self._beside(paths):
            # Late: a session is there before it edits.
            from pattern_acp.tasks import claims

            self._dialogue.state.told_claims |= {(self._agent, path) for path in beside}
            return claims.beside_text(beside)
        if self._agent:
            self._dialogue.state.claiming_agents |= dict.fromkeys(paths, self._agent)
        # Late: what only edits need, which the first turn need not wait for.
        from pattern_acp.memory.archive import NoteKind, acting_entries

        dialogue = self._dialogue
        owner, now_ms = memory_owner(dialogue.state), dialogue.shared.clock.now_ms()
        isolated = dialogue.state.settings.memory.isolation != Isolation.NONE
        owners = [one for one in owner.sources if not (isolated and one[0] is Scope.PERSONA)]
        try:
            acting = await dialogue.shared.database.read(lambda tx: acting_entries(tx, owners, now_ms=now_ms))
        except PatternError as error:
            logger.warning("traps were not looked for: %s", type(error).__name__)
            return None
        if not acting:
            return None
        # Late: most constellations have none.
        from pattern_acp.memory import archive as warnings

        root = await anyio.to_thread.run_sync(project_root, dialogue.state.cwd)
        meant = warnings.entries_about(acting, warnings.relative_names(paths, root), root)
        known = self._known([one.bound.entry.id for one in meant])
        unknown = warnings.unknown_of(meant, known)
        if not unknown:
            return None
        length = len(self._heard_by.history)
        fresh = [one for one in unknown if self._told.get(one.bound.entry.id) != length]
        if not fresh:
            return warnings.again_text(unknown)
        self._told |= {one.bound.entry.id: length for one in unknown}
        decisions = [
            one for one in meant if one.bound.terms.kind is NoteKind.DECISION and one.bound.entry.id not in known
        ]
        return warnings.warning_text(fresh, decisions, now_ms=now_ms)

    def _beside(self, paths: Sequence[str]) -> dict[str, str]:
        """Those of the files that another subagent which runs beside this one edits, with its name."""
        state = self._dialogue.state
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
        state = self._dialogue.state
        state.claiming_agents = {path: name for path, name in state.claiming_agents.items() if name != self._agent}

    def _known(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that the conversation has in the result of a call."""
        left = set(ids)
        for message in reversed(self._heard_by.history):
            for part in message.parts:
                if isinstance(part, ToolResultPart):
                    left -= {one for one in left if one in part.text}
        return frozenset(ids) - left


async def renew_claims(dialogue: "Dialogue") -> None:
    """Renew the claims of a session that begins a turn, and tell its user who asks for one of them."""
    state, now_ms = dialogue.state, dialogue.shared.clock.now_ms()
    # Late: most turns begin without claims.
    from pattern_acp.tasks import claims

    database, session_id = dialogue.shared.database, state.session_id
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


def _name(claim: "Claim") -> tuple[str, str]:
    return claim.session_id, claim.target.path


def _all_changed(accesses: Sequence[Access]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for access in accesses for path in _changed(access)))


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
