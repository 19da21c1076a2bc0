"""Attachments of a prompt: files behind links and `@path`.

Owns: reading them through the editor and within the policy, how much of each the model gets at once, and the sentences
about what was left out. Must not know: the wire. What is read is data beside the user's words and never part of them
(invariant 8).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import AttachmentKind, ImagePart, Message, Part, ResourcePart, TextPart
from pattern_acp.domain.paths import absolute_path, display_path, resolve_path
from pattern_acp.domain.text_limits import cut_line, plural
from pattern_acp.domain.tool_calls import Location
from pattern_acp.policy.decision import Verdict
from pattern_acp.turn.permissions import resolved
from pattern_acp.workspace.images import GIVEN_BYTES, image_of
from pattern_acp.workspace.kinds import PathFacts, inspect_path
from pattern_acp.workspace.walk import list_directory

MENTIONS = 20
"""Most mentions of one prompt that are looked at; a pasted text may hold thousands of `@`."""

LOOKED_AT = 100_000
"""Characters of a text in which mentions are looked for; what is behind them was pasted."""

_MENTION = late_pattern(
    r"""
    (?<![\w@/.+`\\-])@            # not the middle of an address, a scope such as npm's, or code
    (?: "(?P<quoted>[^"\n]{1,500})" (?P<quoted_lines>(?::\d+(?:-\d+)?)?)
      | (?= (?P<wide> (?: \\[ ] | [^\s"'`<>(){}\[\],;|@] | [,;'] (?=[\w.]) | (?<=/) @ (?=\w)
            | \[ \[? [^\s"'`<>(){}\[\]]{1,100} \]? \]
            | \( [^\s"'`<>(){}\[\]]{1,100} \)
            | \{ [^\s"'`<>(){}\[\]]{1,100} \}
          ){1,500} ) )
        (?P<plain> (?: \\[ ] | [^\s"'`<>(){}\[\],;|@] ){0,500} )
    )
    """,
    re.VERBOSE,
)
_LINES = late_pattern(r"(?P<path>.+?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?|#L(?P<first2>\d+)(?:[-:]L?(?P<last2>\d+))?)")
_ENDING = late_pattern(r"[^/]+\.[A-Za-z][A-Za-z0-9]{0,3}")
_FENCE = late_pattern(r"\s{0,3}(`{3,}|~{3,})")
_CODE = late_pattern(r"`[^`\n]+`")


class Mention(Struct, frozen=True):
    """A path as it was written, and the lines that were asked for as `10-20`; empty for all."""

    path: str
    lines: str = ""


def mentions_in(text: str) -> tuple[tuple[Mention, ...], ...]:
    """Find possible mentions, in order and each once: for each the ways to read it, the likeliest first.

    `@src/x.py:3.` may end in a full stop or not, `:3` be a line or part of the name, and brackets belong to the path
    (`@app/[id]/(group)/page.tsx`) or to the sentence: the first way whose path exists is meant. Code is left out,
    since decorators look the same.
    """
    if "@" not in text:
        return ()
    found: dict[tuple[Mention, ...], None] = {}
    for match in _matches(text):
        if match["quoted"]:
            ways = _ways(match["quoted"] + match["quoted_lines"])
        else:
            ways = _unquoted(match["wide"], match["plain"])
        if ways:
            found[ways] = None
        if len(found) == MENTIONS:
            break
    return tuple(found)


def looks_like_path(written: str) -> bool:
    """True when a mention that matches nothing was meant as a path: it has folders, or a file's usual ending.

    A name alone may be that of a user, and `@scope/name` one of npm's packages; addresses have no `@` in front.
    """
    bare = written.rstrip(".:!?*_")
    folder, _, name = bare.rpartition("/")
    return bool(_ENDING.fullmatch(name)) or folder.count("/") > 0 or bare.startswith(("./", "../", "~/", "/"))


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Line by line, since a pasted log may have megabytes: what is between fences is code."""
    fence = ""
    for line in text[:LOOKED_AT].split("\n"):
        mark = _FENCE.match(line)
        if mark is not None and not fence:
            fence = mark[1]
        elif mark is not None and mark[1].startswith(fence):
            fence = ""
        elif not fence and "@" in line:
            searched = _CODE.sub(" ", line)
            # What is called without a fence around it is a decorator.
            yield from (m for m in _MENTION.finditer(searched) if searched[m.end() : m.end() + 1] != "(" or "/" in m[0])


def _unquoted(wide: str, plain: str) -> tuple[Mention, ...]:
    # Of `@app/[id]/page.tsx`, the folder in front of the bracket is not meant when there is no such file.
    readings = (wide,) if plain in ("", wide) or plain.endswith("/") else (wide, plain)
    written = [one.replace("\\ ", " ") for one in readings]
    return tuple(dict.fromkeys(way for one in written for text in (one, one.rstrip(".:!?*_")) for way in _ways(text)))


def _ways(written: str) -> tuple[Mention, ...]:
    if not written:
        return ()
    match = _LINES.fullmatch(written)
    if match is None:
        return (Mention(written),)
    first = int(match["first"] or match["first2"])
    last = int(match["last"] or match["last2"] or first)
    return (Mention(written), Mention(match["path"], f"{min(first, last)}-{max(first, last)}"))


if TYPE_CHECKING:
    from pattern_acp.session.ports import Workbench
    from pattern_acp.session.state import SessionState

MISSING_NAMED = 3
"""Mentions of nothing that are named to the user."""

NAMED_CHARACTERS = 80
"""Characters of each of them that are shown."""

FILE_CHARACTERS = 50_000
"""Characters of one file that a prompt brings along; the model can read on."""

FOLDER_ENTRIES = 200
"""Entries of a folder that a prompt brings along."""

_FILE = late_pattern(r"file:|/|[A-Za-z]:[\\/]", re.IGNORECASE)
"""Beginnings of links to files; some clients send bare paths (reference: clients, interop rule 10)."""

FILE_BYTES = 20_000_000
"""Bytes of a file that is opened at all."""


class _Place(Struct, frozen=True):
    """A path that exists, or may: as the editor knows it, through its links, and short for showing."""

    path: str
    resolved: str
    shown: str


class _Found(Struct, frozen=True):
    """Result of reading: text or an image, and a note for the model. Neither: only the note."""

    text: str | None = None
    note: str = ""
    image: ImagePart | None = None
    lines: str = ""
    refused: bool = False


async def with_files(state: "SessionState", workbench: "Workbench", message: Message) -> Message:
    """The message with the files that its links and mentions name.

    A link that cannot be read stays a link, with a note why. Sentences for the user go to the session's notices.
    """
    only = message.parts[0] if len(message.parts) == 1 else None
    if isinstance(only, TextPart) and "@" not in only.text:
        return message
    parts: list[Part] = []
    known: set[tuple[str, str]] = set()
    missing: list[str] = []
    for part in message.parts:
        if isinstance(part, ResourcePart) and part.given is AttachmentKind.LINK and _FILE.match(part.uri):
            read = await _linked(state, workbench, part)
            known.add((part.uri.partition("#")[0], part.lines))
            parts += read
        else:
            parts.append(part)
    for ways in _mentioned(message.parts):
        found = await _existing(state, ways)
        if found is None:
            missing += [ways[0].path] if looks_like_path(ways[0].path) else []
            continue
        mention, place = found
        uri = Path(place.path).as_uri()
        if (uri, mention.lines) not in known:
            known.add((uri, mention.lines))
            part = ResourcePart(uri, place.shown, given=AttachmentKind.MENTION, lines=mention.lines)
            parts += await _read(state, workbench, place, part)
    _tell_of_unseen(state, parts)
    if missing:
        named = ", ".join(f"@{cut_line(one, NAMED_CHARACTERS)}" for one in missing[:MISSING_NAMED])
        more = f" and {len(missing) - MISSING_NAMED} more" if len(missing) > MISSING_NAMED else ""
        state.notices.append(f"There is no file {named}{more}; the prompt continues as it was written.")
    return replace(message, parts=tuple(parts)) if tuple(parts) != message.parts else message


def given_files(state: "SessionState", message: Message) -> tuple[Location, ...]:
    """The files whose text the message brings along, or lists."""
    found: list[Location] = []
    for part in message.parts:
        if isinstance(part, ResourcePart) and part.text is not None and _FILE.match(part.uri):
            with suppress(WorkspaceError):
                found.append(Location(absolute_path(_path_of(part), state.cwd)))
    return tuple(found)


def _mentioned(parts: Sequence[Part]) -> Sequence[tuple[Mention, ...]]:
    return [ways for part in parts if isinstance(part, TextPart) for ways in mentions_in(part.text)]


def _tell_of_unseen(state: "SessionState", parts: Sequence[Part]) -> None:
    model = state.model
    images = [part.about for part in parts if isinstance(part, ImagePart)]
    if images and not model.sees_images:
        named = " and the ".join(images)
        state.notices.append(f"{model.qualified} takes no images, so it is not shown the {named}.")


async def _existing(state: "SessionState", ways: Sequence[Mention]) -> tuple[Mention, _Place] | None:
    for mention in ways:
        try:
            place = await _place(state, mention.path)
        except WorkspaceError:
            continue
        if (await anyio.to_thread.run_sync(inspect_path, place.path)).kind != "missing":
            return mention, place
    return None


async def _place(state: "SessionState", raw: str) -> _Place:
    path = absolute_path(raw, state.cwd)
    return _Place(path, await anyio.to_thread.run_sync(resolve_path, path), display_path(path, state.cwd))


def _path_of(part: ResourcePart) -> str:
    """The path of a link. In a URI, a `#` of the name itself is written %23; in a bare path it is not."""
    if part.uri[:5].lower() == "file:":
        return part.uri.partition("#")[0].partition("?")[0]
    return part.uri.rpartition("#")[0] if part.lines else part.uri


async def _linked(state: "SessionState", workbench: "Workbench", part: ResourcePart) -> list[Part]:
    try:
        place = await _place(state, _path_of(part))
    except WorkspaceError as error:
        return [replace(part, note=error.sentence)]
    return await _read(state, workbench, place, part)


async def _read(state: "SessionState", workbench: "Workbench", place: _Place, part: ResourcePart) -> list[Part]:
    try:
        found = await _look(state, workbench, place, part.lines)
    except WorkspaceError as error:
        found = _Found(note=f"it could not be read: {error.sentence}", refused=True)
    link = replace(part, text=found.text, note=found.note, lines=found.lines or part.lines)
    before = _given_before(state, part.uri)
    if found.refused and not any(one.note == link.note for one in before):
        state.notices.append(f"{place.shown} was not given to the model: {found.note}")
    if link.text is not None and any((one.text, one.lines) == (link.text, link.lines) for one in before):
        # Some editors attach the active file to every prompt.
        return [replace(link, text=None, note="unchanged since it was attached earlier in this conversation")]
    if found.image is None:
        return [link]
    return [found.image] if part.given is AttachmentKind.MENTION else [link, found.image]


def _given_before(state: "SessionState", uri: str) -> list[ResourcePart]:
    """Parts of this file in messages that the model still has."""
    parts = (part for message in state.history for part in message.parts)
    return [part for part in parts if isinstance(part, ResourcePart) and part.uri == uri]


async def _facts(workbench: "Workbench", place: _Place) -> PathFacts:
    if workbench.is_elsewhere:
        # This machine may have another file at the path.
        return PathFacts("text")
    return await anyio.to_thread.run_sync(inspect_path, place.path)


async def _look(state: "SessionState", workbench: "Workbench", place: _Place, lines: str) -> _Found:
    facts = await _facts(workbench, place)
    refusal = _refusal(state, place, is_folder=facts.kind == "directory")
    if refusal:
        return _Found(note=refusal, refused=True)
    match facts.kind:
        case "directory":
            return await _folder(place)
        case "image" if facts.size <= GIVEN_BYTES:
            data = await anyio.to_thread.run_sync(Path(place.path).read_bytes)
            return _Found(image=await image_of(data, place.shown), note="the image follows")
        case "text" | "missing" if facts.size <= FILE_BYTES:
            # A file that is missing on the disk may be a new one in the editor.
            return await _text(state, workbench, place, lines)
        case _:
            return _Found(note=f"its content is not shown: {facts.size:,} bytes of {facts.media_type or facts.kind}")


def _refusal(state: "SessionState", place: _Place, *, is_folder: bool) -> str:
    """Why policy keeps the prompt from bringing this along; empty when it does not."""
    from pattern_acp.policy.decide import decide

    policy = state.policy
    access = ReadPath(place.resolved, is_folder)
    decision = decide(
        (access,), mode=policy.mode, roots=policy.roots, grants=policy.grants, resolve=resolved, rules=policy.rules
    )
    if decision.verdict is Verdict.ALLOW:
        return ""
    way = " To read it, the model has to ask." if decision.verdict is Verdict.ASK else ""
    return f"{decision.reason}{way}"


async def _folder(place: _Place) -> _Found:
    listing = await list_directory(place.path, limit=FOLDER_ENTRIES)
    names = [f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in listing.entries]
    left = listing.total - len(names)
    return _Found(
        "\n".join(names), f"{plural(left, 'more entry', 'more entries')}; list_directory shows them" if left else ""
    )


async def _text(state: "SessionState", workbench: "Workbench", place: _Place, lines: str) -> _Found:
    file = await workbench.files.read_text_file(place.path)
    all_lines = [f"{line}\n" for line in file.text.split("\n")]
    # As editors count: what follows the last line end is a line only when there is something.
    all_lines[-1] = all_lines[-1].removesuffix("\n")
    all_lines = all_lines if all_lines[-1] else all_lines[:-1]
    first, last = _range(lines, len(all_lines))
    text, shown = _whole_lines(all_lines[first - 1 : last])
    if text == file.text:
        # The model has seen all of it, so it may be edited.
        state.fingerprints[place.resolved] = file.fingerprint
        return _Found(text)
    read = f"{first}-{first + shown - 1}"
    if len(text) == FILE_CHARACTERS and shown == 1:
        return _Found(text, f"only the first {FILE_CHARACTERS:,} characters of line {first}", lines=read)
    if shown == last - first + 1:
        return _Found(text, f"lines {read} of {len(all_lines):,}", lines=read)
    more = f"lines {read} of {len(all_lines):,}; read_file with start_line={first + shown} reads on"
    return _Found(text, more, lines=read)


def _range(lines: str, count: int) -> tuple[int, int]:
    if not lines:
        return 1, count
    first, last = (int(number) for number in lines.split("-"))
    return max(1, min(first, count)), min(last, count)


def _whole_lines(lines: Sequence[str]) -> tuple[str, int]:
    """As many lines as fit, and how many those are; a first line that is too long is cut."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line)
        if size > FILE_CHARACTERS:
            return ("".join(lines[:number]), number) if number else (line[:FILE_CHARACTERS], 1)
    return "".join(lines), len(lines)
