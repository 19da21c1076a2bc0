"""The protocol, spoken with one running server.

Owns: what we can do, and the shape of each request and answer. It and `channel.py` alone import lsprotocol, with the
first server and in a thread. Must not know: when a server is started, or what its answers mean for an edit.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from lsprotocol import types
from msgspec import Struct

from pattern_acp.lsp.channel import Channel
from pattern_acp.lsp.model import CodeLocation, Diagnostic, FileEdits, LanguageServerError, Span, TextEdit
from pattern_acp.processes.child_program import ChildProgram

logger = logging.getLogger(__name__)


class ServerAbilities(Struct, frozen=True):
    """What a server can do, as far as we use it."""

    gives_diagnostics: bool = False
    """Whether it can be asked for a file's diagnostics; otherwise it only sends them when it has some."""
    renames: bool = False


OnDiagnostics = Callable[[str, int | None, tuple[Diagnostic, ...]], None]
"""Called with the path of a file, the version of its text if the server says it, and what is wrong in it."""


class Connection:
    """What is said to one server, and heard of it. Its `channel` has to run meanwhile."""

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
            types.WORKSPACE_WORKSPACE_FOLDERS: self._asked_folders,
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
        """Tell the text of a file, which from now on is what the server goes by."""
        item = types.TextDocumentItem(uri_of(path), language, version, text)
        self.channel.notify(types.TEXT_DOCUMENT_DID_OPEN, types.DidOpenTextDocumentParams(item))

    def change(self, path: str, version: int, text: str) -> None:
        """Tell the new text of an open file, and that it is on the disk."""
        document = types.VersionedTextDocumentIdentifier(version, uri_of(path))
        changes: list[types.TextDocumentContentChangeEvent] = [types.TextDocumentContentChangeWholeDocument(text)]
        self.channel.notify(types.TEXT_DOCUMENT_DID_CHANGE, types.DidChangeTextDocumentParams(document, changes))
        saved = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri_of(path)))
        self.channel.notify(types.TEXT_DOCUMENT_DID_SAVE, saved)

    def close(self, path: str) -> None:
        """Let the server go by the disk again."""
        document = types.TextDocumentIdentifier(uri_of(path))
        self.channel.notify(types.TEXT_DOCUMENT_DID_CLOSE, types.DidCloseTextDocumentParams(document))

    async def diagnostics(self, path: str) -> tuple[Diagnostic, ...] | None:
        """What is wrong in an open file; None when the server says that it has not changed.

        Raises:
            LanguageServerError: it cannot say, or ended.
        """
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri_of(path)))
        report = await self.channel.request(types.TEXT_DOCUMENT_DIAGNOSTIC, params)
        items = getattr(report, "items", None)
        return tuple(_diagnostic(item) for item in items) if items is not None else None

    async def definition(self, path: str, line: int, unit: int) -> tuple[CodeLocation, ...]:
        """Where what stands at a position is defined.

        Raises:
            LanguageServerError: it cannot say, or ended.
        """
        document, position = types.TextDocumentIdentifier(uri_of(path)), types.Position(line, unit)
        answer = await self.channel.request(types.TEXT_DOCUMENT_DEFINITION, types.DefinitionParams(document, position))
        return _places(answer)

    async def references(self, path: str, line: int, unit: int) -> tuple[CodeLocation, ...]:
        """Where what stands at a position is used, its definition included.

        Raises:
            LanguageServerError: it cannot say, or ended.
        """
        document, position = types.TextDocumentIdentifier(uri_of(path)), types.Position(line, unit)
        context = types.ReferenceContext(include_declaration=True)
        params = types.ReferenceParams(context, document, position)
        return _places(await self.channel.request(types.TEXT_DOCUMENT_REFERENCES, params))

    async def rename(self, path: str, line: int, unit: int, new_name: str) -> tuple[FileEdits, ...]:
        """What has to change for what stands at a position to be called `new_name`.

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

    def _asked_folders(self, _params: object) -> list[types.WorkspaceFolder]:
        return self._folders()

    def _folders(self) -> list[types.WorkspaceFolder]:
        return [types.WorkspaceFolder(uri_of(root), Path(root).name or root) for root in self._roots]


def _capabilities() -> types.ClientCapabilities:
    """What we understand; everything else a server then leaves out."""
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
    """The places of an answer, which may be one, several, or links, each once."""
    found: list[CodeLocation] = []
    for each in cast("Sequence[object]", answer) if isinstance(answer, (list, tuple)) else [answer]:
        if isinstance(each, types.LocationLink):
            found.append(CodeLocation(path_of(each.target_uri), _span(each.target_selection_range)))
        elif isinstance(each, types.Location):
            found.append(CodeLocation(path_of(each.uri), _span(each.range)))
    return tuple(dict.fromkeys(found))


def _file_edits(edit: object) -> tuple[FileEdits, ...]:
    """The replacements of an answer by file.

    Raises:
        LanguageServerError: it would do more than replace text.
    """
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
    """The address of an absolute path."""
    return Path(path).as_uri()


def path_of(uri: str) -> str:
    """The path of an address; of one that is no file's, its text, which then names no file."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return unquote(uri)
    path = url2pathname(parts.path)
    # Servers write the colon of a Windows drive as %3A, and the drive in small letters.
    return str(Path(path))
