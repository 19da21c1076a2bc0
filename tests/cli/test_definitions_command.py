"""`pattern-acp definitions`: kept sources listed, shown, compared, checked and written out."""

from pathlib import Path

import pytest

from pattern_acp.cli.definitions import DefinitionDesk, diff, export, list_definitions, show, verify
from pattern_acp.commands.document import markdown
from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.errors import PatternError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent

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
        assert (tmp_path / "out" / "persona.md").read_text() == "You are Ada."
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
        with pytest.raises(PatternError, match="is not what was kept"):
            await show(desk, ADA.identity)
