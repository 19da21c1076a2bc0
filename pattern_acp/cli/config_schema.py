"""`pattern-acp config schema`: what config.toml may hold, for the completion of editors.

Owns: pydantic models of the file, made from the tables that the readers of config/ go by, so that no setting is
declared twice. Must not know: values, or which file is read. Nothing on the way of a turn imports it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from pattern_acp.cli.arguments import EXIT_OK, ConfigWanted
from pattern_acp.cli.output import OutputClosed, write_line
from pattern_acp.config.keys import KEYS
from pattern_acp.config.programs import CHECK_KEYS, EVENTS, LSP_SERVER_KEYS, MCP_SERVER_KEYS
from pattern_acp.config.providers import MODEL_KEYS, PROVIDER_KEYS
from pattern_acp.config.toml_file import FILE_NAME, Rule, choices_of
from pattern_acp.domain.canonical import JsonObject

_Form: TypeAlias = Any
"""A type as pydantic reads it."""

_POSITIVE = Annotated[int, Field(gt=0)]
_TEXTS = list[str]
_TABLE = dict[str, str]


def _any_case(*words: str) -> _Form:
    """One of these words, as the readers take it: in any case, with blanks around. An editor completes the words."""

    def judge(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"it must be one of {', '.join(words)}")
        return text

    letters = ("".join(f"[{each.upper()}{each}]" if each.isalpha() else each for each in word) for word in words)
    written: JsonObject = {"type": "string", "pattern": rf"^\s*({'|'.join(letters)})\s*$"}
    return Annotated[str, AfterValidator(judge), WithJsonSchema({"anyOf": [{"enum": list(words)}, written]})]


FORMS: Mapping[str, Mapping[str, _Form]] = {
    "mcp_servers": {
        "args": _TEXTS,
        "env": _TABLE,
        "transport": Literal["stdio", "http", "sse"],
        "headers": _TABLE,
        "oauth": dict[str, str | int],
    },
    "checks": {
        "files": str | _TEXTS,
        "kind": Literal["formatter", "linter", "test"],
        "when": Literal["after_edit", "on_stop"],
        "feed": Literal["on_failure", "always"],
        "timeout_seconds": _POSITIVE,
    },
    "lsp": {"command": _TEXTS, "languages": _TEXTS},
}
"""The keys, of tables whose names the user chooses, that are something else than text."""


def run_config(arguments: ConfigWanted) -> int:
    """Print the schema."""
    import json

    del arguments
    with suppress(OutputClosed):
        write_line(json.dumps(config_schema(), indent=2, ensure_ascii=False))
    return EXIT_OK


def config_schema() -> JsonObject:
    """The JSON Schema of config.toml (draft 2020-12)."""
    schema = config_model().model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "config.toml of pattern-acp"}


def config_model() -> type[BaseModel]:
    """The model of a whole file. It judges values by the readers' own rules."""
    groups: dict[str, dict[str, _Form]] = {"": {}}
    for key in KEYS:
        group, _, name = key.name.rpartition(".")
        field = Field(default=None, description=key.summary)
        groups.setdefault(group, {})[name] = (_judged(key.rule) | None, field)
    fields = groups.pop("")
    lsp = _model("lsp", groups.pop("lsp"), _table("lsp", LSP_SERVER_KEYS.items()))
    constellation = _model("constellation", groups.pop("constellation"))
    for name, group in groups.items():
        fields[name] = (_model(name, group) | None, None)
    about = "The memory to use, or its table."
    fields["constellation"] = (constellation | _judged(FILE_NAME) | None, Field(default=None, description=about))
    fields["lsp"] = (lsp | _any_case("on", "off") | bool | None, Field(default=None, description="Language servers."))
    for name, known in (("providers", PROVIDER_KEYS), ("models", MODEL_KEYS)):
        judged = {
            key: (_judged(each.rule) | None, Field(default=None, description=each.about)) for key, each in known.items()
        }
        fields[name] = (dict[str, _model(f"{name}_entry", judged)] | None, None)
    for name, keys in (("mcp_servers", MCP_SERVER_KEYS), ("checks", CHECK_KEYS)):
        fields[name] = (dict[str, _table(name, keys.items())] | None, None)
    fields["hooks"] = (list[_Hook] | None, None)
    return _model("config", fields)


class _Hook(BaseModel):
    """A command that runs at an event."""

    model_config = ConfigDict(extra="forbid")

    event: Literal[EVENTS]  # pyright: ignore[reportInvalidTypeForm]
    command: str
    matcher: str = ""
    timeout: int = 60
    type: Literal["command"] = "command"


def _judged(rule: Rule) -> _Form:
    def judge(value: object) -> object:
        if rule.check(value) is None:
            raise ValueError(f"it must be {rule.allowed}")
        return value

    form = Annotated[rule.form, Field(ge=rule.bounds[0], le=rule.bounds[1])] if rule.bounds else rule.form
    if words := choices_of(rule):
        form = _any_case(*words)
    return Annotated[form, AfterValidator(judge)]


def _table(name: str, keys: Iterable[tuple[str, str]]) -> type[BaseModel]:
    forms = FORMS[name]
    return _model(
        f"{name}_entry",
        {key: (forms.get(key, str) | None, Field(default=None, description=about)) for key, about in keys},
    )


def _model(name: str, fields: Mapping[str, _Form], others: type[BaseModel] | None = None) -> type[BaseModel]:
    """A model that takes these keys alone, or with `others` any further one that is such a table."""
    if others is None:
        return create_model(name, __config__=ConfigDict(extra="forbid", strict=True), **fields)
    base = type(
        name,
        (BaseModel,),
        {
            "model_config": ConfigDict(extra="allow", strict=True),
            "__annotations__": {"__pydantic_extra__": dict[str, others]},
        },
    )
    return create_model(name, __base__=base, **fields)
