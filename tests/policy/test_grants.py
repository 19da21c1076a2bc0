"""Remembered decisions in the constellation."""

from pathlib import Path

import pytest

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.errors import ConstraintError
from pattern_acp.db.migrate import load_migrations
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import PolicyError
from pattern_acp.journal import events
from pattern_acp.journal.writer import append
from pattern_acp.policy.decision import Lifetime
from pattern_acp.policy.grants import NOBODY, Effect, Grant, GrantKind, GrantOwner, load_grants, store_grant
from tests.support.constellation import Constellation, FakeClock, temporary_constellation

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


def remember(tx: Transaction, grant: Grant, session_id: SessionId = SESSION, owner: GrantOwner = NOBODY) -> None:
    stored = events.GrantStored(
        grant.effect, grant.kind, grant.pattern, grant.lifetime, None, owner.project, owner.persona
    )
    seq = append(tx, session_id, stored, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=2).seq
    store_grant(tx, session_id, grant, owner, seq=seq, at_ms=2)


async def grants_of(
    constellation: Constellation, session_id: SessionId = SESSION, owner: GrantOwner = NOBODY
) -> tuple[Grant, ...]:
    return await constellation.database.read(lambda tx: load_grants(tx, session_id, owner))


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


IN_PROJECT = Grant(Effect.ALLOW, GrantKind.COMMAND_PREFIX, '["mypy"]', Lifetime.PROJECT)
EVERYWHERE = Grant(Effect.ALLOW, GrantKind.FETCH_HOST, "docs.python.org", Lifetime.PERSONA)
HERE = GrantOwner("/work", "persona-1")


@pytest.mark.parametrize(
    ("session_id", "owner", "expected"),
    [
        (SESSION, HERE, (ALLOW, IN_PROJECT, EVERYWHERE)),
        (SessionId("other"), HERE, (IN_PROJECT, EVERYWHERE)),
        (SessionId("other"), GrantOwner("/elsewhere", "persona-1"), (EVERYWHERE,)),
        (SessionId("other"), GrantOwner("/work", "persona-2"), ()),
        (SessionId("other"), NOBODY, ()),
    ],
)
async def test_a_lasting_grant_belongs_to_its_project_and_persona(
    session_id: SessionId, owner: GrantOwner, expected: tuple[Grant, ...]
):
    async with temporary_constellation() as constellation:

        def write(tx: Transaction) -> None:
            add_session(tx)
            for grant in (ALLOW, IN_PROJECT, EVERYWHERE, IN_PROJECT):
                remember(tx, grant, owner=HERE.of(grant.lifetime))

        await constellation.database.write(write)
        assert await grants_of(constellation, session_id, owner) == expected


async def test_a_grant_of_an_earlier_release_is_its_sessions_alone(tmp_path: Path):
    path, clock = tmp_path / "constellation.db", FakeClock()
    async with open_database(path, clock=clock, migrations=load_migrations()[:18]) as database:

        def write(tx: Transaction) -> None:
            add_session(tx)
            stored = events.GrantStored("allow", "command_prefix", '["pytest"]', "session")
            seq = append(tx, SESSION, stored, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=2).seq
            tx.execute(
                "INSERT INTO grants (session_id, effect, kind, pattern, created_ms, last_seq) "
                "VALUES ('s', 'allow', 'command_prefix', '[\"pytest\"]', 2, :seq)",
                {"seq": seq},
            )

        await database.write(write)
    async with open_database(path, clock=clock) as database:
        assert await database.read(lambda tx: load_grants(tx, SESSION, HERE)) == (ALLOW,)
        assert await database.read(lambda tx: load_grants(tx, SessionId("other"), HERE)) == ()


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
