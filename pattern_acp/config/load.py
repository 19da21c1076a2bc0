"""The effective settings: flags over environment over project over the user's file over defaults.

Owns: precedence, what a project's file may do, and reading the process's environment, here and nowhere else. Must not
know: what any setting does.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.keys import KEYS, Key, ProjectRule, unknown_variables
from pattern_acp.config.paths import Paths, find_paths, project_config_file
from pattern_acp.config.policy_rules import EFFECTS, read_policy_rules
from pattern_acp.config.programs import (
    read_checks,
    read_hooks,
    read_lsp_servers,
    read_mcp_servers,
    server_tables,
    with_long_form,
)
from pattern_acp.config.project_offer import NOTHING, ProjectOffer, read_offer
from pattern_acp.config.providers import PRESETS, read_models, read_providers, refused_models
from pattern_acp.config.settings import Flags, McpServerSettings, ProviderSettings, Settings
from pattern_acp.config.toml_file import AMOUNT, EffectiveValue, Problem, TomlFile, Value, but_is, is_table, read_toml


def _contradictions(settings: Settings, models: Iterable[str], user: TomlFile) -> Iterator[Problem]:
    """Surprising settings; everything is used as it is written."""
    known = {*settings.providers, *PRESETS}
    for name in settings.fallback:
        provider = name.partition("/")[0]
        if provider not in settings.providers:
            sentence = f"{name} is passed over, since there is no provider {provider}; set up [providers.{provider}]."
            yield user.problem("fallback", sentence)
    for name in models:
        provider = name.partition("/")[0]
        if provider not in known:
            sentence = f"there is no provider {provider}, so it says nothing; set up [providers.{provider}]."
            yield user.problem(f"models.{name}", sentence)
    threshold, target = settings.compaction.threshold_percent, settings.compaction.target_percent
    if target >= threshold:
        sentence = f"it must be below threshold_percent, which is {threshold}; {threshold * 9 // 10} is used."
        yield user.problem("compaction.target_percent", sentence)


_Found: TypeAlias = tuple[Value, str]
"""A value and its source."""


class Loaded(Struct, frozen=True):
    """Everything that reading the settings gives."""

    settings: Settings
    paths: Paths
    problems: tuple[Problem, ...]
    """Settings that were not used as written; the agent runs all the same, and shows them."""
    values: tuple[EffectiveValue, ...]
    """Each setting as it is in force, and where it came from."""
    offer: ProjectOffer = NOTHING
    """The programs that the project's files would run once the user trusts the folder."""


class _Resolution(Struct):
    """The layers that values are looked for in, and what was found."""

    flags: Flags
    environ: Mapping[str, str]
    project: TomlFile
    user: TomlFile
    providers: Mapping[str, ProviderSettings]
    problems: list[Problem] = field(default_factory=list[Problem])


def process_environment() -> Mapping[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def import_only_what_is_installed() -> None:
    """Keep the Python processes that we start for ourselves from importing what lies in the current folder.

    Editors start us in a project, and `python -m` looks there first: a cloned repository with a file named like a
    library would run. What belongs to the user is started with an environment of before.
    """
    os.environ["PYTHONSAFEPATH"] = "1"


def load(flags: Flags, environ: Mapping[str, str], *, project_dir: str | None) -> Loaded:
    """Read every setting. It never fails: what cannot be used becomes a problem, and the next layer's value counts.

    Args:
        flags: What the command line says.
        environ: The environment (`process_environment()`).
        project_dir: The directory that may hold `.pattern/config.toml`; None to read no project's file.
    """
    return SettingsReader(flags, environ).read(project_dir)


class _Sources(Struct, frozen=True):
    """The files that settings are read from, as they are now."""

    user: TomlFile
    user_problems: tuple[Problem, ...]
    project: TomlFile
    project_problems: tuple[Problem, ...]


class SettingsReader:
    """Reads the settings of one process: flags and environment stay as they are, files may change.

    Every turn looks whether they did. Where they say what they said before, it is not worked out once more.
    """

    def __init__(self, flags: Flags, environ: Mapping[str, str]) -> None:
        self._flags = flags
        self._environ = environ
        self._paths, self._path_problems = find_paths(environ)
        self._cached: dict[str | None, tuple[_Sources, Loaded]] = {}

    def read(self, project_dir: str | None) -> Loaded:
        """See `load`. Safe from any thread."""
        user, user_problems = read_toml(self._paths.config_file)
        project, project_problems = _read_project(project_dir, user)
        sources = _Sources(with_long_form(user), user_problems, with_long_form(project), project_problems)
        cached = self._cached.get(project_dir)
        if cached is None or cached[0] != sources:
            cached = self._cached[project_dir] = (sources, self._loaded(sources))
        loaded = cached[1]
        if project_dir is None:
            return loaded
        # Also of scripts and programs that no file of settings names on its own, so it is read each time.
        offer, problems = read_offer(
            sources.project, project_dir, with_language_servers=loaded.settings.lsp.mode == "on"
        )
        return replace(loaded, offer=offer, problems=(*loaded.problems, *problems))

    def _loaded(self, sources: _Sources) -> Loaded:
        user, project, environ = sources.user, sources.project, self._environ
        language_servers, lsp_problems, lsp_values = read_lsp_servers(user)
        providers, provider_problems, provider_values = read_providers(environ, user)
        models, model_problems, model_values = read_models(user)
        servers, server_problems, server_values = read_mcp_servers(user)
        hooks = read_hooks(user.table.get("hooks", []), user.path)
        checks, check_problems, check_values = read_checks(user)
        rules, rule_problems = read_policy_rules(user, project, environ.get("HOME") or environ.get("USERPROFILE", ""))
        resolution = _Resolution(self._flags, environ, project, user, providers)
        found = {key.name: _resolve(resolution, key) for key in KEYS}
        if found["thinking"][1].startswith(("$", "--")):
            # What is said for this process counts for every model.
            models = {name: replace(own, thinking_level="") for name, own in models.items()}
        # A mode that is said for this process counts for every folder.
        fixed_mode = found["mode"][1].startswith(("$", "--"))
        problems = (
            *self._path_problems,
            *unknown_variables(environ),
            *sources.user_problems,
            *_unknown_keys(user),
            *provider_problems,
            *model_problems,
            *server_problems,
            *(user.problem(key, sentence) for key, sentence in hooks.problems),
            *check_problems,
            *lsp_problems,
            *rule_problems,
            *sources.project_problems,
            *_unknown_keys(project),
            *_refused_tables(project),
            *refused_models(project),
            *resolution.problems,
        )
        values = (
            *_path_values(self._paths),
            *(EffectiveValue(name, _shown(value), source) for name, (value, source) in found.items()),
            *provider_values,
            *model_values,
            *server_values,
            *check_values,
            *lsp_values,
            *(EffectiveValue(f"policy.{rule.effect}", f"{rule.kind} {rule.pattern}", rule.place) for rule in rules),
        )
        built = _build(found, providers, servers)
        problems = (*problems, *_contradictions(built, models, user))
        built = replace(
            built,
            thinking_is_set=found["thinking"][1] != "default",
            fixed=frozenset(name for name, (_, source) in found.items() if source.startswith(("$", "--"))),
            models=models,
            hooks=tuple(hooks.hooks),
            checks=checks,
            policy=replace(built.policy, rules=rules, remember_mode=built.policy.remember_mode and not fixed_mode),
            lsp=replace(built.lsp, servers=language_servers),
        )
        return Loaded(built, self._paths, problems, values)


def known_secrets(settings: Settings) -> tuple[str, ...]:
    """Every secret the settings hold, for the log's mask (config/logs.py)."""
    return tuple(_secrets(settings))


def _secrets(settings: Settings) -> Iterator[str]:
    for provider in settings.providers.values():
        if provider.api_key is not None:
            yield provider.api_key.value
        yield from provider.headers.values()
        password = urlsplit(provider.base_url).password
        if password:
            yield password
    for server in settings.mcp_servers.values():
        yield from server.env.values()
        yield from server.headers.values()
        yield server.oauth.client_secret


def _read_project(project_dir: str | None, user: TomlFile) -> tuple[TomlFile, tuple[Problem, ...]]:
    if project_dir is None:
        return TomlFile(""), ()
    path = project_config_file(project_dir)
    # A home directory may be opened as a project, and its file must not be taken for both.
    return (TomlFile(""), ()) if str(path) == user.path else read_toml(path)


def _resolve(resolution: _Resolution, key: Key) -> _Found:
    """The value of `key`: the lowest layer first, so that a project's value can be held against the user's own."""
    found = _from_file(resolution, key, resolution.user, (key.default, "default"))
    project = _from_file(resolution, key, resolution.project, found)
    if project is not found:
        found = _if_allowed(resolution, key, project, found)
    found = _from_text(resolution, key, resolution.environ.get(key.variable, ""), f"${key.variable}", found)
    return _from_text(resolution, key, _flag(resolution.flags, key), key.flag, found)


def _from_file(resolution: _Resolution, key: Key, file: TomlFile, below: _Found) -> _Found:
    table, _, name = key.name.rpartition(".")
    holder = file.table.get(table) if table else file.table
    if not is_table(holder) or name not in holder:
        return below
    value: Value | None = key.rule.check(holder[name])
    if value is None:
        sentence = f"it must be {key.rule.allowed}{_but_is(key, holder[name])}; {_using(key, below)}."
        resolution.problems.append(file.problem(key.name, sentence))
        return below
    return value, file.place_of(key.name)


def _if_allowed(resolution: _Resolution, key: Key, project: _Found, below: _Found) -> _Found:
    refusal = _refusal(resolution, key, project[0], below[0])
    if refusal is None:
        return project
    resolution.problems.append(resolution.project.problem(key.name, f"{refusal}; {_using(key, below)}."))
    return below


def _refusal(resolution: _Resolution, key: Key, value: Value, own: Value) -> str | None:
    """Why a project may not set `key` to `value`, or None when it may."""
    if key.project is ProjectRule.LOWER:
        is_lower = isinstance(value, int) and isinstance(own, int) and value <= own
        return None if is_lower else f"a project may only lower it, and your own value is {own}"
    if key.project is ProjectRule.NARROWER:
        is_narrower = key.reach.index(value) <= key.reach.index(own)
        return None if is_narrower else f"a project may not choose one that may do more than your own, {own}"
    if key.project is ProjectRule.CONFIGURED:
        name = str(value).partition("/")[0]
        provider = resolution.providers.get(name)
        is_set_up = provider is not None and (provider.configured or provider.wire == "offline")
        return None if is_set_up else f"a project may only name a provider that you have set up, and {name} is not"
    return "a project may not set it; put it into your own file"


def _from_text(resolution: _Resolution, key: Key, raw: str | None, source: str, below: _Found) -> _Found:
    """The value of a variable or flag, which always comes as text; empty means that it is not set."""
    if not raw:
        return below
    value: Value | None = key.rule.check(raw.strip())
    if value is None:
        sentence = f"it must be {key.rule.allowed}{_but_is(key, raw)}; {_using(key, below)}."
        resolution.problems.append(Problem(source, None, key.name, sentence))
        return below
    return value, source


def _flag(flags: Flags, key: Key) -> str | None:
    by_key = {
        "model": flags.model,
        "constellation.name": flags.constellation,
        "persona": flags.persona,
        "mode": flags.mode,
        "thinking": flags.thinking,
        "log_level": flags.log_level,
        "budget.turn": flags.max_cost,
    }
    return by_key.get(key.name)


def _but_is(key: Key, raw: object) -> str:
    """The written value, for an error. Only choices and numbers are repeated; other text could be a misplaced key."""
    if isinstance(raw, int):
        return f", not {str(raw).lower()}"
    if isinstance(raw, str) and key.rule.allowed.startswith("one of") and len(raw) <= 20 and raw.isprintable():
        return f', not "{raw}"'
    if isinstance(raw, str) and isinstance(key.default, int):
        return ", not text"
    return but_is(raw, key.rule.allowed)


def _using(key: Key, below: _Found) -> str:
    value, source = below
    shown = _shown(value) or (key.when_empty if key.rule is AMOUNT else "automatic choice")
    return f"{shown} is used ({source})"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as the file has it
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def _unknown_keys(file: TomlFile) -> Iterator[Problem]:
    tables = sorted({key.name.partition(".")[0] for key in KEYS if "." in key.name})
    for name, raw in file.table.items():
        if name in {"providers", "models", "mcp_servers", "hooks", "checks"} or name in {key.name for key in KEYS}:
            continue
        if name not in tables:
            own = (*(key.name for key in KEYS if "." not in key.name), *(f"[{table}]" for table in tables))
            allowed = (
                *own,
                "[providers.NAME]",
                "[models.ID]",
                "[mcp_servers.NAME]",
                "[[hooks]]",
                "[checks.NAME]",
                "[lsp.NAME]",
            )
            yield _unknown(file, name, allowed)
        elif not is_table(raw):
            yield file.problem(name, f"it must be a table [{name}]; the defaults are used.")
        else:
            yield from _unknown_in_table(file, name, raw)


def _unknown_in_table(file: TomlFile, table: str, content: Mapping[str, object]) -> Iterator[Problem]:
    allowed = tuple(key.name.partition(".")[2] for key in KEYS if key.name.startswith(f"{table}."))
    for name in content:
        # Servers have a check of their own.
        if name not in allowed and table != "lsp" and not (table == "policy" and name in EFFECTS):
            more = EFFECTS if table == "policy" else ()
            yield _unknown(file, f"{table}.{name}", (*allowed, *more))


def _unknown(file: TomlFile, key: str, allowed: tuple[str, ...]) -> Problem:
    return file.problem(key, f"there is no such key; allowed are {', '.join(allowed)}. It is not used.")


def _refused_tables(project: TomlFile) -> Iterator[Problem]:
    if "providers" in project.table:
        sentence = "a project may not set up providers, since that could send your work elsewhere; it is not used."
        yield project.problem("providers", sentence)
    for name in server_tables(project):
        yield project.problem(f"lsp.{name}", "a project may not set up language servers; it is not used.")


def _path_values(paths: Paths) -> Iterator[EffectiveValue]:
    source = "the system's usual place" if paths.source == "platform" else paths.source
    yield EffectiveValue("data directory", str(paths.data), source)
    yield EffectiveValue("config file", str(paths.config_file), source)
    yield EffectiveValue("log file", str(paths.log_file), source)
    yield EffectiveValue("cache directory", str(paths.cache), source)


def _build(
    found: Mapping[str, _Found],
    providers: Mapping[str, ProviderSettings],
    servers: Mapping[str, McpServerSettings],
) -> Settings:
    tree: dict[str, object] = {"providers": providers, "mcp_servers": servers}
    tables: dict[str, dict[str, Value]] = {}
    for name, (value, _) in found.items():
        table, _, short = name.rpartition(".")
        if table:
            tables.setdefault(table, {})[short] = value
        else:
            tree[name] = value
    # The table of keys has checked every value, so this can only fail when it and the struct disagree.
    return msgspec.convert({**tree, **tables}, Settings)
