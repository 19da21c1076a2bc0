"""Trusting a folder with its hooks, servers and commands: /trust and `pattern-acp trust`.

Owns: each verb, and what it answers. Must not know: how a decision is stored.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.commands.document import Body, Column, Paragraph, Part, Result, Table
from pattern_acp.commands.parameters import CommandMisusedError, read_slash
from pattern_acp.commands.sessions import TRUST_VERBS
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import TurnId
from pattern_acp.domain.project_parts import ProjectPart, digest_of_parts
from pattern_acp.session.trust import HOW_TO_TRUST, decide_trust, ensure_trust
from pattern_acp.trust.records import Agreement, count_parts, describe_parts, list_agreements, load_agreement

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


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
    word, _, rest = argument.partition(" ")
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
        return await ensure_trust(session, turn_of(session), used=True)

    desk = TrustDesk(shared.database, shared.clock, lambda _: trust.root, offered, agrees, session)
    return await verb.run(desk, **read_slash(verb, rest, f"/trust {verb.name}"))


def turn_of(session: "Session") -> TurnId:
    """The turn that the command was typed in."""
    return session.memory.turn_id or TurnId("")


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
        await ensure_trust(session, turn_of(session))
    return TrustResult(root, "revoked", here=session is not None)
