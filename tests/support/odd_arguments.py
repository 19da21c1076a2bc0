"""Arguments that a model may write: such as fit a tool's schema, such as nearly do, and such as do not at all.

Owns: values by schema and by the name of what they are for. Must not know: what any tool does with them.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pattern_acp.domain.canonical import Json, JsonObject

Schema = Mapping[str, Any]

PATHS: Final[Sequence[str]] = (
    "a.txt", "sub/b.py", "new.txt", "sub/deeper/new.txt", "", ".", "./", "sub", "sub/", "a.txt/", "sub/../a.txt",
    "a.txt/x", "./sub/./b.py", "sub//b.py", "empty.txt", "empty", "binary.bin", "zeros.bin", "crlf.txt", "mixed.txt",
    "bom.txt", "utf16.txt", "latin1.txt", "long_line.txt", "big.txt", "pipe", "socket", "loop", "loop_a/x",
    "dangling", "to_outside", "to_outside/secret.txt", "to_outside_file", "n" * 255, "n" * 256, "d/" * 600 + "x",
    "sp ace.txt", "quo'te\".txt", "new\nline.txt", "tab\there", "unicode-é-e\u0301-日本-👍.txt", "e\u0301.txt", "-rf",
    "*.txt", "[a].txt", "a\0b", "a\udc80b", "\ud800", "\udcff", "file:a.txt", "file://host/x", "file://%00",
    "file:///%ff", "http://x/a", "no_permission.txt", "no_permission/x", "doc.pdf", "image.png", "note.ipynb", ".env",
    ".git/config", ".git", ".hidden", "C:\\x", "\\\\host\\share", "a.txt:1", "sub/b.py:1:f", "nul", "con.txt",
    "a.txt ", " a.txt", "…", "changing.txt", "rtl-\u202e-txt.exe", "zero\u200bwidth", "A.TXT", "deep.json", "$HOME/x",
    "%2e%2e/x", "a" * 5000,
)  # fmt: skip
"""Names inside a folder that `odd_files` filled, of things that are there and of such that cannot be."""

FOREIGN_PATHS: Final[Sequence[str]] = (
    "/", "~", "..", "../outside", "../outside/secret.txt", "/dev/null", "/dev/zero", "/dev/full", "/dev/stdin",
    "/dev/tty", "/proc/self/environ", "/proc/self/mem", "/proc/self/fd", "/proc/self/fd/0", "/proc/1/mem", "/proc",
    "/sys/kernel", "/etc/passwd", "/no/such/folder", "//", "///etc", "~nobody/x", "~/no-such-file", "/dev/fd/1",
    "/dev", "file:///a.txt",
)  # fmt: skip
"""Paths of no business of the session: only for tools that read, where a person may allow it."""

TEXTS: Final[Sequence[str]] = (
    "", " ", "\n", "x", "hello", "hello\n", "one\r\ntwo\r\n", "\r", "\0", "a\0b", "👍", "👨‍👩‍👧", "é", "e\u0301",
    "\ud800", "x\udfffy", "\ufeffbom", "\u2028", "\u202e", "\x1b[31mred\x1b[0m", "\x07", "```", "---\n",
    "# Head\n- item\n", "{", "}", "null", "true", "0", "-1", "[]", "{}", '"', "'", "\\", "\\u0000", "%s%d", "${x}",
    "$(true)", "`true`", "/", "/help", "@a.txt", "*", "?", "(", "[", "(a+)+$", "\\", "a{1,99999}", "(?P<n", "\\d+",
    ".*", "^", "$", "(?i)hello", "AND", "OR NOT", 'NEAR("', '"*"', "a*", "-", "--", "col:x", "' OR 1=1 --", "the",
    "ok " * 2000, "word " * 20_000, "<system>", "</tool_result>", "<|im_end|>", "a" * 100_000, "ä" * 30_000,
    "line\n" * 5_000, "中文 没有 空格" * 50, "2026-11-27", "2026-13-45", "0000-00-00", "yesterday", "9" * 30,
    "9" * 5000, "1e999", "NaN", "-0", "0x10", "\u0661\u0662",
)  # fmt: skip

COMMANDS: Final[Sequence[str]] = (
    "true", "false", "echo hi", "exit 7", "cat a.txt", "ls", "pwd", "", " ", "\n", "# nothing", "printf '\\377\\376'",
    "printf '\\0'", "head -c 300000 /dev/zero", "yes | head -c 200000", "kill -9 $$", "kill -STOP $$", "cat",
    "read x", "echo 'open", "((", ";;", "&", "|", "&&", "a\0b", "echo \ud800", "no-such-program", "./a.txt", "./sub",
    "cd sub && pwd", "cd no-such", "echo é👍", "echo " + "x" * 200_000, "sleep 5", "sleep 3 & echo started",
    "exec 1>&-; echo gone", "trap '' TERM INT; sleep 3", "echo out; echo err >&2; exit 3", "rm -f a.txt",
    "mkdir -p sub/made", "touch touched.txt", "git status", "git log", "printf 'no end'", "printf '\\r50%%\\r100%%'",
    "printf '\\033[2J'", "cat <<X\nhi\nX", "ulimit -a", "echo $0 $#", "set -u; echo $nothing", "yes >/dev/null",
    "for i in 1 2 3; do echo $i; done", ":(){ :; }; :",
)  # fmt: skip

URLS: Final[Sequence[str]] = (
    "", "x", "http://", "https://", "http://127.0.0.1:1/", "http://localhost:1", "http://[::1]:1/", "http://[",
    "http://a b/", "ftp://x/y", "file:///etc/passwd", "javascript:1", "http://169.254.169.254/",
    "http://0x7f000001:1/", "http://user:pw@127.0.0.1:1", "http://127.0.0.1:99999/", "http://127.0.0.1:-1/",
    "http://\ud800/", "http://\0/", "//x", "data:text/plain,hi", "http://\u0660.1/",
    "http://" + "a" * 300 + ".invalid/",
    "http://é.invalid/", "http://xn--.invalid", "http://127.0.0.1:1/" + "p" * 9000, "http://.../", "http://127.1:1/%",
    "http://1/", "HTTP://127.0.0.1:1/#f", "http://127.0.0.1:1/a\nb",
)  # fmt: skip

LABELS: Final[Sequence[str]] = (
    "human", "persona", "project", "archive", "notes", "made", "", " ", "a/b", "../x", "x" * 300, "👍", "a\0b",
    "\ud800", "HUMAN", "human ", "scratchpad", "partner-profile", "project-conventions", "observation-log", "no such",
    "1", "-",
)  # fmt: skip

NUMBERS: Final[Sequence[Json]] = (
    0, 1, 2, 3, 5, 20, 30, 200, 1000, -1, 2**31, 2**31 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(2**63),
    1.0, 1.5, -0.0, 1e308, "1", "two", "", "1" * 400, None, True, [], {},
)  # fmt: skip

WRONG: Final[Sequence[Json]] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    {},
    [[]],
    [None],
    {"a": None},
    [{}],
    "[]",
    "{}",
)

PATCHES: Final[Sequence[str]] = (
    "", "x", "*** Begin Patch", "*** Begin Patch\n*** End Patch",
    "*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch",
    "*** Begin Patch\n*** Update File: {path}\n@@\n-hello\n+{text}\n*** End Patch",
    "*** Begin Patch\n*** Delete File: {path}\n*** End Patch",
    "*** Begin Patch\n*** Update File: {path}\n*** Move to: {other}\n@@\n-hello\n+bye\n*** End Patch",
    "*** Begin Patch\n*** Update File: {path}\n*** Move to: {other}\n*** End Patch",
    "*** Begin Patch\n*** Update File: {path}\n@@ def f\n+{text}\n*** End of File\n*** End Patch",
    "*** Begin Patch\n*** Add File: {path}\n+a\n*** Delete File: {path}\n*** End Patch",
    "*** Begin Patch\n*** Add File: {path}\n+a\n*** Add File: {other}\n+b\n*** End Patch",
    "*** Begin Patch\n*** Update File: {path}\n@@\n\n*** End Patch",
    "*** Begin Patch\r\n*** Add File: {path}\r\n+{text}\r\n*** End Patch\r\n",
    "```\n*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n```",
    "*** Begin Patch\n*** Add File: {path}\n*** End Patch", "*** Begin Patch\n*** Update File:\n*** End Patch",
    "*** Begin Patch\n*** Update File: {path}\n@@\n-\n+\n*** End Patch",
    "*** Begin Patch\n*** Delete File: {path}\n*** Delete File: {path}\n*** End Patch",
)  # fmt: skip

BY_NAME: Final[Mapping[str, Sequence[str]]] = {
    "path": PATHS,
    "cwd": PATHS,
    "under": PATHS,
    "pattern": (*TEXTS, "**/*", "*.py", "**", "../*", "/**", "{a,b}", "[!a]", "a/**/b", "!x"),
    "glob": ("*.py", "**", "", "[", "{", "../*", "!*", "\0", "*.{a,b}"),
    "command": COMMANDS,
    "check": COMMANDS,
    "url": URLS,
    "label": LABELS,
    "job": ("1", "2", "job_1", "job-1", "", "0", "-1", "x", "\ud800", "👍"),
    "pages": ("1", "2-5", "0", "5-2", "", "-", "a", "1-", "9" * 30, "1,2"),
    "id": ("", "x", "1", "att_1", "\0", "\ud800", "a/b", "x" * 500),
    "name": ("finder", "", "A", "x" * 300, "a/b", "👍", "\ud800"),
    "field": ("facts", "facts.name", "", ".", "a.b.c", "x" * 500),
    "template": ("decision-record", "scratchpad", "", "no", "../x"),
    "since": (
        "2026-11-27",
        "",
        "x",
        "0001-01-01",
        "9999-12-31",
        "2026-02-30",
        "-1",
        "2026-11-27T10:00:00Z",
        "99999-01-01",
    ),
    "until": ("2026-11-27", "0001-01-01", "9999-12-31", "x"),
    "query": (
        *TEXTS,
        "f",
        "C.m",
        "sub/b.py",
        "sub/b.py:f",
        "sub/b.py:1:f",
        "a.txt:99999999999:x",
        ":",
        "::",
        "..",
        ".",
    ),
    "new_name": ("g", "", "1x", "class", "a b", "é", "\ud800", "x" * 1000),
    "tool": ("usual__echo", "usual__fail", "", "x", "read_file"),
}
"""Texts by what an argument is called."""

PLACES: Final = frozenset({"path", "cwd", "under"})

ITEM_NAMES: Final[Mapping[str, str]] = {"paths": "path", "edits": ""}
"""What the items of a list are called, where not as the list."""

NO_OBJECTS: Final[Sequence[str]] = (
    "", " ", "{", "null", "[]", "1", '"x"', "{}{}", "not json", '{"path": "a.txt",}', "\0", '{"a":' * 5000,
)  # fmt: skip
"""Argument texts that are no object, or only nearly."""


class OddArguments:
    """Draws arguments of calls, mostly such as fit the schema of their tool."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def text_for(self, tool: str, schema: JsonObject, *, leaves: bool) -> str:
        """The argument text of one call. `leaves`: paths may lead out of the folder in other ways than by its links."""
        draw = self._draw
        if draw.random() < 0.04:
            return draw.choice(NO_OBJECTS)
        value = self._object(cast("Schema", schema), leaves=leaves)
        self._bound(tool, value)
        if draw.random() < 0.05:
            value[draw.choice(("extra", "", "path", "PATH", "\ud800", "__proto__", "a" * 300))] = draw.choice(WRONG)
        if value and draw.random() < 0.05:
            value[draw.choice(list(value))] = draw.choice(WRONG)
        text = json.dumps(value, ensure_ascii=draw.random() < 0.8)
        if value and draw.random() < 0.02:
            # Each name twice.
            text = f"{text[:-1]}, {text[1:]}"
        return text

    def _bound(self, tool: str, value: dict[str, Any]) -> None:
        """Keep a call short, and let a patch be one."""
        draw = self._draw
        if tool == "apply_patch" and draw.random() < 0.9:
            form = draw.choice(PATCHES).replace("{path}", draw.choice(PATHS)).replace("{other}", draw.choice(PATHS))
            value["input"] = form.replace("{text}", draw.choice(TEXTS[:30]))
        elif tool == "run_command":
            value["timeout_seconds"] = 1
        elif tool == "job" and draw.random() < 0.9:
            value["wait_seconds"] = draw.choice((0, 0, 1))

    def _object(self, schema: Schema, *, leaves: bool) -> dict[str, Any]:
        properties = cast("Mapping[str, Schema]", schema.get("properties") or {})
        required = schema.get("required", ())
        return {
            name: self._value(name, part, leaves=leaves)
            for name, part in properties.items()
            if self._draw.random() < (0.97 if name in required else 0.4)
        }

    def _value(self, name: str, schema: Schema, *, leaves: bool) -> Any:  # noqa: ANN401  any JSON value
        draw = self._draw
        if "enum" in schema and draw.random() < 0.97:
            return draw.choice(schema["enum"])
        match schema.get("type"):
            case "string":
                return self._string(name, leaves=leaves)
            case "integer" | "number":
                return draw.choice(NUMBERS) if draw.random() < 0.5 else draw.randint(0, 12)
            case "boolean":
                return draw.choice((True, True, True, False, False, False, "true", None, 1))
            case "array":
                items = schema.get("items") or {"type": "string"}
                count = draw.choice((0, 1, 1, 2, 3, 30))
                return [self._value(ITEM_NAMES.get(name, name), items, leaves=leaves) for _ in range(count)]
            case "object" if schema.get("properties"):
                return self._object(schema, leaves=leaves)
            case "object":
                return draw.choice(
                    (
                        {},
                        {"text": draw.choice(TEXTS)},
                        {"label": "human", "operation": "append", "text": draw.choice(TEXTS)},
                        {"label": draw.choice(LABELS), "operation": "replace", "old_text": "x", "text": "y"},
                    )
                )
            case _:
                return draw.choice(WRONG)

    def _string(self, name: str, *, leaves: bool) -> str:
        draw = self._draw
        if name in PLACES:
            return draw.choice(FOREIGN_PATHS if leaves and draw.random() < 0.15 else PATHS)
        if name == "old_text" and draw.random() < 0.5:
            return draw.choice(("hello", "hello\n", "x"))
        return draw.choice(BY_NAME.get(name, TEXTS) if draw.random() < 0.9 else TEXTS)
