"""Trust of the user in what the session's folder brings along: hooks, MCP servers, checks, commands, skills and groups.

Owns: when the user is asked, what a decision covers, how it is recorded, and /trust, whose verbs are those of
`pattern-acp trust` too. Must not know: how parts are found
(config/project_offer.py), or what they do once they are trusted. The content decides, not the path: whatever changed
since is asked for again, with the difference.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.commands.document import Body, Column, Paragraph, Part, Result, Table
from pattern_acp.commands.parameters import CommandMisusedError, first_word, read_slash
from pattern_acp.commands.sessions import TRUST_VERBS
from pattern_acp.config.project_offer import ProjectOffer
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.domain.access import Actor, Origin, TrustTier
from pattern_acp.domain.clock import Clock, ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.project_parts import PartKind, ProjectPart, digest_of_parts
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    FolderTrustDecided,
)
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.policy.decision import ApprovalOption, PermissionAnswer
from pattern_acp.session.definition_pins import drift_of, take_definitions, tell_drift
from pattern_acp.session.ports import RecordedQuestion, recorded_question
from pattern_acp.session.projections import follow_trust
from pattern_acp.session.state import FolderTrust
from pattern_acp.trust import Agreement, count_parts, describe_parts, list_agreements, load_agreement
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.definitions.bundles import Bundle
    from pattern_acp.session.mcp import SessionMcp
    from pattern_acp.session.ports import ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.turn.recorder import JournalRecorder


TRUST_CALL = "folder_trust"
"""Name of the call that shows the question."""

OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Trust this folder until one of these changes"),
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Trust it for this session"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Do not use them"),
)
OPTIONS_OF_FILES = (
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Trust its files until the folder brings something that runs"),
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Trust them for this session"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Do not trust them"),
)
"""The answers about a folder that brings nothing: its trust is that its files count as the user's own."""
_DECISIONS = {PermissionAnswer.ALLOW_ALWAYS: "trusted", PermissionAnswer.ALLOW_ONCE: "session"}

HOW_TO_TRUST = "`/trust` asks again; `pattern-acp trust` in a terminal does the same."

ON_USE = frozenset({PartKind.COMMAND, PartKind.GROUP, PartKind.LANGUAGE_SERVER})
"""Kinds that are asked for when one is used, not at the first prompt."""


async def open_trust(
    database: Database,
    cwd: str,
    offer: ProjectOffer,
    definitions: Definitions = NO_DEFINITIONS,
    bundles: "Sequence[Bundle]" = (),
) -> FolderTrust:
    """The trust of a session that begins: granted when the user agreed to exactly this before."""
    trust = FolderTrust(resolve_path(cwd), offer, today=definitions)
    await _take_bundles(database, trust, bundles)
    trust.definitions = trust.today
    trust.granted = trust.judge(await _agreement(database, trust.root)) is True
    return trust


async def ensure_trust(dialogue: "ExtendedDialogue", turn_id: TurnId, *, used: bool = False) -> bool:
    """Look at the folder again and ask about what is new; whether its offer may be used.

    Args:
        dialogue: the one in the folder.
        turn_id: the turn that the question belongs to.
        used: whether a part is about to be used; at the beginning of a turn some kinds can wait.

    Raises:
        DatabaseError: the decision could not be recorded; the turn stops.
    """
    trust = dialogue.trust
    before = trust.digest
    await look_again(dialogue)
    if trust.changed_bundles or trust.told:
        dialogue.state.notices += _bundle_notices(trust)
    of_project = any(pin.tier in {TrustTier.PROJECT, TrustTier.AD_HOC} for pin in dialogue.state.pins)
    if not trust.offer.parts and not used and not of_project:
        # What was agreed to is read further on in the turn, with the standing permissions.
        refused = (trust.answered or {}).get(trust.digest) is False
        trust.granted = trust.granted and trust.digest == before and not refused
    else:
        agreement = await _agreement(dialogue.shared.database, trust.root)
        known = trust.judge(agreement)
        kinds = {part.kind for part in trust.offer.parts}
        if known is None and (used or kinds - ON_USE):
            known = await _ask(dialogue, turn_id, agreement)
        trust.granted = known is True
    if dialogue.state.pins or trust.today.skills or trust.today.commands:
        tell_drift(dialogue.state, drift_of(await take_definitions(dialogue)))
    follow_servers(dialogue)
    return trust.granted


async def reread_trust(dialogue: "ExtendedDialogue") -> None:
    """Let count what was decided about the folder meanwhile, in another window or a terminal; ask nothing.

    Raises:
        DatabaseError: the file cannot be read.
    """
    trust = dialogue.trust
    trust.granted = trust.judge(await _agreement(dialogue.shared.database, trust.root)) is True
    follow_servers(dialogue)


def trusting_files(recorder: "JournalRecorder", trust: "FolderTrust") -> Callable[[], Awaitable[None]] | None:
    """Return what trusts the files of a folder that brings nothing; None for one that brings something."""
    if trust.offer.parts:
        return None

    async def decide() -> None:
        decided = FolderTrustDecided(trust.root, "trusted", trust.digest)
        await recorder.record(NewEvent(decided, Actor.HUMAN, Origin.PERSON))
        trust.granted = not trust.offer.parts

    return decide


async def confirm_trust(dialogue: "ExtendedDialogue") -> None:
    """Look at the folder again within a turn, before something of it runs.

    The agent may have edited it meanwhile, and an edit must not become a command that nobody was asked about. What has
    changed is not used any more; the next prompt asks about it.
    """
    trust = dialogue.trust
    if not trust.granted and not trust.bundles:
        return
    before, bundles = trust.digest, trust.bundles
    await look_again(dialogue)
    if trust.bundles != bundles:
        dialogue.state.notices += _bundle_notices(trust)
        follow_servers(dialogue)
    if trust.granted and trust.digest != before:
        trust.granted = False
        changed = "What this folder would run has changed during the turn; nothing of it is used until you are asked."
        dialogue.state.notices.append(changed)
        follow_servers(dialogue)


async def look_again(dialogue: "ExtendedDialogue") -> None:
    """Look at the folder and the bundles; which of today's definitions count is for `take_definitions` to say."""
    settings_for = dialogue.shared.settings_for
    if settings_for is not None:
        found = await anyio.to_thread.run_sync(settings_for, dialogue.state.cwd)
        dialogue.trust.offer, dialogue.trust.today = found.offer, found.definitions
        dialogue.state.repository = found.repository
        await _take_bundles(dialogue.shared.database, dialogue.trust, found.bundles)


async def _take_bundles(database: Database, trust: FolderTrust, found: "Sequence[Bundle]") -> None:
    """Let those bundles count that the user agreed to as they are now."""
    if not found:
        trust.bundles, trust.changed_bundles = (), ()
        return

    def agreed(tx: Transaction) -> set[str]:
        agreements = {bundle.name: load_agreement(tx, bundle.root) for bundle in found}
        return {one.name for one in found if (known := agreements[one.name]) and known.digest == one.digest}

    names = await database.read(agreed)
    trust.bundles = tuple(bundle for bundle in found if bundle.name in names)
    trust.changed_bundles = tuple(bundle.name for bundle in found if bundle.name not in names)
    trust.today = trust.today.with_others(bundle.definitions for bundle in trust.bundles)


def _bundle_notices(trust: FolderTrust) -> list[str]:
    sentences = [
        f"The bundle {name} is not what you agreed to, so nothing of it is used: `pattern-acp bundle update {name}` "
        f"shows the difference, `pattern-acp bundle remove {name}` takes it away."
        for name in trust.changed_bundles
        if name not in trust.told
    ]
    # One that is sound again, and then is not, is news.
    trust.told = set(trust.changed_bundles)
    return sentences


async def _agreement(database: Database, root: str) -> Agreement | None:
    return await database.read(lambda tx: load_agreement(tx, root))


async def _ask(dialogue: "ExtendedDialogue", turn_id: TurnId, agreement: Agreement | None) -> bool:
    from pattern_acp.trust import count_parts, describe_changes, describe_parts

    trust = dialogue.trust
    parts, digest = trust.offer.parts, trust.digest
    shown = describe_changes(agreement.parts, parts) if agreement is not None else describe_parts(parts)
    changed = " Some of it has changed since you agreed." if agreement is not None else ""
    reason = (
        f"The project in {trust.root} brings {count_parts(parts)}, which would run on your machine as you.{changed} "
        "Nothing of it is used unless you trust it."
    )
    if not parts:
        shown = reason = (
            f"{trust.root} brings nothing that would run. If you trust it, its files count as your own: what the agent "
            "remembers after reading them is written without a question."
        )
    options = OPTIONS if parts else OPTIONS_OF_FILES
    call = ToolCallView(
        ToolCallId(dialogue.shared.ids.new("call")),
        TRUST_CALL,
        f"Trust this folder's {count_parts(parts) if parts else 'files'}?",
        ToolKind.OTHER,
        {"folder": trust.root},
        content=(TextContent(shown),),
    )
    async with recorded_question(dialogue, turn_id, call, reason, options) as question:
        try:
            answer = await question.put()
        finally:
            _decide(dialogue.trust, question)
    if answer is not PermissionAnswer.ALLOW_ALWAYS:
        # What lasts is read from the agreement, so that it ends when another window or a terminal takes it back.
        trust.note(digest, trusted=answer.allows)
    return answer.allows


def _decide(trust: "FolderTrust", question: RecordedQuestion) -> None:
    decision = _DECISIONS.get(question.answer, "refused")
    some = bool(trust.offer.parts)
    until = "one of these changes" if some else "the folder brings something that runs"
    so = "so nothing of it is used in this session" if some else "so what is remembered after reading its files asks"
    question.told = {
        "trusted": f"Trusted until {until}. `/trust revoke` takes it back.",
        "session": "Trusted for this session.",
        "refused": f"Not trusted, {so}. {HOW_TO_TRUST}",
    }[decision]
    decided = FolderTrustDecided(trust.root, decision, trust.digest, trust.offer.parts)
    question.events.append(NewEvent(decided, Actor.HUMAN, Origin.PERSON))


async def agree_to_skill(dialogue: "ExtendedDialogue", name: str) -> None:
    """Let a folder stay trusted of which nothing but the skill `name` changed: the user has just agreed to its text.

    Raises:
        DatabaseError: it could not be recorded.
    """
    trust, database = dialogue.trust, dialogue.shared.database
    before, agreement = set(trust.offer.parts), await _agreement(database, trust.root)
    lasting = agreement is not None and agreement.digest == trust.digest
    was_granted = trust.granted
    await look_again(dialogue)
    changed = before.symmetric_difference(trust.offer.parts)
    if not was_granted or any((part.kind, part.name) != (PartKind.SKILL, name) for part in changed):
        return
    if not lasting:
        trust.note(trust.digest, trusted=True)
    decided = FolderTrustDecided(trust.root, "trusted" if lasting else "session", trust.digest, trust.offer.parts)
    await dialogue.recorder.record(NewEvent(decided, Actor.HUMAN, Origin.PERSON))


def follow_servers(dialogue: "ExtendedDialogue") -> None:
    """Run the project's servers while they are trusted, and only then.

    A server of the user or editor by the same name counts instead.
    """
    trust, host, servers = dialogue.trust, dialogue.shared.servers, dialogue.mcp.servers
    if trust.servers is None and not trust.in_force.mcp_servers:
        return
    running = trust.servers.servers if trust.servers is not None else ()
    wanted = [
        settings
        for settings in trust.in_force.mcp_servers.values()
        if not _has_other(dialogue.trust, dialogue.mcp, settings.name)
    ]
    if [server.settings for server in running] == wanted:
        return
    if trust.servers is not None:
        servers.part(trust.servers)
        trust.servers = None
    if wanted and host is not None:
        trust.servers = host.open_more(wanted, dialogue.state.cwd)
        servers.join(trust.servers)


def _has_other(trust: "FolderTrust", mcp: "SessionMcp", name: str) -> bool:
    own = trust.servers.servers if trust.servers is not None else ()
    return any(server.name == name for server in mcp.servers.servers if server not in own)


async def decide_trust(
    database: Database, root: str, parts: Sequence[ProjectPart], decision: str, *, at_ms: int
) -> None:
    """Record a decision that the user took outside a turn: `trusted` or `revoked`.

    Raises:
        DatabaseError: it could not be recorded.
    """
    event = FolderTrustDecided(root, decision, digest_of_parts(parts), tuple(parts))

    def write(tx: Transaction) -> None:
        seq = append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms).seq
        follow_trust(tx, event, at_ms=at_ms, seq=seq)

    await database.write(write)


class TrustDesk(Struct, frozen=True):
    """Dependencies of every verb."""

    database: Database
    clock: Clock
    root_of: Callable[[str], str]
    """The folder that is meant by a path, which may be empty, with symbolic links followed."""
    offered: Callable[[str], Awaitable[tuple[ProjectPart, ...]]]
    """Reads what a folder brings along."""
    agrees: Callable[[str, Sequence[ProjectPart], Agreement | None, bool], Awaitable[bool]]
    """Shows what a folder would run, or what is new since an agreement, and asks the user who is not sure yet."""
    session: "Session | None" = None
    """The open session in which the command was typed."""


class TrustedFolders(Result, frozen=True):
    """The folders that the user agreed to."""

    agreements: tuple[Agreement, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """A line for each."""
        if not self.agreements:
            return (Paragraph("No folder is trusted."),)
        rows = tuple((each.root, count_parts(each.parts)) for each in self.agreements)
        return (Table((Column("Folder", "cyan", code=True), Column("Parts")), rows, "lines"),)

    @property
    def value(self) -> object:
        """Each with the parts that were agreed to."""
        return [
            {
                "folder": each.root,
                "decided_ms": each.decided_ms,
                "parts": [{"kind": part.kind.value, "name": part.name, "text": part.text} for part in each.parts],
            }
            for each in self.agreements
        ]


class TrustResult(Result, frozen=True):
    """Trust in a folder: `trusted`, `already`, `refused` or `revoked`."""

    folder: str
    state: str
    parts: tuple[ProjectPart, ...] = ()
    here: bool = False
    """It is that of the session in which the command was typed; the parts are shown too."""

    @property
    def document(self) -> Sequence[Part]:
        """A sentence, in a session with the parts."""
        name, counted = "This folder" if self.here else self.folder, count_parts(self.parts)
        match self.state:
            case "revoked":
                unused = "its hooks, servers, checks, commands and skills are not used"
                return (Paragraph(f"{name} is not trusted any more; {unused}."),)
            case _ if self.here and not self.parts:
                state = "trusted" if self.state == "trusted" else f"not trusted. {HOW_TO_TRUST}"
                return (Paragraph(f"This folder brings nothing that would run; its files are {state}"),)
            case _ if self.here:
                state = (
                    "trusted" if self.state == "trusted" else f"not trusted, so nothing of it is used. {HOW_TO_TRUST}"
                )
                return Paragraph(f"This folder's {counted}: {state}"), Body(describe_parts(self.parts))
            case "already":
                return (Paragraph(f"{name} is trusted already: {counted if self.parts else 'its files'}."),)
            case "trusted":
                until = "one of these changes" if self.parts else "it brings something that runs"
                return (Paragraph(f"{name} is trusted until {until}."),)
            case _:
                return ()

    @property
    def is_failure(self) -> bool:
        """True when the user refused."""
        return self.state == "refused"


async def run_trust(session: "Session", argument: str) -> Result:
    """Carry out a verb in an open session; alone, show what the folder offers and ask when nobody agreed.

    Raises:
        CommandMisusedError: there is no such verb.
    """
    word, rest = first_word(argument)
    verb = next((one for one in TRUST_VERBS if one.name == (word or "add")), None)
    if verb is None or word == "add":
        raise CommandMisusedError("Say /trust, /trust list or /trust revoke.")
    trust, shared = session.trust, session.constellation

    async def offered(root: str) -> tuple[ProjectPart, ...]:
        del root
        return trust.offer.parts

    async def agrees(root: str, parts: Sequence[ProjectPart], before: Agreement | None, sure: bool) -> bool:  # noqa: FBT001  a port
        del root, parts, before, sure
        trust.answered = {digest: trusted for digest, trusted in (trust.answered or {}).items() if trusted}
        return await ensure_trust(session.dialogue, session.turn_id, used=True)

    desk = TrustDesk(shared.database, shared.clock, lambda _: trust.root, offered, agrees, session)
    return await verb.run(desk, **read_slash(verb, rest, f"/trust {verb.name}"))


async def add(desk: TrustDesk, path: str = "", *, assume_yes: bool = False) -> TrustResult:
    """Trust a folder, once the user agreed."""
    root = desk.root_of(path)
    if desk.session is not None:
        granted = await desk.agrees(root, (), None, assume_yes)
        parts = await desk.offered(root)
        return TrustResult(root, "trusted" if granted else "refused", parts, here=True)
    parts = await desk.offered(root)
    agreement = await desk.database.read(lambda tx: load_agreement(tx, root))
    if agreement is not None and agreement.digest == digest_of_parts(parts):
        return TrustResult(root, "already", parts)
    if not await desk.agrees(root, parts, agreement, assume_yes):
        return TrustResult(root, "refused", parts)
    await decide_trust(desk.database, root, parts, "trusted", at_ms=desk.clock.now_ms())
    return TrustResult(root, "trusted", parts)


async def list_folders(desk: TrustDesk) -> TrustedFolders:
    """List the folders that are trusted."""
    return TrustedFolders(await desk.database.read(list_agreements))


async def revoke(desk: TrustDesk, path: str = "", *, assume_yes: bool = False) -> TrustResult:
    """Take an agreement back.

    Raises:
        PatternError: nobody agreed to the folder, and no session is open in it.
    """
    del assume_yes
    root, session = desk.root_of(path), desk.session
    agreement = await desk.database.read(lambda tx: load_agreement(tx, root))
    if agreement is None and session is None:
        sentence = f"{root} is not trusted; `pattern-acp trust list` shows the folders that are."
        raise PatternError(sentence, failure_code="trust.undecided")
    parts = await desk.offered(root) if agreement is None or session is not None else agreement.parts
    await decide_trust(desk.database, root, parts, "revoked", at_ms=desk.clock.now_ms())
    if session is not None:
        session.trust.answered = {session.trust.digest: False}
        await ensure_trust(session.dialogue, session.turn_id)
    return TrustResult(root, "revoked", here=session is not None)
