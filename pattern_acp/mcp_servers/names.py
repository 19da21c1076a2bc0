"""Names of tools for the model.

Owns: the form `server__tool` in the characters that vendors allow (`^[a-zA-Z0-9_-]{1,64}$`), each name once. Must not
know: what the tools do.
"""

from collections.abc import Collection, Sequence

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.late_pattern import late_pattern

SEPARATOR = "__"
NAME_LIMIT = 64
"""Longest name of a tool that Anthropic and OpenAI take."""

SERVER_LIMIT = 24
"""Characters that the server's part may have, so that the tool's part stays readable."""

PROMPT_LIMIT = 40
"""Characters that a prompt's part may have in the slash command for it."""

_HASH_DIGITS = 6
_FORBIDDEN = late_pattern(r"[^a-zA-Z0-9_-]+")


def tool_names(tools: Sequence[tuple[str, str]], taken: Collection[str] = ()) -> tuple[str, ...]:
    """A name for each (server, tool), in their order, different from each other and from `taken`.

    A name depends on its own pair alone unless two collide, so that it stays when other tools come and go.
    """
    used = set(taken)
    names: list[str] = []
    for server, tool in tools:
        name = first = _joined(server, tool)
        number = 2
        while name in used:
            name = _numbered(first, number)
            number += 1
        used.add(name)
        names.append(name)
    return tuple(names)


def typed_names(prompts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """What a person types for each (server, prompt): without marks, unless it is cut or two would be the same."""
    plain = [(_plain(server), _plain(prompt)) for server, prompt in prompts]
    kept = [
        short == pair or (plain.count(short) == 1 and all(short)) for pair, short in zip(prompts, plain, strict=True)
    ]
    return tuple(
        f"{clean(server, SERVER_LIMIT)}:{clean(prompt, PROMPT_LIMIT)}"
        for server, prompt in (
            short if is_kept else pair for pair, short, is_kept in zip(prompts, plain, kept, strict=True)
        )
    )


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("_", text).strip("_")


def clean(text: str, limit: int) -> str:
    """`text` in allowed characters; what is cut or lost leaves a mark of the whole, so that two stay two."""
    plain = _FORBIDDEN.sub("_", text)
    if plain == text and 0 < len(text) <= limit:
        return text
    return _marked(plain[:limit], text, limit)


def _joined(server: str, tool: str) -> str:
    prefix = clean(server, SERVER_LIMIT) + SEPARATOR
    return prefix + clean(tool, NAME_LIMIT - len(prefix))


def _marked(name: str, source: str, limit: int = NAME_LIMIT) -> str:
    mark = sha256_hex(source.encode("utf-8", "surrogatepass"))[:_HASH_DIGITS]
    return f"{name[: limit - len(mark) - 1]}_{mark}"


def _numbered(name: str, number: int) -> str:
    end = f"_{number}"
    return name[: NAME_LIMIT - len(end)] + end
