"""Templates from files: those that ship with the program, and those that a user adds.

Owns: the form of a template file. Must not know: where the user's folder is, or what becomes of a template. A file of
the user's counts before a built-in one of the same name.

    description = "What belongs there."       # required
    scope = "project"                         # persona, project, shared
    tier = "core"                             # core, working
    permission = "read_write"
    limit = 8000
    pinned = false
    text = ""                                 # what a new block says
    [schema]                                  # left out: free text
    kind = "list"
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field

from pattern_acp.domain.errors import ConfigError
from pattern_acp.memory.blocks import DEFAULT_LIMIT, MOST_LIMIT, BlockKey, BlockSpec, Permission, Scope, Tier
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.schemas.forms import empty
from pattern_acp.memory.schemas.types import (
    TEXT,
    BlockSchema,
    CompositeSchema,
    ContentError,
    FieldSpec,
    MapSchema,
    SchemaError,
    default_value,
    read_schema,
)

BUILT_IN = Path(__file__).parent
"""The folder of those that come with the program."""

LARGEST_FILE = 64 * 1024
"""Bytes of a template file; more is no template."""


class Template(Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a template file, apart from its schema."""

    description: str
    scope: Scope = Scope.PROJECT
    tier: Tier = Tier.CORE
    permission: Permission = Permission.READ_WRITE
    limit: int = DEFAULT_LIMIT
    pinned: bool = False
    text: str = ""
    schema: BlockSchema = TEXT

    def block(self, owner: str, label: str, *, description: str = "", text: str = "") -> BlockSpec:
        """The block to make of it; `description` and `text` count before the template's."""
        return BlockSpec(
            BlockKey(self.scope, owner, label),
            description or self.description,
            text or self.text,
            self.limit,
            self.schema,
            self.permission,
            self.pinned,
            self.tier,
        )


class Templates(Struct, frozen=True):
    """The templates there are, by the names of their files."""

    usable: Mapping[str, Template] = field(default_factory=dict[str, Template])
    broken: Mapping[str, ConfigError] = field(default_factory=dict[str, ConfigError])
    """Files of the user's that cannot be used; the sentence names the file and the key. They stop nothing else."""

    def named(self, name: str, label: str) -> Template:
        """The template of this name, for the block `label`.

        Raises:
            ConfigError: its file cannot be used.
            UnusableEditError: there is none; names those there are.
        """
        if name in self.broken:
            raise self.broken[name]
        if name not in self.usable:
            known = ", ".join(self.usable)
            raise UnusableEditError(label, f"there is no template {name!r}; the templates are {known}.")
        return self.usable[name]


NO_TEMPLATES = Templates()
"""Empty set, for callers that create no blocks."""


def load_templates(folder: Path | None) -> Templates:
    """All templates; `folder` is the user's, which need not exist."""
    usable = {path.stem: read_template(path) for path in sorted(BUILT_IN.glob("*.toml"))}
    broken: dict[str, ConfigError] = {}
    if folder is not None and folder.is_dir():
        for path in sorted(folder.glob("*.toml")):
            try:
                usable[path.stem] = read_template(path)
            except ConfigError as error:
                broken[path.stem] = error
    return Templates(usable, broken)


def template_file(name: str, folder: Path | None) -> tuple[bytes | None, bool]:
    """The file of the template of this name, and whether it is the user's; None when there is none."""
    for place in (folder, BUILT_IN):
        if place is not None:
            try:
                return (place / f"{name}.toml").read_bytes(), place is folder
            except OSError:
                continue
    return None, False


def read_template(path: Path) -> Template:
    """The template of a file.

    Raises:
        ConfigError: it cannot be read or is no template; names the file and the key.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError(f"The template {path} is larger than {LARGEST_FILE:,} bytes; make it shorter.")
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"The template {path} cannot be read ({error.strerror}); fix or remove it.") from error
    return template_of(content, str(path))


def template_of(content: bytes, path: str) -> Template:
    """The template in the bytes of a file, which sentences name by its path.

    Raises:
        ConfigError: it is no template; names the file and the key.
    """
    # Templates are read when a block is made of one, which few sessions do.
    import tomllib

    try:
        table: dict[str, object] = tomllib.loads(content.decode("utf-8-sig").replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The template {path} is no TOML ({error}); fix or remove it.") from error
    schema = table.pop("schema", None)
    try:
        template = msgspec.convert(table, Template)
        _check(template)
        if schema is None:
            return template
        content_schema = read_schema(schema)
        _check_defaults(content_schema)
        return msgspec.structs.replace(template, schema=content_schema)
    except (msgspec.ValidationError, SchemaError, ContentError) as error:
        raise ConfigError(f"The template {path} cannot be used: {error}.") from error


def _check(template: Template) -> None:
    if not template.description.strip():
        raise SchemaError("`description` is empty; say what belongs into such a block")
    if not 1 <= template.limit <= MOST_LIMIT:
        raise SchemaError(f"`limit` must be from 1 to {MOST_LIMIT}")


def _check_defaults(schema: BlockSchema) -> None:
    empty(schema)
    for one in _fields(schema):
        default_value(one)


def _fields(schema: BlockSchema) -> list[FieldSpec]:
    if isinstance(schema, CompositeSchema):
        return [one for section in schema.sections for one in _fields(section.schema)]
    return list(schema.fields) if isinstance(schema, MapSchema) else []
