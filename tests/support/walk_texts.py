"""What people type, paste and attach that no test sentence looks like.

Owns: odd texts, odd content blocks and odd arguments, chosen by a seed. Must not know: who sends them.
"""

import base64
import os
from pathlib import Path
from random import Random

from tests.support.editor import JsonDict

ODD: tuple[str, ...] = (
    "\U0001f44d",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f3f3\ufe0f\u200d\U0001f308",
    "?",
    "!!! ... ---",
    " ",
    "\t\n \r\n",
    "the of and a",
    "und der die das",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u202eabc\u202c",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "Z\u0351\u036b\u0313\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320\u034dA\u0334\u0335\u031c\u0330\u0354\u036b\u0357\u0362L\u0320\u0368\u0367\u0369\u0358G\u0334\u033b\u0348\u034d\u0354\u0339\u0311\u0357\u030e\u0305\u035b\u0301\u01ea\u0335\u0339\u033b\u031d\u0333\u0342\u030c\u030c\u0358",
    "a\x00b",
    "\x00",
    "\ud800",
    "caf\udce9",
    "x\udfffy",
    "one\r\ntwo\rthree\r\n",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "```\nno end",
    "~~~~\n```\n~~~",
    "/",
    "//",
    "/nosuch",
    "/ help",
    "/HELP",
    " /help",
    "/help\n/status",
    "\\/help",
    "`/memory`",
    "\ufeffbom",
    "\u200b\u200b",
    "\u2028\u2029",
    "\x7f\x80\x9f",
    "\ufdfa" * 50,
    "a" * 2000,
    "%s %d {} {0} $HOME `id` $(id)",
    "'; DROP TABLE blocks; --",
    '"',
    "'",
    '"unclosed',
    "NEAR(a b) OR * AND NOT",
    "a*",
    "*",
    "-",
    "--",
    "--help",
    "-1",
    "0",
    "1e999",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    "<script>alert(1)</script>",
    "&amp; &lt;",
    "![x](data:image/png;base64,xx)",
    "[a](file:///etc/passwd)",
    "@",
    "@nosuch.txt",
    "@../..",
    "@/",
    "@.",
    "C:\\Users\\x",
    "file://",
    "~",
    "..",
    "../../../../etc/passwd",
    ".",
    "\U0001d573\U0001d58a\U0001d591\U0001d591\U0001d594",
    "\uff21\uff42\uff43",
    "\u0131\u0130",
    "\u00df",
    "\u017f",
    "\u65e5\u672c\u8a9e \u306e \u30c6\u30ad\u30b9\u30c8",
    "\ud55c\uad6d\uc5b4",
    "\U0001f1e9\U0001f1ea\U0001f1fa\U0001f1f8",
    "e\u0301",
    "\U000e0041\U000e007f",
    "\U0010ffff",
    "\ufffe\uffff",
    'tool_call: read_file(path="a.txt")',
    "<action>read_file</action>",
    "read a.txt",
    "remember that I like tea",
    "yes",
    "no",
    "1",
    "y\n",
    "persona:",
    "project:",
    "persona:a/b",
    "project:\x00",
    "human",
    "HUMAN",
    "human ",
    "memory.md",
    "a/b",
    "a b",
    ".hidden",
)
"""Texts of the kinds that break things: no words, no sense, no encoding, words of commands and of query languages."""


def odd_text(random: Random) -> str:
    """One odd text; rarely a very long one, or several of them joined."""
    chance = random.random()
    if chance < 0.01:
        return random.choice(
            (
                "x" * 1_000_000,
                "w" * 200_000,
                "word " * 40_000,
                "line\n" * 50_000,
                "\U0001f44d" * 60_000,
                "\x00" * 50_000,
            )
        )
    if chance < 0.1:
        return "".join(
            chr(random.choice((random.randrange(0x250), random.randrange(0x3000), random.randrange(0x110000))))
            for _ in range(random.randrange(1, 60))
        )
    if chance < 0.25:
        return random.choice((" ", "\n", "", "\r\n")).join(random.choice(ODD) for _ in range(random.randrange(2, 5)))
    return random.choice(ODD)


def word(random: Random, *usual: str) -> str:
    """An argument: mostly one of the usual ones, now and then an odd text."""
    return random.choice(usual) if usual and random.random() < 0.75 else odd_text(random)


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def odd_block(random: Random, folder: Path) -> JsonDict:
    """A content block of a prompt that is not plain text."""
    uris = (
        f"{folder.as_uri()}/a.txt",
        f"{folder.as_uri()}/missing.txt",
        f"{folder.as_uri()}/binary.bin",
        f"{folder.as_uri()}/huge.txt",
        f"{folder.as_uri()}/",
        f"{folder.as_uri()}/a.txt#L1:99999",
        "file:///",
        "file://",
        "",
        "http://127.0.0.1:1/x",
        "zed:///agent/x?y",
        "a.txt",
        f"{folder.as_uri()}/%00",
        f"{folder.as_uri()}/%ff",
        "untitled:Untitled-1",
        "file:///dev/zero",
        f"{folder.as_uri()}/pipe",
    )
    images = (
        PIXEL,
        "",
        "####",
        base64.b64encode(b"GIF89a").decode(),
        base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 50).decode(),
        PIXEL[:-8],
        base64.b64encode(b"<svg/>").decode(),
    )
    mime = random.choice(("image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", "text/plain", "", "x"))
    kinds: tuple[JsonDict, ...] = (
        {"type": "image", "data": random.choice(images), "mimeType": mime},
        {"type": "resource_link", "uri": random.choice(uris), "name": word(random, "a.txt", "")},
        {
            "type": "resource_link",
            "uri": random.choice(uris),
            "name": "x",
            "mimeType": mime,
            "size": random.choice((0, -1, 2**60)),
        },
        {"type": "resource", "resource": {"uri": random.choice(uris), "text": odd_text(random)}},
        {"type": "resource", "resource": {"uri": random.choice(uris), "blob": random.choice(images), "mimeType": mime}},
        {"type": "audio", "data": random.choice(images), "mimeType": "audio/wav"},
        {"type": "text", "text": odd_text(random)},
        {"type": "text", "text": ""},
        {"type": "text"},
        {"type": "nosuch"},
    )
    return random.choice(kinds)


def settings(random: Random) -> str:
    """A config.toml: a part of the settings that change what a walk meets."""
    lines = (
        f"memory.files = {random.choice(('true', 'false'))}",
        f'memory.isolation = "{random.choice(("none", "core-only", "full"))}"',
        f'memory.embedder = "{random.choice(("auto", "hash"))}"',
        f"memory.recall_tokens = {random.choice((0, 300, 4000))}",
        f'memory.secrets = "{random.choice(("block", "ask"))}"',
        f'compaction.strategy = "{random.choice(("summarise", "truncate", "importance", "time_decay"))}"',
        f'mode = "{random.choice(("ask", "edit", "auto", "plan"))}"',
        f'edit_tool = "{random.choice(("auto", "edit_file", "apply_patch", "both"))}"',
        f'budget.turn = "{random.choice(("1k tokens", "500k tokens", "1 USD"))}"',
        f"turn.max_model_requests = {random.choice((1, 3, 100))}",
        f'turn.slow_commands = "{random.choice(("end", "background"))}"',
    )
    window = random.choice((8_000, 20_000, 128_000))
    chosen = [line for line in lines if random.random() < 0.4]
    return "\n".join((*chosen, f'[models."scripted/scripted"]\ncontext_window = {window}\n'))


def fill_folder(folder: Path) -> None:
    """The files that odd blocks and commands name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 20)
    (folder / "huge.txt").write_text("a line of a huge file\n" * 100_000, encoding="utf-8")
    (folder / "code.py").write_text("def f():\n    return g()\n\ndef g():\n    return 1\n", encoding="utf-8")
    (folder / "empty").touch()
    (folder / "latin1.txt").write_bytes(b"caf\xe9\r\n")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")
