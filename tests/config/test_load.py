"""Precedence, what a project may do, and what happens to settings that cannot be used."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from pattern_acp.config.keys import KEYS
from pattern_acp.config.load import Loaded, SettingsReader, known_secrets, load, process_environment
from pattern_acp.config.providers import SIGN_IN
from pattern_acp.config.settings import (
    BackupSettings,
    BudgetSettings,
    ChatSettings,
    ClaimSettings,
    CompactionSettings,
    ConstellationSettings,
    DefinitionSettings,
    DelegateSettings,
    FetchSettings,
    Flags,
    JobSettings,
    LspSettings,
    MemorySettings,
    PolicySettings,
    RetentionSettings,
    SearchSettings,
    Settings,
    SyncSettings,
    TaskSettings,
    TurnSettings,
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def load_with(home: Path, *, user: str = "", project: str = "", flags: Flags | None = None, **environ: str) -> Loaded:
    if user:
        write(home / "config.toml", user)
    if project:
        write(home / "project" / ".pattern" / "config.toml", project)
    return load(flags or Flags(), {"PATTERN_ACP_HOME": str(home), **environ}, project_dir=str(home / "project"))


def sentences(loaded: Loaded, home: Path) -> list[str]:
    return [str(problem).replace(str(home), "HOME").replace("\\", "/") for problem in loaded.problems]


def source_of(loaded: Loaded, key: str) -> str:
    return next(value.source for value in loaded.values if value.key == key)


def test_without_anything_the_defaults_hold(tmp_path: Path):
    loaded = load_with(tmp_path)
    assert loaded.problems == ()
    assert loaded.settings.turn == TurnSettings()
    assert (loaded.settings.model, loaded.settings.mode) == ("", "ask")
    built_in = {"anthropic", "openai", "gemini", "ollama", "offline", "scripted"}
    assert set(loaded.settings.providers) == built_in | {preset.name for preset in SIGN_IN}
    assert not any(provider.configured for provider in loaded.settings.providers.values())


def test_every_key_lands_in_the_settings(tmp_path: Path):
    loaded = load_with(
        tmp_path,
        user="""
model = "lab/a"
persona = "reviewer"
mode = "edit"
thinking = "high"
log_level = "debug"
edit_tool = "both"
fallback = ["lab/f", "offline/offline"]
fallback_after_seconds = 8
cache_ttl = "1h"
editor_deadline_seconds = 5
[turn]
max_model_requests = 1
max_wall_seconds = 2
tool_result_chars = 3000
command_timeout_seconds = 4
max_output_tokens = 5
provider_idle_seconds = 6
slow_commands = "background"
provider_connect_seconds = 7
provider_first_byte_seconds = 8
provider_total_seconds = 9
stream_retries = 10
repeats_noted = 11
repeats_asked = 12
overlapping = "queue"
wakes = 13
[memory]
embedder = "ollama/nomic-embed-text"
recall_tokens = 7
files = true
isolation = "full"
secrets = "ask"
review = "project"
[fetch]
private_addresses = true
[policy]
reading_commands = "ask"
remember_mode = true
sandbox = "require"
sandbox_network = "host"
sandbox_writable = ["~/.cache", "/var/cache/build"]
[definitions]
follow = "keep"
[chat]
theme = "light"
[claims]
overlap = "deny"
[tasks]
files = true
[search]
provider = "searxng"
url = "http://localhost:8080"
[compaction]
strategy = "importance"
threshold_percent = 70
target_percent = 50
[delegate]
model = "lab/b"
explorer_model = "lab/c"
worker_model = "lab/d"
worker_changes = "whole"
worker_review = "always"
reviewer_model = "lab/e"
max_model_requests = 1
max_wall_seconds = 2
max_tool_calls = 3
max_tokens = 4
[lsp]
mode = "off"
wait_seconds = 8
idle_minutes = 9
[backup]
hourly = 1
daily = 2
monthly = 3
segments = false
[retention]
deleted_days = 31
files_days = 1
files_mb = 2
copies_days = 4
snapshots_mb = 5
tell_mb = 6

[sync]
url = "folder:~/Sync/pattern"
exclude = ["~/work"]
projects = ["shop=~/src/shop"]
every_seconds = 9
sessions_days = 30

[constellation]
name = "work"
per_project = true

[budget]
turn = 0.5
session = "5 USD, 2M tokens"
day = 20

[jobs]
ask_above = "1 USD"
""",
    )
    assert [problem.key for problem in loaded.problems] == ["fallback"]  # there is no provider lab
    assert loaded.settings == Settings(
        model="lab/a",
        constellation=ConstellationSettings("work", per_project=True),
        persona="reviewer",
        mode="edit",
        thinking="high",
        thinking_is_set=True,
        log_level="debug",
        edit_tool="both",
        fallback=("lab/f", "offline/offline"),
        fallback_after_seconds=8,
        cache_ttl="1h",
        editor_deadline_seconds=5,
        turn=TurnSettings(1, 2, 3000, 4, 5, 6, "background", 7, 8, 9, 10, 11, 12, "queue", 13),
        budget=BudgetSettings("0.5", "5 USD, 2M tokens", "20"),
        jobs=JobSettings("1 USD"),
        fetch=FetchSettings(private_addresses=True),
        policy=PolicySettings("require", "host", ("~/.cache", "/var/cache/build"), "ask", remember_mode=True),
        compaction=CompactionSettings("importance", 70, 50),
        definitions=DefinitionSettings("keep"),
        chat=ChatSettings("light"),
        claims=ClaimSettings("deny"),
        tasks=TaskSettings(files=True),
        search=SearchSettings("searxng", "http://localhost:8080"),
        delegate=DelegateSettings("lab/b", "lab/c", "lab/d", "lab/e", 1, 2, 3, 4, "whole", "always"),
        memory=MemorySettings(
            "ollama/nomic-embed-text", 7, files=True, isolation="full", secrets="ask", review="project"
        ),
        lsp=LspSettings("off", 8, 9),
        backup=BackupSettings(1, 2, 3, segments=False),
        retention=RetentionSettings(31, 1, 2, 4, 5, 6),
        sync=SyncSettings("folder:~/Sync/pattern", ("~/work",), ("shop=~/src/shop",), 9, 30),
        providers=loaded.settings.providers,
    )
    assert all(source_of(loaded, key.name) != "default" for key in KEYS)


def test_the_values_of_a_setting_that_are_ordered_by_reach_are_all_that_it_takes():
    for key in KEYS:
        if key.reach:
            assert set(key.rule.allowed.removeprefix("one of ").split(", ")) == set(key.reach)
            assert all(key.rule.check(value) == value for value in key.reach)


def test_flags_beat_the_environment_which_beats_the_files(tmp_path: Path):
    user = 'model = "openai/user"\n[providers.lab]\nbase_url = "http://localhost:1"\n'
    project = 'model = "lab/project"\n'
    assert load_with(tmp_path, user=user).settings.model == "openai/user"
    assert load_with(tmp_path, project=project).settings.model == "lab/project"
    from_environment = load_with(tmp_path, PATTERN_ACP_MODEL="lab/environment")
    assert from_environment.settings.model == "lab/environment"
    assert source_of(from_environment, "model") == "$PATTERN_ACP_MODEL"
    from_flag = load_with(tmp_path, flags=Flags(model="lab/flag"), PATTERN_ACP_MODEL="lab/environment")
    assert from_flag.settings.model == "lab/flag"
    assert source_of(from_flag, "model") == "--model"


def test_a_value_names_its_file_and_line(tmp_path: Path):
    loaded = load_with(tmp_path, user='# a comment\n\nmode = "plan"\n')
    assert source_of(loaded, "mode") == f"{tmp_path / 'config.toml'}:3"


@pytest.mark.parametrize(
    ("key", "own", "wanted", "in_force"),
    [
        ("isolation", "none", "full", "full"),
        ("isolation", "core-only", "full", "full"),
        ("isolation", "core-only", "none", "core-only"),
        ("isolation", "full", "core-only", "full"),
        ("secrets", "ask", "block", "block"),
        ("secrets", "block", "ask", "block"),
    ],
)
def test_a_project_may_only_narrow_what_memory_may(tmp_path: Path, key: str, own: str, wanted: str, in_force: str):
    loaded = load_with(tmp_path, user=f'[memory]\n{key} = "{own}"', project=f'[memory]\n{key} = "{wanted}"')
    assert getattr(loaded.settings.memory, key) == in_force
    assert [f"may do more than your own, {own}" in str(problem) for problem in loaded.problems] == (
        [] if in_force == wanted else [True]
    )


def test_an_empty_variable_is_not_set(tmp_path: Path):
    loaded = load_with(tmp_path, user='constellation = "work"', PATTERN_ACP_CONSTELLATION="")
    assert loaded.settings.constellation.name == "work"


def test_a_constellation_is_named_alone_or_in_its_table(tmp_path: Path):
    alone = load_with(tmp_path / "a", user='constellation = "work"')
    table = load_with(tmp_path / "b", user='[constellation]\nname = "work"\nper_project = true')
    flagged = load_with(tmp_path / "c", user="[constellation]\nper_project = true", PATTERN_ACP_CONSTELLATION="work")
    assert alone.settings.constellation == ConstellationSettings("work")
    assert (
        table.settings.constellation
        == flagged.settings.constellation
        == ConstellationSettings("work", per_project=True)
    )
    assert alone.problems == table.problems == flagged.problems == ()


def test_what_no_constellation_can_be_called_is_named_with_its_line(tmp_path: Path):
    loaded = load_with(tmp_path, user="mode = 'plan'\nconstellation = 3")
    assert loaded.settings.constellation == ConstellationSettings()
    assert [(problem.key, problem.line) for problem in loaded.problems] == [("constellation.name", 2)]


def test_a_project_may_not_choose_where_memory_is(tmp_path: Path):
    loaded = load_with(tmp_path, project="[constellation]\nper_project = true\nname = 'theirs'")
    assert loaded.settings.constellation == ConstellationSettings()
    assert {problem.key for problem in loaded.problems} == {"constellation.per_project", "constellation.name"}


def test_unknown_keys_and_wrong_types_are_one_line_each_and_the_rest_holds(tmp_path: Path):
    loaded = load_with(
        tmp_path,
        user="""mode = "fast"
logs = 3
persona = 4

[turn]
max_wall_seconds = "long"
max_model_requests = 0
foo = 1

[colours]
blue = 1
""",
    )
    assert sentences(loaded, tmp_path) == snapshot(
        [
            "HOME/config.toml:2: logs: there is no such key; allowed are model, persona, mode, "
            "thinking, log_level, edit_tool, fallback, fallback_after_seconds, cache_ttl, editor_deadline_seconds, "
            "[backup], [budget], [chat], [claims], [compaction], [constellation], [definitions], "
            "[delegate], [fetch], [jobs], [lsp], [memory], [policy], [retention], [search], [sync], [tasks], [turn], "
            "[providers.NAME], "
            "[models.ID], [mcp_servers.NAME], "
            "[[hooks]], [checks.NAME], [lsp.NAME]. It is not used.",
            "HOME/config.toml:8: turn.foo: there is no such key; allowed are max_model_requests, max_wall_seconds, "
            "tool_result_chars, command_timeout_seconds, max_output_tokens, provider_connect_seconds, "
            "provider_first_byte_seconds, provider_total_seconds, provider_idle_seconds, "
            "stream_retries, repeats_noted, repeats_asked, slow_commands, overlapping, wakes. It is not used.",
            "HOME/config.toml:10: colours: there is no such key; allowed are model, persona, mode, "
            "thinking, log_level, edit_tool, fallback, fallback_after_seconds, cache_ttl, editor_deadline_seconds, "
            "[backup], [budget], [chat], [claims], [compaction], [constellation], [definitions], "
            "[delegate], [fetch], [jobs], [lsp], [memory], [policy], [retention], [search], [sync], [tasks], [turn], "
            "[providers.NAME], "
            "[models.ID], [mcp_servers.NAME], "
            "[[hooks]], [checks.NAME], [lsp.NAME]. It is not used.",
            "HOME/config.toml:3: persona: it must be a name of 1 to 64 letters, digits, dots, hyphens or underscores, "
            "not starting or ending with a dot, not 4; default is used (default).",
            'HOME/config.toml:1: mode: it must be one of ask, edit, plan, auto, not "fast"; ask is used (default).',
            "HOME/config.toml:7: turn.max_model_requests: it must be a whole number from 1 to 10000, not 0; "
            "100 is used (default).",
            "HOME/config.toml:6: turn.max_wall_seconds: it must be a whole number from 1 to 86400, not text; "
            "3600 is used (default).",
        ]
    )
    assert loaded.settings.turn == TurnSettings()
    assert loaded.settings.mode == "ask"


@pytest.mark.parametrize("written", ['"lab/a"', '["lab"]', '["lab/a", 3]', "true"])
def test_what_stands_in_is_a_list_of_models(tmp_path: Path, written: str):
    loaded = load_with(tmp_path, user=f"fallback = {written}")
    assert loaded.settings.fallback == ()
    assert sentences(loaded, tmp_path) == [
        'HOME/config.toml:1: fallback: it must be a list of text of the form "PROVIDER/MODEL"'
        + (", not true" if written == "true" else "")
        + "; none is used (default)."
    ]


def test_a_boolean_is_no_number(tmp_path: Path):
    loaded = load_with(tmp_path, user="editor_deadline_seconds = true")
    assert loaded.settings.editor_deadline_seconds == 20
    assert len(loaded.problems) == 1


def test_a_bad_variable_falls_back_to_the_file(tmp_path: Path):
    loaded = load_with(tmp_path, user='log_level = "error"', PATTERN_ACP_LOG="loud")
    assert loaded.settings.log_level == "error"
    assert sentences(loaded, tmp_path) == [
        '$PATTERN_ACP_LOG: log_level: it must be one of debug, info, warning, error, not "loud"; '
        "error is used (HOME/config.toml:1)."
    ]


def test_levels_and_modes_are_read_in_any_case(tmp_path: Path):
    assert load_with(tmp_path, PATTERN_ACP_LOG="DEBUG").settings.log_level == "debug"
    assert load_with(tmp_path, PATTERN_ACP_MODE="AUTO").settings.mode == "auto"


def test_the_mode_of_the_environment_wins_over_files_and_a_wrong_one_is_told(tmp_path: Path):
    assert load_with(tmp_path, user='mode = "plan"', PATTERN_ACP_MODE="edit").settings.mode == "edit"
    loaded = load_with(tmp_path, user='mode = "plan"', PATTERN_ACP_MODE="yolo")
    assert loaded.settings.mode == "plan"
    assert sentences(loaded, tmp_path) == [
        '$PATTERN_ACP_MODE: mode: it must be one of ask, edit, plan, auto, not "yolo"; '
        "plan is used (HOME/config.toml:1)."
    ]


def test_a_broken_file_is_one_problem_with_its_line(tmp_path: Path):
    loaded = load_with(tmp_path, user='mode = "plan"\nmodel = \n')
    assert sentences(loaded, tmp_path) == [
        "HOME/config.toml:2: it is not valid TOML (Invalid value), so none of it is used; correct the line."
    ]
    assert loaded.settings.mode == "ask"


def test_turn_may_not_be_a_value(tmp_path: Path):
    loaded = load_with(tmp_path, user="turn = 3")
    assert sentences(loaded, tmp_path) == [
        "HOME/config.toml:1: turn: it must be a table [turn]; the defaults are used."
    ]


@pytest.mark.parametrize(
    ("own", "project", "effective"),
    [
        ("ask", "plan", "plan"),
        ("ask", "ask", "ask"),
        ("ask", "edit", "ask"),
        ("ask", "auto", "ask"),
        ("plan", "ask", "plan"),
        ("auto", "edit", "edit"),
        ("auto", "auto", "auto"),
    ],
)
def test_a_project_may_only_narrow_the_mode(tmp_path: Path, own: str, project: str, effective: str):
    loaded = load_with(tmp_path, user=f'mode = "{own}"', project=f'mode = "{project}"')
    assert loaded.settings.mode == effective
    assert len(loaded.problems) == (effective != project)


def test_a_project_may_only_lower_limits(tmp_path: Path):
    loaded = load_with(
        tmp_path,
        user="[turn]\nmax_wall_seconds = 60",
        project="editor_deadline_seconds = 5\n[turn]\nmax_wall_seconds = 61\nmax_model_requests = 3\n",
    )
    assert loaded.settings.turn == TurnSettings(max_model_requests=3, max_wall_seconds=60)
    assert loaded.settings.editor_deadline_seconds == 5
    assert sentences(loaded, tmp_path) == [
        "HOME/project/.pattern/config.toml:3: turn.max_wall_seconds: a project may only lower it, and your own value "
        "is 60; 60 is used (HOME/config.toml:2)."
    ]


def test_a_flag_still_beats_what_a_project_narrowed(tmp_path: Path):
    loaded = load_with(tmp_path, project='mode = "plan"', flags=Flags(mode="edit"))
    assert loaded.settings.mode == "edit"


def test_a_project_cannot_choose_memory_log_persona_or_providers(tmp_path: Path):
    loaded = load_with(
        tmp_path,
        project="""constellation = "yours"
persona = "other"
log_level = "debug"
[providers.mine]
base_url = "http://evil.example"
[providers.anthropic]
base_url = "http://evil.example"
""",
        ANTHROPIC_API_KEY="key-of-the-person",
    )
    assert loaded.settings.constellation == ConstellationSettings()
    assert loaded.settings.persona == "default"
    assert loaded.settings.log_level == "info"
    assert "mine" not in loaded.settings.providers
    assert loaded.settings.providers["anthropic"].base_url == "https://api.anthropic.com"
    assert {problem.key for problem in loaded.problems} == {"constellation.name", "persona", "log_level", "providers"}


@pytest.mark.parametrize(
    ("model", "is_allowed"),
    [("anthropic/any", True), ("openai/any", False), ("lab/any", False), ("offline", True), ("scripted", False)],
)
def test_a_project_may_name_models_of_providers_that_are_set_up(tmp_path: Path, model: str, *, is_allowed: bool):
    loaded = load_with(tmp_path, project=f'model = "{model}"', ANTHROPIC_API_KEY="key-of-the-person")
    assert loaded.settings.model == (model if is_allowed else "")
    assert len(loaded.problems) == (not is_allowed)


def test_a_projects_odd_files_are_left_alone(tmp_path: Path):
    (tmp_path / "project" / ".pattern" / "config.toml").mkdir(parents=True)
    loaded = load_with(tmp_path)
    assert len(loaded.problems) == 1
    assert load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)}, project_dir=str(tmp_path / "none")).problems == ()


def test_a_home_opened_as_project_is_not_read_twice(tmp_path: Path):
    home = tmp_path / ".pattern"
    write(home / "config.toml", 'mode = "auto"\nconstellation = "work"')
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(home)}, project_dir=str(tmp_path))
    assert loaded.problems == ()
    assert loaded.settings.mode == "auto"


def test_a_key_in_the_wrong_place_is_never_repeated(tmp_path: Path):
    planted = "sk-ant-planted-0123456789abcdef"
    loaded = load_with(
        tmp_path,
        user=f"""model = "{planted} {planted}"
mode = "{planted}"
[providers.lab]
base_url = "{planted}"
api_key = "{planted}"
api_key_env = "{planted}"
headers = {{ "X-Key" = "{planted}" }}
""",
        ANTHROPIC_API_KEY=planted,
        OPENAI_BASE_URL=planted,
        PATTERN_ACP_LOG=planted,
    )
    shown = "\n".join([*map(str, loaded.problems), *map(str, loaded.values), repr(loaded.settings)])
    assert planted not in shown
    assert len(loaded.problems) >= 6


def test_a_problem_is_always_one_line(tmp_path: Path):
    loaded = load_with(tmp_path, user='"a\\nb\\u001b[31m" = 1\n')
    (line,) = map(str, loaded.problems)
    assert line.isprintable()


def test_secrets_are_known_to_the_log(tmp_path: Path):
    loaded = load_with(
        tmp_path,
        user='[providers.lab]\nbase_url = "http://me:pass-word@localhost:1"\nheaders = { "X-Key" = "header-value" }',
        OPENAI_API_KEY="key-of-openai",
    )
    assert set(known_secrets(loaded.settings)) == {"key-of-openai", "header-value", "pass-word"}


def test_the_environment_is_a_copy_of_the_process():
    environment = process_environment()
    assert environment
    assert environment == process_environment()
    assert environment is not process_environment()


def test_an_embedder_is_a_word_or_a_model_of_a_provider(tmp_path: Path):
    for embedder in ("auto", "hash", "minilm", "mpnet", "openai/text-embedding-3-small"):
        assert load_with(tmp_path, user=f'[memory]\nembedder = "{embedder}"').settings.memory.embedder == embedder
    for wrong in ('"fast"', '""', "3", '"openai/"'):
        loaded = load_with(tmp_path, user=f"[memory]\nembedder = {wrong}")
        assert loaded.settings.memory.embedder == "auto"
        assert len(loaded.problems) == 1


def test_a_project_may_not_choose_who_reads_memory(tmp_path: Path):
    loaded = load_with(tmp_path, project='[memory]\nembedder = "openai/text-embedding-3-small"')
    assert loaded.settings.memory.embedder == "auto"
    assert len(loaded.problems) == 1


def test_settings_are_read_anew_when_a_file_has_changed_and_kept_while_none_has(tmp_path: Path):
    folder = tmp_path / "project"
    reader = SettingsReader(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)})
    before = reader.read(str(folder))
    assert reader.read(str(folder)).settings is before.settings
    write(folder / ".pattern" / "config.toml", 'mode = "plan"')
    assert reader.read(str(folder)).settings.mode == "plan"
    assert reader.read(None).settings.mode == before.settings.mode
    write(tmp_path / "config.toml", "[turn]\nmax_model_requests = 7")
    assert reader.read(str(folder)).settings.turn.max_model_requests == 7
    (folder / ".pattern" / "config.toml").unlink()
    assert reader.read(str(folder)).settings.mode == before.settings.mode


def test_what_a_project_would_run_is_read_each_time(tmp_path: Path):
    folder = tmp_path / "project"
    write(folder / ".pattern" / "config.toml", '[checks.tests]\ncommand = "sh run.sh"\nfiles = ["*.py"]')
    write(folder / "run.sh", "echo 1")
    reader = SettingsReader(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)})
    [before] = reader.read(str(folder)).offer.parts
    write(folder / "run.sh", "echo 2")
    [after] = reader.read(str(folder)).offer.parts
    assert before.digest != after.digest


THINKING = """thinking = "Low"
[models."lab/a"]
thinking_level = "high"
"""


def test_how_much_models_think_is_set_for_all_and_for_each(tmp_path: Path):
    assert load_with(tmp_path).settings.thinking == "auto"
    settings = load_with(tmp_path, user=THINKING).settings
    assert (settings.thinking, settings.models["lab/a"].thinking_level) == ("low", "high")


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_what_a_flag_or_variable_says_of_thinking_counts_for_every_model(tmp_path: Path, how: str):
    if how == "flag":
        settings = load_with(tmp_path, user=THINKING, flags=Flags(thinking="off")).settings
    else:
        settings = load_with(tmp_path, user=THINKING, PATTERN_ACP_THINKING="off").settings
    assert (settings.thinking, settings.models["lab/a"].thinking_level) == ("off", "")


def test_a_level_of_thinking_that_there_is_not_is_named_with_the_choices(tmp_path: Path):
    user = 'thinking = "extreme"\n[models."lab/a"]\nthinking_level = "much"\n'
    loaded = load_with(tmp_path, user=user, project='thinking = "high"')
    assert (loaded.settings.thinking, loaded.settings.models["lab/a"].thinking_level) == ("auto", "")
    told = "\n".join(sentences(loaded, tmp_path))
    assert told.count("it must be one of auto, off, low, medium, high, max") == 2
    assert "a project may not set it" in told


@pytest.mark.parametrize(
    ("key", "own", "wanted", "in_force"),
    [
        ("sandbox", "auto", "require", "require"),
        ("sandbox", "auto", "off", "auto"),
        ("sandbox_network", "none", "host", "none"),
        ("sandbox_network", "host", "none", "none"),
    ],
)
def test_a_project_may_only_confine_commands_more(tmp_path: Path, key: str, own: str, wanted: str, in_force: str):
    loaded = load_with(tmp_path, user=f'[policy]\n{key} = "{own}"', project=f'[policy]\n{key} = "{wanted}"')
    assert getattr(loaded.settings.policy, key) == in_force


def test_a_project_cannot_name_more_folders_that_commands_may_write(tmp_path: Path):
    loaded = load_with(tmp_path, project='[policy]\nsandbox_writable = ["/"]')
    assert loaded.settings.policy == PolicySettings()


def test_a_mode_of_the_command_line_counts_for_every_folder(tmp_path: Path):
    user = "[policy]\nremember_mode = true\n"
    assert load_with(tmp_path, user=user).settings.policy.remember_mode
    assert not load_with(tmp_path, user=user, flags=Flags(mode="plan")).settings.policy.remember_mode
    assert not load_with(tmp_path, user=user, PATTERN_ACP_MODE="plan").settings.policy.remember_mode
