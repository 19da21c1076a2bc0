"""Remembered decisions in the constellation."""

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.errors import PolicyError
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal import events
from pattern_acp.journal.writer import append
from pattern_acp.policy.grant_matching import LIFETIME, Effect, Grant, GrantKind, load_grants, store_grant
from tests.support.constellation import Constellation, temporary_constellation

SESSION = SessionId("s")
ALLOW = Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, '["pytest"]')
DENY = Grant(Effect.DENY, GrantKind.EDIT_FOLDER, "/work/ünïcode")


def add_session(tx: Transaction, session_id: SessionId = SESSION) -> None:
    created = events.SessionCreated("/work", (), "default", "hash", "offline/offline", "ask")
    seq = append(tx, session_id, created, actor=Actor.SYSTEM, origin=Origin.EDITOR, at_ms=1).seq
    tx.execute(
        "INSERT INTO sessions (id, cwd, cwd_key, additional_directories, title, persona, persona_identity, model, "
        "mode, thought_level, created_ms, updated_ms, prompt_count, deleted, last_seq) "
        "VALUES (:id, '/work', '/work', '[]', '', 'default', 'hash', 'm', 'ask', 'off', 1, 1, 0, 0, :seq)",
        {"id": session_id, "seq": seq},
    )


def remember(tx: Transaction, grant: Grant, session_id: SessionId = SESSION) -> None:
    stored = events.GrantStored(grant.effect, grant.kind, grant.pattern, LIFETIME)
    seq = append(tx, session_id, stored, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=2).seq
    store_grant(tx, session_id, grant, seq=seq, at_ms=2)


async def grants_of(constellation: Constellation, session_id: SessionId = SESSION) -> tuple[Grant, ...]:
    return await constellation.database.read(lambda tx: load_grants(tx, session_id))


async def test_grants_come_back_in_the_order_they_were_given_and_each_once():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> None:
            add_session(tx)
            for grant in (ALLOW, DENY, ALLOW):
                remember(tx, grant)

        await constellation.database.write(write)
        assert await grants_of(constellation) == (ALLOW, DENY)


async def test_a_grant_is_its_sessions_alone():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> None:
            add_session(tx)
            add_session(tx, SessionId("other"))
            remember(tx, ALLOW)

        await constellation.database.write(write)
        assert await grants_of(constellation, SessionId("other")) == ()


async def test_a_grant_without_its_event_is_not_stored():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> None:
            add_session(tx)
            store_grant(tx, SESSION, ALLOW, seq=99, at_ms=2)

        with pytest.raises(ConstraintError):
            await constellation.database.write(write)
        assert await grants_of(constellation) == ()


async def test_a_grant_of_an_unknown_kind_is_refused_and_not_guessed_at():
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> None:
            add_session(tx)
            remember(tx, ALLOW)
            tx.execute("UPDATE grants SET kind = 'everything'")

        await constellation.database.write(write)
        with pytest.raises(PolicyError, match="does not know"):
            await grants_of(constellation)
