"""JSON schema without its price: says of a value, in microseconds, that a schema surely takes it.

Owns: the keywords that the official schema of ACP uses for messages. Must not know: why a value is refused; whoever
wants that, or meets a keyword that is not here, asks jsonschema.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias, cast

Check: TypeAlias = Callable[[object], bool]
Members: TypeAlias = Mapping[str, object]

TYPES: Final[Mapping[str, Check]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: _is_number(value) and value == int(cast("float", value)),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}

ANNOTATIONS: Final = frozenset({"$defs", "default", "description", "discriminator", "format", "title"})


class UnknownKeywordError(Exception):
    """The schema says something that is not known here."""


class QuickSchema:
    """Checks by name of the definitions of one schema."""

    def __init__(self, definitions: Members) -> None:
        self._definitions = definitions
        self._checks: dict[str, Check] = {}

    def takes(self, name: str, value: object) -> bool:
        """Whether the definition surely takes the value; False where only jsonschema can tell."""
        try:
            return self._named(name)(value)
        except UnknownKeywordError:
            return False

    def _named(self, name: str) -> Check:
        if name not in self._checks:
            # Definitions refer to themselves: what is looked up while one is made is found at its first use.
            self._checks[name] = partial(self._later, name)
            try:
                self._checks[name] = self._made(self._definitions[name])
            except UnknownKeywordError:
                del self._checks[name]
                raise
        return self._checks[name]

    def _later(self, name: str, value: object) -> bool:
        return self._named(name)(value)

    def _made(self, schema: object) -> Check:
        if isinstance(schema, bool):
            return lambda _value: schema
        members = cast("Members", schema)
        checks = [
            self._keyword(keyword, argument, members)
            for keyword, argument in members.items()
            if keyword not in ANNOTATIONS and not keyword.startswith("x-")
        ]
        return lambda value: all(check(value) for check in checks)

    def _keyword(self, keyword: str, argument: object, schema: Members) -> Check:  # noqa: C901, PLR0911  one a keyword
        match keyword:
            case "$ref":
                return self._named(str(argument).removeprefix("#/$defs/"))
            case "type":
                kinds = [TYPES[str(kind)] for kind in ([argument] if isinstance(argument, str) else _list(argument))]
                return lambda value: any(kind(value) for kind in kinds)
            case "const":
                return lambda value: type(value) is type(argument) and value == argument
            case "enum":
                return lambda value: any(type(value) is type(each) and value == each for each in _list(argument))
            case "required":
                return lambda value: not isinstance(value, dict) or all(key in value for key in _list(argument))
            case "minimum":
                return lambda value: not _is_number(value) or cast("float", value) >= cast("float", argument)
            case "maximum":
                return lambda value: not _is_number(value) or cast("float", value) <= cast("float", argument)
            case "minLength":
                return lambda value: not isinstance(value, str) or len(value) >= cast("int", argument)
            case "items":
                check = self._made(argument)
                return lambda value: (
                    not isinstance(value, list) or all(check(each) for each in cast("list[object]", value))
                )
            case "properties" | "additionalProperties":
                return self._members(schema)
            case "allOf" | "anyOf" | "oneOf" | "not":
                return self._combined(keyword, argument)
            case _:
                raise UnknownKeywordError(keyword)

    def _members(self, schema: Members) -> Check:
        named = {key: self._made(each) for key, each in cast("Members", schema.get("properties", {})).items()}
        rest = self._made(schema.get("additionalProperties", True))
        return lambda value: (
            not isinstance(value, dict)
            or all(named.get(key, rest)(each) for key, each in cast("Members", value).items())
        )

    def _combined(self, keyword: str, argument: object) -> Check:
        checks = [self._made(each) for each in ([argument] if keyword == "not" else _list(argument))]
        match keyword:
            case "allOf":
                return lambda value: all(check(value) for check in checks)
            case "anyOf":
                return lambda value: any(check(value) for check in checks)
            case "oneOf":
                return lambda value: sum(check(value) for check in checks) == 1
            case _:
                return lambda value: not checks[0](value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list(value: object) -> Sequence[object]:
    return cast("list[object]", value)
