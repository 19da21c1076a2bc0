"""A small language server over pipes, with the standard library alone: `python language_server.py KIND [ARGUMENT]`.

In its language every word is a name, its first occurrence in the order of files is the definition, and the word `bad`
is an error. Kinds: `usual`, `unversioned` (does not say which version its diagnostics are of), `pull` (says what is
wrong only when asked), `held` (says nothing of a text before ARGUMENT, a file, is there), `mute` (never answers),
`hangs` (answers nothing but `initialize`), `dies` (ends with the first file), `once` (ends with the first file, and
never again: ARGUMENT is a file that remembers), `child` (starts the command line ARGUMENT), `moves` (a renaming would
move a file).

Owns: real framing, in UTF-16 positions. Must not know: who asks.
"""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Message = dict[str, Any]


def command(kind: str, argument: str = "") -> tuple[str, ...]:
    """The command line that runs this server."""
    return (sys.executable, __file__, kind, *([argument] if argument else []))


def send(message: Message) -> None:
    """One message to the client."""
    body = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def receive() -> Message | None:
    """The next message; None at the end."""
    length = 0
    while (line := sys.stdin.buffer.readline()) not in {b"\r\n", b""}:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = sys.stdin.buffer.read(length) if length else b""
    return json.loads(body) if body else None


def params_of(message: Message) -> Message:
    """What a message is about."""
    return message.get("params") or {}


def wide(text: str) -> int:
    """UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def words_of(text: str) -> list[tuple[str, Message]]:
    """Every word of a text with its range."""
    found: list[tuple[str, Message]] = []
    for number, line in enumerate(text.split("\n")):
        for match in re.finditer(r"\w+", line):
            start = {"line": number, "character": wide(line[: match.start()])}
            end = {"line": number, "character": wide(line[: match.end()])}
            found.append((match[0], {"start": start, "end": end}))
    return found


class Server:
    """One run of the server."""

    def __init__(self, kind: str, argument: str) -> None:
        self.kind = kind
        self.argument = argument
        self.root = ""
        self.texts: dict[str, str] = {}

    def serve(self) -> None:
        """Answer until there is nothing more."""
        while (message := receive()) is not None:
            method, params = message.get("method", ""), params_of(message)
            if self.kind == "mute":
                continue
            if "id" in message and method:
                self.answer(message["id"], method, params)
            elif method == "textDocument/didOpen":
                self.end_if_so()
                document = params["textDocument"]
                self.take(document["uri"], document["version"], document["text"])
            elif method == "textDocument/didChange":
                document = params["textDocument"]
                self.take(document["uri"], document["version"], params["contentChanges"][0]["text"])
            elif method == "textDocument/didClose":
                self.texts.pop(params["textDocument"]["uri"], None)

    def end_if_so(self) -> None:
        """End in the middle, as the kind says."""
        again = self.kind == "once" and Path(self.argument).exists()
        if self.kind == "dies" or (self.kind == "once" and not again):
            if self.argument:
                Path(self.argument).write_text("ended", encoding="utf-8")
            sys.stderr.write("out of memory\n")
            sys.stderr.flush()
            sys.exit(3)

    def take(self, uri: str, version: int, text: str) -> None:
        """Take a text, and say what is wrong."""
        self.texts[uri] = text
        if self.kind == "pull":
            return
        while self.kind == "held" and not Path(self.argument).exists():
            time.sleep(0.01)
        told: Message = {"uri": uri, "diagnostics": self.wrong(uri)}
        if self.kind != "unversioned":
            told["version"] = version
        send({"method": "textDocument/publishDiagnostics", "params": told})

    def wrong(self, uri: str) -> list[Message]:
        """The errors of a file."""
        return [
            {"range": where, "severity": 1, "code": "E1", "source": "fake", "message": "bad is not allowed"}
            for word, where in words_of(self.texts[uri])
            if word == "bad"
        ]

    def answer(self, number: object, method: str, params: Message) -> None:
        """Answer one request."""
        if method == "initialize":
            self.root = params["rootUri"]
            can: Message = {"textDocumentSync": 1, "definitionProvider": True, "renameProvider": True}
            if self.kind == "pull":
                can["diagnosticProvider"] = {"interFileDependencies": False, "workspaceDiagnostics": False}
            send({"id": number, "result": {"capabilities": can}})
            send({"id": "ours", "method": "workspace/configuration", "params": {"items": [{"section": "fake"}]}})
            send({"method": "fake/unknown", "params": {}})
            if self.kind == "child":
                subprocess.Popen(shlex.split(self.argument), stdout=subprocess.DEVNULL)
        elif self.kind != "hangs":
            send({"id": number, **self.result(method, params)})

    def result(self, method: str, params: Message) -> Message:
        """What a request gives."""
        if method == "textDocument/diagnostic":
            return {"result": {"kind": "full", "items": self.wrong(params["textDocument"]["uri"])}}
        if method not in {"textDocument/definition", "textDocument/references", "textDocument/rename"}:
            return {"error": {"code": -32601, "message": f"no {method}"}}
        places = self.places(self.word_at(params["textDocument"]["uri"], params["position"]))
        if method == "textDocument/definition":
            return {"result": places[0] if places else None}
        if method == "textDocument/references":
            return {"result": places}
        if not params["newName"].isidentifier():
            return {"error": {"code": -32602, "message": f"{params['newName']} is no name"}}
        if self.kind == "moves":
            return {"result": {"documentChanges": [{"kind": "rename", "oldUri": "file:///a", "newUri": "file:///b"}]}}
        changes: dict[str, list[Message]] = {}
        for place in places:
            changes.setdefault(place["uri"], []).append({"range": place["range"], "newText": params["newName"]})
        return {"result": {"changes": changes}}

    def word_at(self, uri: str, position: Message) -> str:
        """The word that begins at a position."""
        found = [word for word, where in words_of(self.text(uri)) if where["start"] == position]
        return found[0] if found else ""

    def places(self, name: str) -> list[Message]:
        """Where a word stands in the files of the folder, by name."""
        folder = Path(unquote(urlsplit(self.root).path))
        uris = sorted({*self.texts, *(path.as_uri() for path in folder.glob("*.txt"))})
        return [
            {"uri": uri, "range": where} for uri in uris for word, where in words_of(self.text(uri)) if word == name
        ]

    def text(self, uri: str) -> str:
        """A file's text: as it was told, otherwise as it is on the disk."""
        if uri in self.texts:
            return self.texts[uri]
        return Path(unquote(urlsplit(uri).path)).read_text(encoding="utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Server(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "").serve()
