"""The protocol, spoken with one running server.

Owns: messages over its pipes, our capabilities, and the shape of each request and answer. It alone imports pygls and
lsprotocol, with the first server and in a thread. Must not know: when a server is started, or what its answers mean for
an edit.
"""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from lsprotocol import types
from msgspec import Struct
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException
from pygls.protocol import JsonRPCProtocol, default_converter

from pattern_acp.lsp.model import CodeLocation, Diagnostic, FileEdits, LanguageServerError, Span, TextEdit
from pattern_acp.processes.groups import ChildProgram

HEADER_LIMIT = 4096
MESSAGE_LIMIT = 64_000_000
"""Bytes of one message; a server that announces more counts as broken."""

for _name in ("pygls.protocol.json_rpc", "pygls.client", "pygls.feature_manager"):
    # It logs every message whole, and those contain the user's files.
    logging.getLogger(_name).setLevel(logging.CRITICAL)

HEARD = frozenset(
    {
        types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS,
        types.WINDOW_LOG_MESSAGE,
        types.WINDOW_SHOW_MESSAGE,
        types.WINDOW_WORK_DONE_PROGRESS_CREATE,
        types.WORKSPACE_CONFIGURATION,
        types.WORKSPACE_WORKSPACE_FOLDERS,
        types.CLIENT_REGISTER_CAPABILITY,
        types.CLIENT_UNREGISTER_CAPABILITY,
    }
)
"""Notifications and requests accepted from a server; other notifications are dropped, other requests refused. A server
never edits."""


class _Protocol(JsonRPCProtocol):
    """JSON-RPC with the message types of LSP, without pygls' functions for servers."""

    def get_message_type(self, method: str) -> type[Any] | None:
        return _types_of(method)[0]

    def get_result_type(self, method: str) -> type[Any] | None:
        return _types_of(method)[1]


def _types_of(method: str) -> tuple[type[Any] | None, type[Any] | None]:
    known = cast("Mapping[str, tuple[type[Any] | None, ...]]", types.METHOD_TO_TYPES).get(method)
    return (known[0], known[1]) if known is not None else (None, None)


class _Outgoing:
    """Writer for pygls: bytes that a task of ours sends on."""

    def __init__(self) -> None:
        self._send, self.receive = anyio.create_memory_object_stream[bytes](math.inf)

    def write(self, data: bytes) -> None:
        try:
            self._send.send_nowait(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("A message came too late for its language server.")

    def close(self) -> None:
        self._send.close()
        self.receive.close()


class Channel:
    """One server's pipes. `run` reads and writes them; messages may be sent while it runs."""

    def __init__(self, name: str, program: ChildProgram, answers: Mapping[str, Callable[[Any], object]]) -> None:
        self.ended = anyio.Event()
        self._name = name
        self._program = program
        self._outgoing = _Outgoing()
        self._pending: dict[int, Future[Any]] = {}
        self._requests = 0
        client = JsonRPCClient(_Protocol, default_converter)
        self._protocol = client.protocol
        self._protocol.set_writer(self._outgoing)
        for method in HEARD:
            # Partial, since pygls sets attributes on its argument.
            client.feature(method)(partial(answers.get(method, _agree)))

    async def run(self) -> None:
        """Serve the pipes until the server closes them."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write)
                log = partial(logger.info, "The language server %s says: %s", self._name)
                tasks.start_soon(self._program.listen_to_stderr, log)
                await self._read()
                tasks.cancel_scope.cancel()
        finally:
            self.ended.set()
            self._outgoing.close()

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self._protocol.notify(method, params)

    async def request(self, method: str, params: object) -> object:
        """Send a request and return the answer, in the types of lsprotocol. Cancelling it cancels the request.

        Raises:
            LanguageServerError: the server refused, or ended.
        """
        self._requests += 1
        number = self._requests
        future = self._pending[number] = self._protocol.send_request(method, params, msg_id=number)
        done = anyio.Event()
        future.add_done_callback(lambda _: done.set())
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._fail_at_end, future)
                await done.wait()
                tasks.cancel_scope.cancel()
            return future.result()
        except JsonRpcException as error:
            said = " ".join(str(error.message).split())[:200]
            raise LanguageServerError(f"The language server {self._name} says: {said}") from error
        finally:
            del self._pending[number]
            if not future.done():
                self.notify(types.CANCEL_REQUEST, types.CancelParams(number))

    async def _fail_at_end(self, future: "Future[Any]") -> None:
        await self.ended.wait()
        if not future.done():
            future.set_exception(LanguageServerError(f"The language server {self._name} ended meanwhile."))

    async def _write(self) -> None:
        try:
            async for data in self._outgoing.receive:
                await self._program.stdin.send(data)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("The language server %s does not read any more.", self._name)

    async def _read(self) -> None:
        stream = BufferedByteReceiveStream(self._program.stdout)
        try:
            while True:
                self._take(await stream.receive_exactly(await _length(stream)))
        except (OSError, ValueError, anyio.DelimiterNotFound):
            logger.warning("What the language server %s writes is no message.", self._name)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("The language server %s closed its output.", self._name)

    def _take(self, body: bytes) -> None:
        message: Any = json.loads(body)
        method = message.get("method")
        if method is not None and "id" not in message and method not in HEARD:
            return
        try:
            self._protocol.handle_message(cast("Any", self._protocol.structure_message(message)))
        except JsonRpcException as error:
            logger.warning("A message of the language server %s is not understood.", self._name)
            pending = self._pending.get(message.get("id"))
            if method is None and pending is not None and not pending.done():
                pending.set_exception(error)


async def _length(stream: BufferedByteReceiveStream) -> int:
    """Read the length of the next message in bytes, from its header (LSP 3.17, "Header Part").

    Raises:
        ValueError: there is no such header, or it says too much.
    """
    header = await stream.receive_until(b"\r\n\r\n", HEADER_LIMIT)
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and 0 <= int(value) <= MESSAGE_LIMIT:
            return int(value)
    raise ValueError(header)


def _agree(_params: object) -> None:
    """Accept a request that needs no action."""


logger = logging.getLogger(__name__)


class ServerAbilities(Struct, frozen=True):
    """Capabilities of a server, as far as we use them."""

    gives_diagnostics: bool = False
    """True if it answers requests for a file's diagnostics; otherwise it only sends them on its own."""
    renames: bool = False


OnDiagnostics = Callable[[str, int | None, tuple[Diagnostic, ...]], None]
"""Called with the path of a file, the version of its text if the server names it, and its diagnostics."""


class ServerConnection:
    """The exchange with one server, while its `channel` runs."""

    def __init__(
        self, name: str, program: ChildProgram, on_diagnostics: OnDiagnostics, configuration: Mapping[str, object]
    ) -> None:
        self._name = name
        self._on_diagnostics = on_diagnostics
        self._configuration = configuration
        self._roots: tuple[str, ...] = ()
        answers: dict[str, Callable[[Any], object]] = {
            types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS: self._published,
            types.WINDOW_LOG_MESSAGE: self._logged,
            types.WINDOW_SHOW_MESSAGE: self._logged,
            types.WORKSPACE_CONFIGURATION: self._asked_configuration,
            types.WORKSPACE_WORKSPACE_FOLDERS: lambda _params: self._folders(),
        }
        self.channel = Channel(name, program, answers)

    async def initialize(self, roots: Sequence[str], options: Mapping[str, object] | None = None) -> ServerAbilities:
        """Begin the conversation; `options` are the server's own.

        Raises:
            LanguageServerError: it refused, or ended.
        """
        self._roots = tuple(roots)
        params = types.InitializeParams(
            capabilities=_capabilities(),
            process_id=None,
            client_info=types.ClientInfo("pattern-acp"),
            root_uri=uri_of(roots[0]),
            root_path=roots[0],
            initialization_options=options,
            workspace_folders=self._folders(),
        )
        answer = await self.channel.request(types.INITIALIZE, params)
        self.channel.notify(types.INITIALIZED, types.InitializedParams())
        can = cast("types.InitializeResult", answer).capabilities
        return ServerAbilities(can.diagnostic_provider is not None, bool(can.rename_provider))

    def open(self, path: str, language: str, version: int, text: str) -> None:
        """Send the text of a file, which the server uses instead of the disk from now on."""
        item = types.TextDocumentItem(uri_of(path), language, version, text)
        self.channel.notify(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))

    def change(self, path: str, version: int, text: str) -> None:
        """Send the new text of an open file, and that it is on the disk."""
        document = types.VersionedTextDocumentIdentifier(version, uri_of(path))
        changes: list[types.TextDocumentContentChangeEvent] = [types.TextDocumentContentChangeWholeDocument(text)]
        self.channel.notify(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(document, changes))
        saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri_of(path)))
        self.channel.notify(types.TEXT_DOCUMENT_DID_SAVE, saved)

    def close(self, path: str) -> None:
        """Let the server read the file from the disk again."""
        document = types.TextDocumentIdentifier(uri_of(path))
        self.channel.notify(types.TEXT_DOCUMENT_DID_CLOSE, types.DidCloseTextDocumentParams(document))

    async def diagnostics(self, path: str) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of an open file; None when the server says that they have not changed.

        Raises:
            LanguageServerError: it cannot say, or ended.
        """
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri_of(path)))
        report = await self.channel.request(types.TEXT_DOCUMENT_DIAGNOSTIC, params)
        items = getattr(report, "items", None)
        return tuple(_diagnostic(item) for item in items) if items is not None else None

    async def definition(self, path: str, line: int, unit: int) -> tuple[CodeLocation, ...]:
        """Find the definitions of the symbol at a position.

        Raises:
            LanguageServerError: it cannot say, or ended.
        """
        document, position = types.TextDocumentIdentifier(uri_of(path)), types.Position(line, unit)
        answer = await self.channel.request(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(document, position))
        return _places(answer)

    async def references(self, path: str, line: int, unit: int) -> tuple[CodeLocation, ...]:
        """Find the uses of the symbol at a position, its definition included.

        Raises:
            LanguageServerError: it cannot say, or ended.
        """
        document, position = types.TextDocumentIdentifier(uri_of(path)), types.Position(line, unit)
        context = types.ReferenceContext(include_declaration=True)
        params = types.ReferenceParams(context, document, position)
        return _places(await self.channel.request(types.TEXT_DOCUMENT_REFERENCES, params))

    async def rename(self, path: str, line: int, unit: int, new_name: str) -> tuple[FileEdits, ...]:
        """Return the edits that rename the symbol at a position to `new_name`.

        Raises:
            LanguageServerError: it cannot be renamed, or the server ended.
        """
        document, position = types.TextDocumentIdentifier(uri_of(path)), types.Position(line, unit)
        edit = await self.channel.request(types.TEXT_DOCUMENT_RENAME, types.RenameParams(document, position, new_name))
        return _file_edits(edit)

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        found = tuple(_diagnostic(item) for item in params.diagnostics)
        self._on_diagnostics(path_of(params.uri), params.version, found)

    def _logged(self, params: types.LogMessageParams | types.ShowMessageParams) -> None:
        logger.debug("The language server %s says: %s", self._name, params.message)

    def _asked_configuration(self, params: types.ConfigurationParams) -> list[object]:
        return [self._configuration.get(item.section or "") for item in params.items]

    def _folders(self) -> list[types.WorkspaceFolder]:
        return [types.WorkspaceFolder(uri_of(root), Path(root).name or root) for root in self._roots]


def _capabilities() -> types.ClientCapabilities:
    """Our capabilities; a server leaves everything else out."""
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16]),
        window=types.WindowClientCapabilities(work_done_progress=False),
        workspace=types.WorkspaceClientCapabilities(
            configuration=True,
            workspace_folders=True,
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
        ),
        text_document=types.TextDocumentClientCapabilities(
            synchronization=types.TextDocumentSyncClientCapabilities(did_save=True),
            publish_diagnostics=types.PublishDiagnosticsClientCapabilities(version_support=True),
            diagnostic=types.DiagnosticClientCapabilities(),
            definition=types.DefinitionClientCapabilities(link_support=True),
            references=types.ReferenceClientCapabilities(),
            rename=types.RenameClientCapabilities(),
        ),
    )


_TEXT_EDITS = (types.TextEdit, types.AnnotatedTextEdit)


def _span(given: types.Range) -> Span:
    return Span(given.start.line, given.start.character, given.end.line, given.end.character)


def _diagnostic(given: types.Diagnostic) -> Diagnostic:
    is_error = given.severity in {None, types.DiagnosticSeverity.Error}
    code = "" if given.code is None else str(given.code)
    return Diagnostic(_span(given.range), str(given.message), is_error, code, given.source or "")


def _places(answer: object) -> tuple[CodeLocation, ...]:
    """The locations of an answer, which may be one, several, or links, each once."""
    found: list[CodeLocation] = []
    for each in cast("Sequence[object]", answer) if isinstance(answer, (list, tuple)) else [answer]:
        if isinstance(each, types.LocationLink):
            found.append(CodeLocation(path_of(each.target_uri), _span(each.target_selection_range)))
        elif isinstance(each, types.Location):
            found.append(CodeLocation(path_of(each.uri), _span(each.range)))
    return tuple(dict.fromkeys(found))


def _file_edits(edit: object) -> tuple[FileEdits, ...]:
    """The replacements of an answer by file. Raises LanguageServerError where it would do more than replace text."""
    by_path: dict[str, list[TextEdit]] = {}
    if not isinstance(edit, types.WorkspaceEdit):
        return ()
    changes: list[tuple[str, Sequence[object]]] = []
    for change in edit.document_changes or ():
        if not isinstance(change, types.TextDocumentEdit):
            raise LanguageServerError("This renaming would also create, move or delete files; do it step by step.")
        changes.append((change.text_document.uri, change.edits))
    if not changes:
        changes += (edit.changes or {}).items()
    for uri, edits in changes:
        # Of the three kinds of edits, those with placeholders come only to clients that ask for them.
        replacements = [TextEdit(_span(one.range), one.new_text) for one in edits if isinstance(one, _TEXT_EDITS)]
        by_path.setdefault(path_of(uri), []).extend(replacements)
    return tuple(FileEdits(path, tuple(edits)) for path, edits in by_path.items())


def uri_of(path: str) -> str:
    """The URI of an absolute path."""
    return Path(path).as_uri()


def path_of(uri: str) -> str:
    """The path of a URI; for one that is no file's, its text, which then names no file."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return unquote(uri)
    path = url2pathname(parts.path)
    # Servers write the colon of a Windows drive as %3A, and the drive in small letters.
    return str(Path(path))
