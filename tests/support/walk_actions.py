"""The words of a random walk: prompts, slash commands, requests and command lines, chosen by a seed.

Owns: what is said. Must not know: processes, and what comes back.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.support.editor import JsonDict
from tests.support.walk_script import LABELS
from tests.support.walk_texts import odd_block, odd_text, word

NUMBERS = ("1", "2", "3", "last", "undo", "0", "-1", "99999999999999999999", "1.5", "x")
PLAIN = (
    "help",
    "status",
    "usage",
    "clear",
    "checkpoints",
    "jobs",
    "mcp",
    "skills",
    "doctor",
    "archive",
    "tools",
    "compact",
    "trust",
    "undelete",
    "pin",
    "diff",
    "model",
    "budget",
    "fork",
    "memory",
    "export",
    "rewind",
    "search",
    "recall",
    "remember",
    "code",
    "rename",
    "checkpoint",
)
"""Slash commands that can stand alone."""

TARGETS = ("persona:default", "persona:other", "project:.", "project:/nosuch", "persona:")


def prompt_blocks(random: Random, folder: Path, marker: str) -> list[JsonDict]:
    """The content of a prompt; `marker` is a word of it in two of three."""
    blocks: list[JsonDict] = []
    if random.random() < 0.67:
        blocks.append({"type": "text", "text": f"{marker} {odd_text(random)}"})
    else:
        blocks.append({"type": "text", "text": odd_text(random)})
    if random.random() < 0.3:
        blocks += [odd_block(random, folder) for _ in range(random.randrange(1, 4))]
        random.shuffle(blocks)
    return blocks if random.random() < 0.98 else []


def slash_command(random: Random, sessions: Sequence[str]) -> str:
    """One slash command with good or senseless arguments."""
    label = word(random, *LABELS)
    session = word(random, *(sessions or ["x"]))
    number = word(random, *NUMBERS)
    parts = " ".join(random.sample(("conversation", "files", "memory", "yes", "overwrite"), random.randrange(4)))
    good = (
        f"/remember {word(random, 'likes tea', 'project: uses tabs', 'tests run with pytest')}",
        f"/recall {word(random, 'tea', 'tabs')}",
        f"/code {word(random, 'f', 'brief one', 'callers g', 'outline code.py', 'impact')}",
        f"/model {word(random, 'offline/offline', 'scripted/scripted', 'nosuch/x')}",
        f"/tools {word(random, 'native', 'text', 'auto')}",
        f"/budget {word(random, 'turn', 'session', 'day')} {word(random, '1m tokens', '5 USD', 'off', '0', '-1')}",
        f"/search {word(random, 'one', 'mk')}",
        f"/rename {word(random, 'A title')}",
        f"/fork {number}",
        f"/undelete {session}",
        f"/compact {word(random, 'shortly')}",
        f"/pin {word(random, 'list', 'off')}",
        f"/diff {word(random, 'a.txt', '.')}",
        f"/checkpoint {word(random, 'c1', 'c2')}",
        f"/rewind {word(random, *NUMBERS, 'c1', 'c2')} {parts}",
        f"/rewind {random.choice(('1', '2', 'last', 'undo'))} {parts} yes",
        f"/export {word(random, '--overwrite out.md', 'out.md', 'sub/out.md', '/nosuch/out.md')}",
        f"/background stop {word(random, 'job_1', '1')}",
        f"/trust {word(random, 'list', 'revoke')}",
    )
    chance = random.random()
    if chance < 0.2:
        return f"/{random.choice(PLAIN)}"
    if chance < 0.65:
        return random.choice(good)
    return f"/memory {' '.join(memory_verb(random, label))}"


def memory_verb(random: Random, label: str) -> list[str]:
    """A verb of /memory and `pattern-acp memory` that asks nothing of a terminal, with its arguments."""
    number = word(random, *NUMBERS)
    text = word(random, "Some text.", "name: Ann\nlikes: tea", "- one\n- two")
    verbs: tuple[list[str], ...] = (
        ["list"],
        ["show", label],
        ["show", label, number],
        ["history", label],
        ["history", label, number],
        ["diff", label],
        ["diff", label, number, number],
        ["diff", label, "--words"],
        ["blame", label],
        ["blame", label, word(random, "1-5", "5-1", "0-0", "9-")],
        ["undo", label],
        ["undo", label, number],
        ["redo", label],
        ["redo", label, number],
        ["rollback", label, number],
        ["delete", label],
        ["restore", label],
        ["restore", label, number],
        ["create"],
        ["create", label, text],
        ["create", label, "--text", text],
        ["create", label, "--template", word(random, "human", "tasks", "nosuch", "log")],
        ["create", label, "--scope", word(random, "persona", "project", "shared", "x")],
        ["set", label],
        [
            "set",
            label,
            word(random, "limit", "description", "permission", "pinned", "tier"),
            word(random, "100", "read", "write", "true", "core", "off"),
        ],
        ["share", label],
        ["share", label, word(random, *TARGETS)],
        ["unshare", label, word(random, *TARGETS)],
        ["archive"],
        ["verify"],
        ["forget", label, word(random, "tea", "text")],
        ["forget", label, "--all"],
        ["help"],
        [label],
        [odd_text(random)],
    )
    return random.choice(verbs)


def edit_words(random: Random, label: str) -> str:
    """`/memory edit` with its text."""
    return f"/memory edit {label} {word(random, 'Some text.', '- a', 'k = 1')}"


def command_line(random: Random, sessions: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Arguments of one command of `pattern-acp`."""
    session = word(random, *(sessions or ["x"]))
    label = word(random, *LABELS)
    number = word(random, *NUMBERS)
    text = word(random, "one", "tea", "mk")
    here = ("--cwd", str(folder)) if random.random() < 0.7 else ()
    commands: tuple[tuple[str, ...], ...] = (
        ("sessions",),
        ("sessions", "list", "--all"),
        ("sessions", "list", "--archived", "--json"),
        ("sessions", "show", session),
        ("sessions", "search", text),
        ("sessions", "search", text, "--all"),
        ("sessions", "rename", session, text),
        ("sessions", "archive", session),
        ("sessions", "unarchive", session),
        ("sessions", "delete", session),
        ("sessions", "undelete", session),
        ("sessions", "fork", session),
        ("sessions", "fork", session, number),
        ("sessions", "rewind", session),
        ("sessions", "rewind", session, number, "--preview"),
        ("sessions", "rewind", session, number, "--yes"),
        ("sessions", "rewind", session, "undo", "--yes"),
        ("sessions", "rewind", session, number, "--files", "--yes", "--overwrite"),
        ("memory", *memory_verb(random, label), *here),
        ("memory", *memory_verb(random, label), *here, "--json"),
        ("memory", *memory_verb(random, label), *here, "--yes"),
        ("memory", "search", text, *here),
        ("memory", "import", str(folder / "a.txt"), label, *here),
        ("memory", "import", str(folder / word(random, "binary.bin", "missing", "huge.txt", "empty", ".")), *here),
        (
            "memory",
            "search",
            text,
            "--kind",
            word(random, "block", "user", "archival"),
            "--since",
            word(random, "2026-11-01", "2026-13-01"),
        ),
        ("memory", "edit", label, "--file", str(folder / word(random, "a.txt", "binary.bin", "empty")), *here),
        *_store_commands(random, session, folder, number, text),
    )
    chosen = random.choice(commands)
    if random.random() < 0.2 and chosen[0] not in {"chat", "trust", "explain"} and "--json" not in chosen:
        chosen = (*chosen, "--json")
    return chosen


def _store_commands(random: Random, session: str, folder: Path, number: str, text: str) -> tuple[tuple[str, ...], ...]:
    """Commands about the journal, copies and the installation."""
    return (
        ("journal", "verify"),
        ("journal", "verify", session),
        ("journal", "export", session),
        ("journal", "export", session, "--leave-out", word(random, "none", "content")),
        ("journal", "anchor", session),
        ("journal", "replay", session),
        ("journal", "replay", session, "--turn", number),
        ("journal", "tail", session, "--no-follow", "--lines", number),
        ("journal", "redact", session, "--match", word(random, "zzz", "tea"), "--yes", "--reason", text),
        ("journal", "redact", session, "--event", number, "--yes"),
        ("backup",),
        ("backup", "--list"),
        ("backup", "-o", str(folder / word(random, "b1.db", "b2.db", "."))),
        ("gc",),
        ("gc", "--dry-run"),
        ("usage",),
        (
            "usage",
            "--by",
            word(random, "day", "model", "project", "session"),
            "--since",
            word(random, "1d", "2026-11-01", "x"),
        ),
        ("usage", "--csv"),
        ("board",),
        ("board", "--json"),
        ("models",),
        ("doctor",),
        ("doctor", "--verify"),
        ("doctor", "--repair"),
        ("trust", "list"),
        ("trust", str(folder), "--yes"),
        ("explain", text),
        ("restore", "/nosuch"),
        ("journal", "rebuild", "--into", str(folder / word(random, "r1.db", "r2.db", "a.txt"))),
        ("chat", text or "x", "--deny", "--cwd", str(folder), "--json"),
        ("chat", "hi", "--yes", "--session", session, "--cwd", str(folder)),
    )


def request(random: Random, session: str, folder: Path, options: Sequence[tuple[str, str]]) -> tuple[str, JsonDict]:
    """A request about a session that is no prompt."""
    option, value = random.choice(options or [("mode", "ask")])
    cwd = str(folder) if random.random() < 0.9 else word(random, "relative", "/nosuch", "")
    to = word(random, *NUMBERS, "c1", "key")
    parts = random.sample(("conversation", "files", "memory"), random.randrange(4))
    requests: tuple[tuple[str, JsonDict], ...] = (
        ("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []}),
        ("session/resume", {"sessionId": session, "cwd": cwd, "mcpServers": []}),
        ("session/fork", {"sessionId": session, "cwd": cwd, "mcpServers": []}),
        ("_pattern/session/fork", {"sessionId": session, "cwd": cwd, "mcpServers": [], "turn": word(random, *NUMBERS)}),
        (
            "_pattern/session/open",
            {"sessionId": session, "cwd": cwd, "mcpServers": [], "mode": word(random, "read", "take_over")},
        ),
        ("session/close", {"sessionId": session}),
        ("session/delete", {"sessionId": session}),
        ("session/list", {"cwd": cwd}),
        ("session/list", {"_meta": {"pattern": {"archived": True}}}),
        ("session/list", {"cursor": odd_text(random)}),
        ("session/set_mode", {"sessionId": session, "modeId": word(random, "ask", "edit", "plan", "auto")}),
        (
            "session/set_config_option",
            {"sessionId": session, "configId": word(random, option), "value": word(random, value)},
        ),
        ("session/set_config_option", {"sessionId": session, "configId": option, "value": value}),
        ("_pattern/checkpoint/list", {"sessionId": session}),
        ("_pattern/checkpoint/preview", {"sessionId": session, "to": to}),
        ("_pattern/checkpoint/restore", {"sessionId": session, "to": to, "parts": parts or ["conversation"]}),
        ("_pattern/session/rewind", {"sessionId": session, "to": to, "overwrite": True}),
        ("_pattern/memory/subscribe", {"sessionId": session, "since": {odd_text(random): random.choice((0, 1, -1))}}),
        ("_pattern/memory/subscribe", {"sessionId": session}),
        ("_pattern/memory/unsubscribe", {"subscriptionId": word(random, "x", "1")}),
        ("_pattern/subagent/stop", {"sessionId": session, "toolCallId": word(random, "call_1", "")}),
        ("session/new", {"cwd": cwd, "mcpServers": []}),
        ("session/nosuch", {"sessionId": session}),
        ("authenticate", {"methodId": odd_text(random)}),
        ("initialize", {"protocolVersion": random.choice((0, 1, 2, -1, 70000)), "clientCapabilities": {}}),
    )
    return random.choice(requests)
