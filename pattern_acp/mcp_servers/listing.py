"""Lists of servers, entry by entry: one odd entry costs itself and not its server.

Owns: which entries are repaired or left out before the `mcp` package's session judges a list as a whole. Must not know:
what the entries are for.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types import methods
from msgspec import Struct
from pydantic_core import ValidationError

from pattern_acp.domain.canonical import Json
from pattern_acp.mcp_servers.schemas import UnusableSchemaError, is_sound, usable_schema

NAME_LIMIT = 80
"""Characters of an entry's name that are told when it is left out."""

Entry = dict[str, Any]


class _List(Struct, frozen=True):
    key: str
    kind: str
    result: type[types.ListToolsResult | types.ListPromptsResult | types.ListResourcesResult]
    needed: tuple[str, ...]


_LISTS: Mapping[str, _List] = {
    "tools/list": _List("tools", "tool", types.ListToolsResult, ("name", "inputSchema")),
    # What a prompt is called without is no matter of taste: one whose arguments make no sense is left out.
    "prompts/list": _List("prompts", "prompt", types.ListPromptsResult, ("name", "arguments")),
    "resources/list": _List("resources", "resource", types.ListResourcesResult, ("uri", "name")),
}


class LeftOutError(ValueError):
    """An entry cannot be used. Its text says why, as the end of a sentence."""


class Sieve:
    """Sits between a server and the package's session, and sifts the answers to requests for lists."""

    def __init__(self) -> None:
        self.version = types.LATEST_PROTOCOL_VERSION
        """Of the protocol, once it is agreed on."""
        self.left_out: dict[str, None] = {}
        """What was left out, each with its reason, such as "the tool `a` (it has no name)"."""
        self._asked: dict[str, str] = {}
        """The methods of the requests for lists that run, by their ids."""

    def note(self, item: SessionMessage) -> None:
        """Look at what is sent: which answer is a list is only known by its request."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method in _LISTS:
            self._asked[str(message.id)] = message.method

    def sift(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """What is received, with the sound entries of a list alone."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            method = self._asked.pop(str(message.id), "")
            if method and isinstance(message, types.JSONRPCResponse):
                message.result = self._page(method, message.result)
        return item

    def _page(self, method: str, page: Entry) -> Entry:
        kind = _LISTS[method]
        entries = page.get(kind.key)
        rest = {key: value for key, value in page.items() if key != kind.key and value is not None}
        rest = self._sound(method, {**rest, kind.key: []}, (), kind.needed)
        if self._problem(method, rest) is not None:
            return page
        if not isinstance(entries, list):
            if entries is not None:
                self._leave_out(f"its {kind.key}", "they are no list")
            return rest
        sound: list[Entry] = []
        for number, entry in enumerate(cast("list[object]", entries), 1):
            try:
                sound.append(self._entry(method, rest, entry))
            except LeftOutError as error:
                self._leave_out(f"the {kind.kind} {_named(entry, number)}", str(error))
        return {**rest, kind.key: sound}

    def _leave_out(self, what: str, why: str) -> None:
        self.left_out[f"{what} ({why})"] = None

    def _entry(self, method: str, rest: Entry, entry: object) -> Entry:
        kind = _LISTS[method]
        if not isinstance(entry, dict):
            raise LeftOutError("it is no object")
        given = cast("Entry", entry)
        found = {key: value for key, value in given.items() if value is not None}
        if kind.kind == "resource":
            found.setdefault("name", found.get("uri"))
        elif not isinstance(found.get("name"), str) or not found["name"].strip():
            raise LeftOutError("it has no name")
        if kind.kind == "tool":
            found["inputSchema"] = _input_schema(given.get("inputSchema"))
            if not is_sound(cast("Json", found.get("outputSchema"))):
                # Answers are held against it; against an unsound one none of them holds.
                found.pop("outputSchema", None)
        sound = self._sound(method, {**rest, kind.key: [found]}, (kind.key, 0), kind.needed)
        return cast("list[Entry]", sound[kind.key])[0]

    def _sound(self, method: str, page: Entry, at: tuple[()] | tuple[str, int], needed: tuple[str, ...]) -> Entry:
        """The page without the fields at a place that have another form than they may have."""
        part = cast("Entry", page[at[0]][at[1]]) if at else page
        while (problem := self._problem(method, page)) is not None:
            loc, words = problem
            inside = loc[: len(at)] == at
            field = next((step for step in (loc[len(at) :] if inside else ()) if step in part), None)
            if field is None or field in needed:
                path = ".".join(map(str, loc[len(at) :] if inside else loc))
                if at:
                    raise LeftOutError(f"{path}: {words[:1].lower()}{words[1:]}")
                return page
            del part[field]
        return page

    def _problem(self, method: str, page: Entry) -> tuple[tuple[str | int, ...], str] | None:
        try:
            # A version may have no form of its own for a list.
            with suppress(KeyError):
                methods.validate_server_result(method, self.version, page)
            _LISTS[method].result.model_validate(page, by_name=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            return first["loc"], first["msg"]
        return None


def _input_schema(schema: object) -> object:
    try:
        return usable_schema(cast("Json", schema))
    except UnusableSchemaError as error:
        raise LeftOutError(str(error)) from error


def _named(entry: object, number: int) -> str:
    given = cast("Entry", entry) if isinstance(entry, dict) else {}
    name = given.get("name", given.get("uri"))
    shown = " ".join(name.split())[:NAME_LIMIT] if isinstance(name, str) else ""
    return f"`{shown}`" if shown else f"number {number}"
