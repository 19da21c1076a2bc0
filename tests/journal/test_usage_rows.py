"""Requests of before the table of usage are in it after the migration, each with its own cost."""

import json

import apsw

from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.raw import connect


def test_requests_of_before_get_the_difference_of_what_their_session_had_cost():
    raw = connect(":memory:", flags=apsw.SQLITE_OPEN_READWRITE)
    migrations = load_migrations()
    at = next(place for place, step in enumerate(migrations) if "CREATE TABLE usage" in step.sql)
    for migration in migrations[:at]:
        raw.execute(migration.sql).fetchall()

    def report(so_far: int | None) -> dict[str, object]:
        cost = None if so_far is None else {"micro_units": so_far, "currency": "USD"}
        return {"turn_id": "t1", "usage": {"input_tokens": 5, "output_tokens": 2}, "used": 7, "size": 9, "cost": cost}

    inner: dict[str, object] = {"name": "finder", "kind": "usage_reported", "event": report(70)}
    events: list[tuple[str, dict[str, object]]] = [
        ("usage_reported", report(None)),
        ("usage_reported", report(50)),
        ("subagent_recorded", inner),
        ("subagent_recorded", {"name": "finder", "kind": "turn_ended", "event": {}}),
        ("usage_reported", report(100)),
    ]
    for seq, (kind, payload) in enumerate(events, 1):
        raw.execute(
            "INSERT INTO events (seq, stream, session_seq, at_ms, kind, version, actor, origin, item, payload,"
            " payload_hash, prev_hash, hash) VALUES (?, 's1', ?, 1000, ?, 1, 'system', 'model', '', ?, '', '', ?)",
            (seq, seq, kind, json.dumps(payload), str(seq)),
        ).fetchall()
    raw.execute(
        "INSERT INTO sessions (id, cwd, cwd_key, additional_directories, title, persona, persona_identity, model, mode,"
        " thought_level, created_ms, updated_ms, prompt_count, deleted, last_seq)"
        " VALUES ('s1', '/x', '/x', '[]', '', 'p', 'h', 'a/b', 'ask', 'off', 1, 1, 1, 0, 1)"
    ).fetchall()
    raw.execute(migrations[at].sql).fetchall()
    rows = raw.execute(
        "SELECT subagent, model, turn_id, input_tokens, micro_units FROM usage ORDER BY last_seq"
    ).fetchall()
    assert rows == [
        ("", "a/b", "t1", 5, None),
        ("", "a/b", "t1", 5, 50),
        ("finder", "a/b", "t1", 5, 20),
        ("", "a/b", "t1", 5, 30),
    ]
