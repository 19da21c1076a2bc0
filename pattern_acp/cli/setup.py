"""`pattern-acp setup`: a provider with its key, the editors of this machine, and what the doctor says then.

Owns: the questions, in order, and what is written after each answer. Must not know: how a key is stored (cli/auth.py),
or the form of an editor's configuration (cli/editors.py). Without a terminal it asks nothing and writes nothing, unless
`--yes` answers.
"""

import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.diagnosis import diagnose
from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK, Auth, Doctor, Setup
from pattern_acp.cli.auth import run_auth
from pattern_acp.cli.doctor import run_doctor
from pattern_acp.cli.editors import Editor, EditorConfigError, block_of, edited, find_editors, places
from pattern_acp.cli.output import OutputClosed, printable, write_line, write_sentence
from pattern_acp.cli.rendering import show_parts
from pattern_acp.commands.document import Diff
from pattern_acp.config.settings import HTTP_WIRES, ProviderSettings
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.recovery.checks import Health
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.local_files import LocalFileSystem

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
    except OutputClosed:
        return EXIT_OK
    except (KeyboardInterrupt, EOFError):
        write_line()
        return EXIT_CANCELLED
    if not asks.can_ask and not arguments.yes:
        write_sentence(_NOT_WRITTEN)
    else:
        write_sentence("Choose Pattern in your editor's list of agents, or talk with it here: pattern-acp chat")
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
    for number, name in enumerate(names, 1):
        write_line(f"  {number:>2}  {name}")
    write_sentence("A server on this machine (Ollama, LM Studio, llama-server) needs none: start it, and it is found.")
    while answer := asks.line("Number or name of your provider (Enter: none for now): "):
        name = names[int(answer) - 1] if answer.isdecimal() and 0 < int(answer) <= len(names) else answer.lower()
        if name in known:
            return run_auth(Auth(arguments.flags, "login", name), process) == EXIT_OK
        write_sentence(f"{printable(answer)!r} is not in the list. Others are tables of config.toml, see `models`.")
    return True


def _with_keys(process: Process) -> dict[str, ProviderSettings]:
    keys = KeysOfPerson(process)
    providers = process.loaded.settings.providers.values()
    takes = (one for one in providers if one.wire in HTTP_WIRES and one.host != "vertex")
    return {one.name: one for one in takes if one.name != "ollama" and not keys.stored.sources(one)}


def _editors(environ: Mapping[str, str], asks: _Questions) -> bool:
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    found = find_editors(places(environ, sys.platform, home), lambda name: shutil.which(name, path=environ.get("PATH")))
    if not found:
        write_sentence("No editor that can be seen from here was found; editor-configs/ has a block for each.")
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
