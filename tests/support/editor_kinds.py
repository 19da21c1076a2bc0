"""The editors that people use, as the agent meets them: what each promises, does differently and gets wrong.

Owns: the table. The habits were seen in recordings of the clients or read in their sources (protocol.md, "What
clients taught"). Must not know: how they are played (`tests.support.simulated_editor`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.support.editor_files import JsonDict

FOLDER = "$FOLDER"
"""Stands for the project's folder in blocks of a prompt."""

FILES: JsonDict = {"readTextFile": True, "writeTextFile": True}


def text(words: str) -> JsonDict:
    """A block of text."""
    return {"type": "text", "text": words}


def plainly(words: str, earlier: Sequence[str]) -> Sequence[JsonDict]:
    """The words in a block of their own."""
    del earlier
    return (text(words),)


class AtCancel(Enum):
    """What becomes of an open question when the person cancels."""

    ANSWERED_FIRST = "answered cancelled, then the cancel is sent"
    ANSWERED_AFTER = "the cancel is sent, then it is answered cancelled"
    NEVER_ANSWERED = "the cancel is sent, and it is never answered"
    ALLOWED_LATE = "the cancel is sent, then a click that was on its way allows it"


@dataclass(frozen=True, slots=True)
class EditorKind:
    """One editor; the defaults are what a client does that has no habits."""

    name: str
    introduction: JsonDict
    """The parameters of its initialize."""
    at_cancel: AtCancel = AtCancel.ANSWERED_AFTER
    reopens: str = "session/load"
    """The method by which it opens a session again."""
    authenticates: bool = False
    """Calls authenticate with the first method before anything else."""
    lists: JsonDict | None = None
    """The parameters of the list it asks for before it has a session; a null `cwd` is replaced by the folder."""
    servers: tuple[JsonDict, ...] = ()
    """MCP servers that it passes unasked."""
    options: bool = True
    """Reads config options; otherwise modes."""
    members: JsonDict = field(default_factory=dict[str, object])
    """Added to every message at its root."""
    cancel_members: JsonDict = field(default_factory=dict[str, object])
    """Added to the parameters of session/cancel."""
    text_ids: bool = False
    """Its requests have texts as ids."""
    nulls: bool = False
    """Answers a write with null."""
    complains: tuple[str, ...] = ()
    """Updates that it answers with an error under a null id."""
    line_limit: int = 1_000_000
    """Bytes of the longest line that it reads."""
    before: tuple[JsonDict, ...] = ()
    """Blocks that it puts in front of every prompt."""
    behind: tuple[JsonDict, ...] = ()
    """Blocks that it puts behind every prompt."""
    dresses: Callable[[str, Sequence[str]], Sequence[JsonDict]] = plainly
    """The blocks of a prompt's words, by these and by the prompts that were sent before it in the session."""
    repeats: bool = False
    """Sends the text of a cancelled prompt again with the next one."""
    drops_newline: bool = False
    """Leaves the final newline out of what it reads."""
    adds_newline: bool = False
    """Adds a final newline to what it writes, whether there is one or not."""
    missing_as_empty: bool = False
    """Answers a read of a missing file with an empty text."""
    quotes: bool = True
    """Starts a program with its arguments; otherwise it joins them for a shell, unquoted."""
    pty: bool = False
    """Its terminals end lines with a carriage return and a line feed, and tell no signal."""
    kill_fails: bool = False
    """Refuses terminal/kill."""
    closes: bool = False
    """Sends session/close before it leaves."""
    terminates: bool = False
    """Leaves by SIGTERM instead of the end of input."""
    empty_tables: bool = False
    """Sends an empty array as an empty object, or the other way round."""

    @property
    def files(self) -> bool:
        """Whether it reads and writes files."""
        return bool(self.introduction.get("clientCapabilities", {}).get("fs", {}).get("readTextFile"))

    @property
    def terminals(self) -> bool:
        """Whether it has terminals."""
        return bool(self.introduction.get("clientCapabilities", {}).get("terminal"))


def introduced(name: str = "", *, terminal: bool | None = None, files: bool = True, **more: object) -> JsonDict:
    """The parameters of initialize; without a name the client does not tell one."""
    capabilities: JsonDict = {"fs": FILES if files else {"readTextFile": False, "writeTextFile": False}, **more}
    if terminal is not None:
        capabilities["terminal"] = terminal
    info = {"clientInfo": {"name": name, "version": "1.0.0"}} if name else {}
    return {"protocolVersion": 1, "clientCapabilities": capabilities, **info}


def as_previous_messages(words: str, earlier: Sequence[str]) -> Sequence[JsonDict]:
    """avante: the newest first, all in the same tags, and how many there are."""
    said = (words, *reversed(earlier))[:5]
    counted = f"Continuing from previous session with {len(said)} recent user messages"
    tagged = (text(f"<previous_user_message>{one}</previous_user_message>") for one in said)
    return (*tagged, text(f"<system_context>{counted}</system_context>"))


def behind_a_note(words: str, earlier: Sequence[str]) -> Sequence[JsonDict]:
    """Jupyter AI: one block, with a note in front of the first prompt, and the agent's name in front of each."""
    note = "" if earlier else "System note: When creating or editing Jupyter notebooks, use the tools for cells.\n\n"
    return (text(f"{note}@Pattern {words}"),)


def with_environment(words: str, earlier: Sequence[str]) -> Sequence[JsonDict]:
    """agentic.nvim: the system behind the first prompt, in tags."""
    system = (text("<environment_info>\n- Platform: Linux\n</environment_info>"),)
    return (text(words), *(system if not earlier else ()))


def with_open_note(words: str, earlier: Sequence[str]) -> Sequence[JsonDict]:
    """Obsidian: which note is open, as a sentence, and as a line in front of what is no slash command."""
    del earlier
    sentence = f"The user has opened the note file://{FOLDER}/n.md in Obsidian. This may or may not be related."
    return (text(sentence), text(words if words.startswith("/") else f"@[[n]]\n{words}"))


KINDS = (
    EditorKind(
        "Zed",
        introduced(
            "zed",
            terminal=True,
            auth={"terminal": True},
            session={"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
            elicitation={"form": {}, "url": {}},
            _meta={"terminal_output": True, "terminal-auth": True},
        ),
        at_cancel=AtCancel.ANSWERED_FIRST,
        lists={},
        closes=True,
    ),
    EditorKind(
        "JetBrains",
        introduced("JetBrains", terminal=False),
        members={"type": "com.agentclientprotocol.rpc.JsonRpcRequest"},
        servers=({"name": "idea", "command": "no-such-program-of-an-ide", "args": [], "env": []},),
    ),
    EditorKind(
        "CodeCompanion",
        introduced("CodeCompanion.nvim"),
        at_cancel=AtCancel.NEVER_ANSWERED,
        authenticates=True,
        lists={"cwd": None},
        nulls=True,
        repeats=True,
        adds_newline=True,
        missing_as_empty=True,
        terminates=True,
        empty_tables=True,
    ),
    EditorKind(
        "avante.nvim",
        introduced(),
        at_cancel=AtCancel.NEVER_ANSWERED,
        options=False,
        nulls=True,
        drops_newline=True,
        before=({"type": "resource_link", "uri": f"file://{FOLDER}/main.cpp", "name": "main.cpp"},),
        dresses=as_previous_messages,
    ),
    EditorKind(
        "agentic.nvim",
        {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": FILES, "terminal": False, "clientInfo": {"name": "Agentic"}},
        },
        dresses=with_environment,
        options=False,
        nulls=True,
        drops_newline=True,
        terminates=True,
        empty_tables=True,
    ),
    EditorKind(
        "agent-shell",
        introduced("agent-shell"),
        reopens="session/resume",
        lists={"cwd": None},
        options=False,
        cancel_members={"reason": "User cancelled"},
    ),
    EditorKind(
        "VS Code",
        introduced("vscode-acp-client", terminal=True),
        at_cancel=AtCancel.ANSWERED_FIRST,
        quotes=False,
    ),
    EditorKind(
        "Obsidian",
        introduced("obsidian-agent-client", terminal=True, files=False),
        options=False,
        dresses=with_open_note,
    ),
    EditorKind(
        "Toad",
        introduced("toad", terminal=True),
        options=False,
        cancel_members={"_meta": {}},
        nulls=True,
        complains=("session_info_update", "config_option_update"),
        missing_as_empty=True,
        drops_newline=True,
        pty=True,
        kill_fails=True,
    ),
    EditorKind(
        "marimo",
        introduced(),
        options=False,
        behind=(
            {"type": "resource_link", "uri": f"{FOLDER}/notebook.py", "name": "notebook.py"},
            {"type": "resource", "resource": {"uri": "marimo_rules.md", "mimeType": "text/markdown", "text": "Rules."}},
        ),
    ),
    EditorKind(
        "Jupyter AI",
        introduced("Jupyter AI", terminal=True),
        dresses=behind_a_note,
    ),
    EditorKind(
        "Qt Creator",
        introduced("QtCreator", terminal=True),
        at_cancel=AtCancel.NEVER_ANSWERED,
        lists={},
        servers=({"type": "http", "name": "Qt Documentation", "url": "http://127.0.0.1:9/mcp", "headers": []},),
        before=(
            {"type": "resource_link", "uri": f"file://{FOLDER}/main.cpp", "name": "main.cpp"},
            {"type": "resource", "resource": {"uri": f"file://{FOLDER}/main.cpp", "text": "cursor: line 1"}},
        ),
    ),
    EditorKind("acpx", introduced("acpx", terminal=True), reopens="session/resume", closes=True),
    EditorKind(
        "a client of the Python SDK 0.5",
        {"protocolVersion": 1},
        at_cancel=AtCancel.ALLOWED_LATE,
        text_ids=True,
        line_limit=64 * 1024,
    ),
)
"""One for each client of the table in the protocol's notes that answers questions."""
