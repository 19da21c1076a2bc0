"""`pattern-acp setup`: a provider with its key, the editors of this machine, and what the doctor says; `doctor`.

Owns: the questions, in order, what is written after each answer, and the place of each editor's configuration. Must not
know: how a key is stored (cli/auth.py). Without a terminal it asks nothing and writes nothing, unless `--yes` answers.
"""

import json
import re
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.diagnosis import diagnose
from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK, Auth, Doctor, Setup
from pattern_acp.cli.auth import run_auth
from pattern_acp.cli.command_runner import show_answer
from pattern_acp.cli.output import OutputClosed, printable, write_line, write_sentence
from pattern_acp.cli.rendering import show_parts
from pattern_acp.commands.document import Diff
from pattern_acp.config.providers import SHOWN_NAMES
from pattern_acp.config.settings import HTTP_WIRES, ProviderSettings
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError, WorkspaceError
from pattern_acp.recovery.checks import Health, repair
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.local_files import LocalFileSystem

NAME = "Pattern"
"""Name of the agent in the editors' own lists."""

_PROGRAM = "pattern-acp"


class EditorConfigError(PatternError):
    """The editor's configuration cannot be read, so nothing of it is changed."""

    failure_code = "cli.editor-config"


class Editor(Struct, frozen=True):
    """An editor, with placeholders for the folders of `places` in its paths."""

    name: str
    folder: str
    """Its folder in editor-configs/."""
    example: str
    """The file there that has the block."""
    form: Literal["json", "elisp", "copy"]
    """`copy`: the block goes into code of the user's own, so it is only shown."""
    files: tuple[str, ...] = ()
    """Configuration files; the first that exists is edited, else the first whose folder does."""
    signs: tuple[str, ...] = ()
    """Paths that exist where the editor, or the plugin, is installed."""
    programs: tuple[str, ...] = ()


EDITORS = (
    Editor(
        "Zed",
        "zed",
        "settings.json",
        "json",
        ("{config}/zed/settings.json", "{support}/Zed/settings.json"),
        programs=("zed", "zeditor"),
    ),
    Editor(
        "JetBrains IDEs",
        "jetbrains",
        "acp.json",
        "json",
        ("{home}/.jetbrains/acp.json",),
        signs=("{support}/JetBrains",),
    ),
    Editor(
        "VS Code",
        "vscode",
        "settings.json",
        "json",
        ("{support}/Code/User/settings.json",),
    ),
    Editor("VSCodium", "vscode", "settings.json", "json", ("{support}/VSCodium/User/settings.json",)),
    Editor(
        "Emacs agent-shell",
        "emacs-agent-shell",
        "pattern.el",
        "elisp",
        ("{home}/.emacs", "{home}/.emacs.el", "{home}/.emacs.d/init.el", "{config}/emacs/init.el"),
    ),
    *(
        Editor(
            f"Neovim {plugin}",
            f"neovim-{plugin.partition('.')[0]}",
            "pattern.lua",
            "copy",
            signs=(f"{{data}}/nvim/lazy/{plugin}", f"{{data}}/nvim/site/pack/*/*/{plugin}"),
        )
        for plugin in ("codecompanion.nvim", "avante.nvim", "agentic.nvim")
    ),
    Editor("Qt Creator", "qt-creator", "server.ini", "copy", signs=("{config}/QtProject/qtcreator",)),
    Editor("Toad", "toad", "pattern.sh", "copy", programs=("toad",)),
)
"""Those whose presence can be seen; editor-configs/README.md has the rest."""


def places(environ: Mapping[str, str], platform: str, home: Path) -> dict[str, str]:
    """The folders in which editors keep what is theirs, by placeholder; `platform` is `sys.platform`."""
    config = environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    data = environ.get("XDG_DATA_HOME") or str(home / ".local" / "share")
    support = config
    if platform == "darwin":
        support = str(home / "Library" / "Application Support")
    elif platform == "win32":
        support = environ.get("APPDATA") or str(home / "AppData" / "Roaming")
        data = environ.get("LOCALAPPDATA") or str(home / "AppData" / "Local")
    return {"home": str(home), "config": config, "data": data, "support": support}


def find_editors(where: Mapping[str, str], which: Callable[[str], object]) -> list[tuple[Editor, Path | None]]:
    """The editors of this machine, each with its configuration file; None where the block is only shown.

    `where` is what `places` gives, `which` looks for a program on PATH.
    """
    found: list[tuple[Editor, Path | None]] = []
    for editor in EDITORS:
        files = [Path(one.format_map(where)) for one in editor.files]
        file = next((one for one in files if one.is_file()), None)
        # A home folder is everybody's: a file right in it counts only when it exists.
        beside = next((one for one in files if one.parent.is_dir() and str(one.parent) != where["home"]), None)
        is_here = bool(file or beside or any(map(_exists, (one.format_map(where) for one in editor.signs))))
        if is_here or any(which(program) for program in editor.programs):
            first = file or beside or (files[0] if files else None)
            found.append((editor, None if editor.form == "copy" else first))
    return found


def _exists(pattern: str) -> bool:
    if "*" not in pattern:
        return Path(pattern).exists()
    fixed, _, rest = pattern.partition("*")
    return any(True for _ in Path(fixed).glob(f"*{rest}"))


def block_of(editor: Editor, command: Sequence[str]) -> str:
    """The block of `editor`, as its example has it, with `command` instead of the program's name.

    Raises:
        EditorConfigError: the examples were not installed with the program.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "editor_configs", package.parent / "editor-configs"):
        example = folder / editor.folder / editor.example
        if example.is_file():
            break
    else:
        raise EditorConfigError("The examples of editor-configs are not installed; install pattern-acp again.")
    text = example.read_text(encoding="utf-8")
    return text if editor.form == "json" else text.replace(f'"{_PROGRAM}"', json.dumps(command[0]))


def edited(editor: Editor, text: str, command: Sequence[str]) -> str:
    """The configuration `text` of `editor` with our block; equal to `text` when it has it already.

    Raises:
        EditorConfigError: `text` is not what the editor's configuration has to be.
    """
    block = block_of(editor, command)
    if editor.form == "elisp":
        return text if f'"{_PROGRAM}"' in text or command[0] in text else f"{_ended(text)}{_after_load(block)}"
    example: dict[str, Json] = json.loads(block)
    for key, value in example.items():
        entries = value if isinstance(value, dict) else {}
        for name, entry in entries.items():
            started: dict[str, Json] = {"command": command[0], "args": list(command[1:])}
            whole = {**entry, **started} if isinstance(entry, dict) else entry
            # A block that is there already may have keys, or more, in its `env`: only the command is ours to change.
            text = with_entry(text, (key, name), whole, replaces=False)
            for part, wanted in started.items():
                text = with_entry(text, (key, name, part), wanted)
        if not entries:
            text = with_entry(text, (key,), value, replaces=False)
    return text


def _ended(text: str) -> str:
    return f"{text.rstrip()}\n\n" if text.strip() else ""


def _after_load(block: str) -> str:
    """Return `block` so that an Emacs whose agent-shell is not installed yet starts without an error."""
    _, _, body = block.partition("\n\n")
    indented = "".join(f"  {line}" if line.strip() else line for line in body.rstrip().splitlines(keepends=True))
    return f"(with-eval-after-load 'agent-shell\n{indented})\n"


class _Value(Struct, frozen=True):
    """A value of JSON with comments, by its place in the text."""

    start: int
    end: int
    members: "dict[str, _Value] | None" = None
    """Those of an object; None for anything else."""


_TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|[{}\[\],:]|[^\s{}\[\],:"/]+)', re.DOTALL)


class _Reader:
    """Reads JSON with comments and commas behind the last entry, the form of Zed's and VS Code's settings."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int, int]] = []
        at = 1 if text.startswith("\ufeff") else 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise EditorConfigError(f"Line {text.count(chr(10), 0, at) + 1} is not JSON.")
            if found[1] is not None:
                self._tokens.append((found[1], at, found.end()))
            at = found.end()
        self._text, self._next = text, 0

    def whole(self) -> _Value:
        """The one value of the text. Raises EditorConfigError where it is not JSON."""
        value = self._value()
        if self._next < len(self._tokens):
            raise self._problem()
        return value

    def _problem(self) -> EditorConfigError:
        at = self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)
        return EditorConfigError(f"Line {self._text.count(chr(10), 0, at) + 1} is not JSON.")

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self, *wanted: str) -> tuple[str, int, int]:
        if self._next >= len(self._tokens) or (wanted and self._peek() not in wanted):
            raise self._problem()
        self._next += 1
        return self._tokens[self._next - 1]

    def _value(self) -> _Value:
        first, start, end = self._take()
        if first not in "{[":
            if first in "}],:":
                self._next -= 1
                raise self._problem()
            return _Value(start, end)
        closing = "}" if first == "{" else "]"
        members: dict[str, _Value] = {}
        while self._peek() != closing:
            name = ""
            if first == "{":
                name = self._name()
                self._take(":")
            members[name] = self._value()
            if self._peek() != closing:
                self._take(",")
        return _Value(start, self._take(closing)[2], members if first == "{" else None)

    def _name(self) -> str:
        if not self._peek().startswith('"'):
            raise self._problem()
        return str(json.loads(self._take()[0]))


def with_entry(text: str, path: tuple[str, ...], value: Json, *, replaces: bool = True) -> str:
    """JSON with comments `text` in which `path` has `value`; all else of it stays to the character.

    Without `replaces`, a value that is there already stays too.

    Raises:
        EditorConfigError: `text` is not JSON, or has no object where one is needed.
    """
    if not text.strip("\ufeff \t\r\n"):
        text = "{}\n"
    here, depth = _Reader(text).whole(), 0
    for depth, name in enumerate(path):
        if here.members is None:
            where = ".".join(path[:depth]) or "The file"
            raise EditorConfigError(f"{where} is not an object in braces.")
        if name not in here.members:
            break
        here = here.members[name]
    else:
        if not replaces or _plain(text[here.start : here.end]) == value:
            return text
        margin = re.match(r"[ \t]*", text[text.rfind("\n", 0, here.start) + 1 :])
        return f"{text[: here.start]}{_laid_out(value, margin[0] if margin else '', '  ')}{text[here.end :]}"
    missing = value
    for name in reversed(path[depth + 1 :]):
        missing = {name: missing}
    return _inserted(text, here, path[depth], missing)


def _plain(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except ValueError:
        return None
    return value


def _inserted(text: str, parent: _Value, name: str, value: Json) -> str:
    """`text` with a first member more in `parent`."""
    inside = text[parent.start + 1 : parent.end - 1]
    first = re.match(r"\s*\n([ \t]*)\S", inside)
    margin = re.match(r"[ \t]*", text[text.rfind("\n", 0, parent.start) + 1 :])
    outer = margin[0] if margin else ""
    usual = re.search(r"\n([ \t]+)\S", text)
    step = first[1] if first and len(first[1]) > len(outer) else f"{outer}{usual[1] if usual else '  '}"
    entry = f"\n{step}{json.dumps(name)}: {_laid_out(value, step, step[len(outer) :])}"
    rest = text[parent.start + 1 :]
    if parent.members:
        return f"{text[: parent.start + 1]}{entry},{rest if first else f'{chr(10)}{step}{rest.lstrip()}'}"
    closing = rest if "\n" in inside else f"\n{outer}{rest.lstrip(' ' + chr(9))}"
    return f"{text[: parent.start + 1]}{entry}{closing}"


def _laid_out(value: Json, margin: str, step: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=step)
    short = re.sub(r'\[\s+("(?:\\.|[^"\\])*")\s+\]', r"[\1]", lines)
    return short.replace("\n", f"\n{margin}")


_NEXT = "Talk with it here: pattern-acp chat. In your editor, choose Pattern in the list of agents."
_NOT_WRITTEN = "Nothing was written: there is no terminal to ask in. With --yes all of it is written."


def run_setup(arguments: Setup, process: Process) -> int:
    """Carry it out; 1 when a key was refused or a configuration could not be read."""
    asks = _Questions(arguments.yes)
    try:
        well = _provider(arguments, process, asks)
        well = _editors(process.environ, asks) and well
        write_line()
        # Read again: a key, or a folder, may be new.
        run_doctor(Doctor(arguments.flags), start_process(arguments.flags, process.environ))
        write_sentence(_NEXT if asks.can_ask or arguments.yes else _NOT_WRITTEN)
    except OutputClosed:
        return EXIT_OK
    except (KeyboardInterrupt, EOFError):
        write_line()
        return EXIT_CANCELLED
    return EXIT_OK if well else EXIT_ERROR


class _Questions:
    """Asks in the terminal; `yes` answers for the user, and without either the answer is no."""

    def __init__(self, yes: bool) -> None:  # noqa: FBT001  the flag's own name
        self._yes = yes
        self.can_ask = sys.stdin.isatty() and sys.stdout.isatty()

    def agrees(self, question: str) -> bool:
        if self._yes or not self.can_ask:
            return self._yes
        return self.line(f"{question} [y/N] ").lower() in {"y", "yes"}

    def line(self, question: str) -> str:
        return input(question).strip() if self.can_ask and not self._yes else ""


def _provider(arguments: Setup, process: Process, asks: _Questions) -> bool:
    """Have a provider with a key, unless a model can be used already; False when the key was refused."""
    found = next((one for one in anyio.run(diagnose, process).findings if one.name == "Model"), None)
    if found is not None and found.health is Health.OK:
        write_sentence(f"Model: {found.detail}")
        return True
    known = _with_keys(process)
    write_sentence("No model can be used yet. These providers take a key:")
    names = list(known)
    width = max(map(len, names), default=0)
    for number, name in enumerate(names, 1):
        write_line(f"  {number:>2}  {name:<{width}}  {SHOWN_NAMES.get(name, '')}".rstrip())
    write_sentence("A server on this machine (Ollama, LM Studio, llama-server) needs none: start it, and it is found.")
    while answer := asks.line("Number or name of your provider (Enter: none for now): "):
        name = meant_provider(answer, names)
        if name in known:
            return run_auth(Auth(arguments.flags, "login", name), process) == EXIT_OK
        write_sentence(f"{printable(answer)!r} is not in the list. Others are tables of config.toml, see `models`.")
    return True


def meant_provider(answer: str, names: Sequence[str]) -> str:
    """Return the provider that a number, its name, or a word of what users know it by means; else the answer."""
    if answer.isdecimal() and 0 < int(answer) <= len(names):
        return names[int(answer) - 1]
    asked = answer.lower()
    words = {name: re.findall(r"[a-z.]+", SHOWN_NAMES.get(name, "").lower()) for name in names}
    known = [name for name in names if asked in words[name]]
    return known[0] if asked not in names and len(known) == 1 else asked


def _with_keys(process: Process) -> dict[str, ProviderSettings]:
    keys = KeysOfPerson(process)
    providers = process.loaded.settings.providers.values()
    takes = (one for one in providers if one.wire in HTTP_WIRES and one.host != "vertex")
    return {one.name: one for one in takes if one.name != "ollama" and not keys.stored.sources(one)}


def _editors(environ: Mapping[str, str], asks: _Questions) -> bool:
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    found = find_editors(places(environ, sys.platform, home), lambda name: shutil.which(name, path=environ.get("PATH")))
    if not found:
        write_sentence("No editor was found on this machine; editor-configs/ has a block for each.")
    well = True
    for editor, file in found:
        write_line()
        try:
            _one_editor(editor, file, asks)
        except (EditorConfigError, WorkspaceError) as error:
            well = False
            write_sentence(f"{editor.name}: {error.sentence} It stays as it is; this is the block:")
            write_line(block_of(editor, own_command()).rstrip())
    return well


def _one_editor(editor: Editor, file: Path | None, asks: _Questions) -> None:
    if file is None:
        write_sentence(f"{editor.name}: merge this into your own configuration.")
        write_line(block_of(editor, own_command()).rstrip())
        return
    before = anyio.run(_read, str(file))
    after = edited(editor, before, own_command())
    if after == before:
        write_sentence(f"{editor.name}: {file} has it already.")
        return
    write_sentence(f"{editor.name}: {file}")
    show_parts([Diff(before, after, (str(file), "with Pattern"))], {}, pager=False)
    if asks.agrees("Write this?"):
        file.parent.mkdir(parents=True, exist_ok=True)
        anyio.run(LocalFileSystem().write_text_file, str(file), after)
        write_line("Written.")


async def _read(path: str) -> str:
    try:
        return (await LocalFileSystem().read_text_file(path)).text
    except FileMissingError:
        return ""


def own_command() -> Sequence[str]:
    """The command by which an editor starts this program: absolute, since editors often have a short PATH."""
    folder = Path(sysconfig.get_path("scripts"))
    for name in ("pattern-acp", "pattern-acp.exe"):
        if (folder / name).is_file():
            return (str(folder / name), "acp")
    return (sys.executable, "-m", "pattern_acp", "acp")


def run_doctor(arguments: Doctor, process: Process) -> int:
    """Print the diagnosis of a session in this directory; 1 when something that is needed is broken."""
    here = in_folder(process, Path.cwd())
    look = partial(diagnose, here, thorough=arguments.verify)
    diagnosis = anyio.run(look)
    if arguments.repair:
        path = here.constellation_path
        done = repair(path, diagnosis.findings, now_ms=SystemClock().now_ms())
        diagnosis = replace(anyio.run(look) if done else diagnosis, repaired=tuple(done))
    with suppress(OutputClosed):  # `head` has seen enough; the exit code still tells
        show_answer(replace(diagnosis, whole=arguments.all), process, as_json=arguments.json)
    return EXIT_OK if diagnosis.is_usable else EXIT_ERROR


def in_folder(process: Process, folder: Path) -> Process:
    """`process` with the settings that a session in `folder` has: those of the project's file count too."""
    return replace(process, loaded=process.load_project(str(folder)))
