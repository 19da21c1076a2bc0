"""`pattern-acp definitions`: stored sources listed, shown, compared, checked and written out."""

from pathlib import Path

import pytest

from pattern_acp.cli.definitions import DefinitionDesk, diff, export, list_definitions, note, show, verify
from pattern_acp.commands.document import markdown
from pattern_acp.context.instructions import load_persona
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.identity import DefinitionSource, encoded, identity_of, keep_source, note_source
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.events import DefinitionNoted
from pattern_acp.journal.reader import newest_event, read_stream
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.recovery.garbage_collection import unused_sources
from tests.support.agent import running_agent
from tests.support.scripts import says

ADA, BEN = Persona("ada", "You are Ada."), Persona("ben", "You are Ben.")


async def test_sources_of_sessions_are_listed_shown_compared_and_written_out(tmp_path: Path):
    async with running_agent(ScriptedProvider([])) as agent:
        for persona in (ADA, BEN):
            agent.shared.persona = persona
            await agent.editor.open_session(str(agent.folder))
        desk = DefinitionDesk(agent.database)
        assert f"| persona/ada | {ADA.identity[:12]} |" in markdown((await list_definitions(desk)).document)
        assert "You are Ada." in markdown((await show(desk, ADA.identity[:12])).document)
        assert "-You are Ada.\n+You are Ben." in (await diff(desk, ADA.identity, BEN.identity)).diff
        await export(desk, ADA.identity, str(tmp_path / "out"))
        assert (tmp_path / "out" / "ada.md").read_text() == "You are Ada."
        await export(desk, "persona/janitor", str(tmp_path / "built-in"))
        assert (tmp_path / "built-in" / "janitor.md").read_text() == load_persona("janitor", tmp_path).prompt
        with pytest.raises(PatternError, match="does not exist yet"):
            await export(desk, ADA.identity, str(tmp_path / "out"))
        with pytest.raises(PatternError, match="'zz' is none"):
            await show(desk, "zz")


async def test_a_changed_byte_of_a_source_is_found():
    async with running_agent(ScriptedProvider([])) as agent:
        agent.shared.persona = ADA
        await agent.editor.open_session(str(agent.folder))
        desk = DefinitionDesk(agent.database)
        assert not (await verify(desk)).is_failure

        def forge(tx: Transaction) -> None:
            tx.execute("UPDATE definition_sources SET source = replace(source, 'Ada', 'Eve')")

        await agent.database.write(forge)
        found = await verify(desk)
        assert found.is_failure
        assert f"persona/ada ({ADA.identity[:12]})" in found.sentence
        with pytest.raises(PatternError, match="is not what was stored"):
            await show(desk, ADA.identity)


async def test_a_note_is_recorded_and_shown_and_is_no_part_of_the_identity():
    async with running_agent(ScriptedProvider([])) as agent:
        agent.shared.persona = ADA
        await agent.editor.open_session(str(agent.folder))
        desk = DefinitionDesk(agent.database)
        done = await note(desk, "persona/ada", "Looked at by Ana.")
        assert done.sentence == f"Noted on persona/ada ({ADA.identity[:12]}): Looked at by Ana."
        assert "| Looked at by Ana. |" in markdown((await list_definitions(desk)).document)
        assert not (await verify(desk)).is_failure
        recorded = await agent.database.read(lambda tx: read_stream(tx, CONSTELLATION_STREAM))
        assert recorded[-1].event == DefinitionNoted(ADA.identity, "persona/ada", "Looked at by Ana.")
        await note(desk, ADA.identity[:8])
        assert (await list_definitions(desk)).definitions[0].note == ""
        agent.shared.persona = Persona("ada", "You are another Ada.")
        await agent.editor.open_session(str(agent.folder))
        with pytest.raises(PatternError, match="may be one of several"):
            await note(desk, "persona/ada", "x")


async def test_what_no_session_and_no_permission_points_to_may_go(tmp_path: Path):
    async with running_agent(ScriptedProvider([says("Hi.")])) as agent:
        for persona in (ADA, BEN):
            agent.shared.persona = persona
            session = await agent.editor.open_session(str(agent.folder))
            await agent.editor.prompt(session, "Hello.")
        lost = DefinitionSource("skill/lost", {"SKILL.md": b"x"})
        noted = DefinitionSource("skill/noted", {"SKILL.md": b"y"})

        def keep(tx: Transaction) -> None:
            seq = newest_event(tx)
            for each in (lost, noted):
                keep_source(tx, identity_of(each), each.symbol, encoded((each,)), seq=seq)
            note_source(tx, identity_of(noted), "Keep it.", seq=seq)

        await agent.database.write(keep)
        assert [each.symbol for each in await agent.database.read(unused_sources)] == ["skill/lost"]
