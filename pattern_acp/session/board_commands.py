"""/board: the open sessions, who works on which task and which files, and this session's claims, for the user.

Owns: what the user typed. Must not know: how claims are stored, or when an edit makes one (`edit_warnings.py`).
"""

from typing import TYPE_CHECKING

import anyio.to_thread

from pattern_acp.commands.board import Board
from pattern_acp.commands.document import Result, Said
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.domain.text_limits import plural
from pattern_acp.tasks import claims
from pattern_acp.tasks.claims import read_board

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

BOARD_USAGE = (
    "`/board` shows the open sessions; `/board claim PATH` claims a file, a folder (`src/`) or a pattern (`*.sql`) for "
    "this one, `/board take PATH` takes a claim over or asks the session that has it, `/board release [PATH]` gives "
    "this session's claims back."
)


async def run_board(session: "Session", argument: str) -> Result:
    """Show the open sessions with their tasks and claims; claim a path, take one over, or give claims back."""
    shared = session.constellation
    verb, words = first_word(argument)
    match verb, words.strip():
        case "", "":
            now_ms = shared.clock.now_ms()
            budget = session.state.settings.budget.session
            rows = await shared.database.read(lambda tx: read_board(tx, now_ms=now_ms, budget=budget))
            return Board(rows, now_ms)
        case "release", path:
            return Said(await _release(session, path))
        case "claim" | "take", path if path:
            target = await _target(session, path)
            return Said(await (_claim(session, target) if verb == "claim" else _take(session, target)))
        case _:
            raise CommandMisusedError(BOARD_USAGE)


async def _target(session: "Session", path: str) -> claims.ClaimTarget:
    return await anyio.to_thread.run_sync(claims.target_of, path, session.state.cwd)


async def _release(session: "Session", path: str) -> str:
    shared, session_id, known = session.constellation, session.session_id, session.state.claims
    target = await _target(session, path) if path else None
    named, now_ms = target.path if target is not None else "", shared.clock.now_ms()
    count = await shared.database.write(lambda tx: claims.release_claims(tx, session_id, named, now_ms=now_ms))
    if target is None:
        known.clear()
    else:
        known.pop(target.path, None)
    return f"Gave back {plural(count, 'claim')}."


async def _claim(session: "Session", target: claims.ClaimTarget) -> str:
    shared, session_id, now_ms = session.constellation, session.session_id, session.constellation.clock.now_ms()
    met = await shared.database.read(lambda tx: claims.overlapping(tx, session_id, [target], now_ms=now_ms))
    await shared.database.write(lambda tx: claims.take_claims(tx, session_id, [target], now_ms=now_ms))
    session.state.claims[target.path] = now_ms
    said = f"Claimed the {target.kind} `{target.shown}` for this session, for 15 minutes behind its last turn."
    others = "; ".join(f"{one.who} `{one.target.shown}`" for one in met)
    return f"{said} Another session has a claim there already: {others}." if met else said


async def _take(session: "Session", target: claims.ClaimTarget) -> str:
    shared, session_id, now_ms = session.constellation, session.session_id, session.constellation.clock.now_ms()
    ended, asked = await shared.database.write(lambda tx: claims.take_over(tx, session_id, target, now_ms=now_ms))
    lines = [f"Took `{one.target.shown}` over from {one.who}, whose claim is {one.state}." for one in ended]
    lines += [
        f"Asked {one.who} for `{one.target.shown}`. Its user sees a notice with the next prompt there, and "
        "`/board release` there gives it to you; until then its work is left alone."
        for one in asked
    ]
    if not asked:
        session.state.claims[target.path] = now_ms
        lines += [] if ended else [f"Nobody else claims `{target.shown}`; it is claimed for this session now."]
    return "\n\n".join(lines)
