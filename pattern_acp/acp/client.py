"""The client of one ACP connection as the session sees it: what it can do, its answers, and its permission requests.

Owns: `session.ports.Client` and the `Approver` over session/request_permission. Must not know: sessions.
"""

import anyio

from pattern_acp.acp import schema
from pattern_acp.acp.batching import FlushTimer
from pattern_acp.acp.line_budget import shown_input
from pattern_acp.acp.tool_content import content_items, locations_of
from pattern_acp.acp.updates import Abilities
from pattern_acp.acp.view import EditorView
from pattern_acp.acp.workbench import EditorWorkbench, LocalMeans
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.errors import ConnectionClosedError, InvalidResultError, RemoteError
from pattern_acp.policy.approver import Answer, ApprovalRequest
from pattern_acp.session.ports import ClientDescription

CANCEL_SECONDS = 0.5
"""How long a withdrawn question waits for the cancel that clients send behind it: VS Code and Zed answer what is open
first. Meanwhile no other question may come up and no model be asked. Without one it is a refusal like any other."""


class EditorApprover:
    """Asks through the editor.

    There is no deadline: a person may take their time, and nothing is ever allowed by waiting. A cancelled turn
    cancels the question, whether or not the client answers it (CodeCompanion, avante and Qt Creator do not).
    """

    def __init__(self, session_id: SessionId, dispatcher: Dispatcher, abilities: Abilities, view: EditorView) -> None:
        self._session_id = session_id
        self._dispatcher = dispatcher
        self._abilities = abilities
        self._view = view

    async def ask(self, request: ApprovalRequest) -> Answer:
        """See `Approver.ask`."""
        await self._view.settle()
        try:
            response = await self._dispatcher.request(
                "session/request_permission",
                self._params(request),
                schema.PermissionResponse,
                deadline=None,
                repair=schema.repair,
            )
        except (RemoteError, InvalidResultError):
            return Answer.REJECT_ONCE
        except ConnectionClosedError:
            return Answer.CANCELLED
        answer = answer_of(response.outcome, request)
        if answer is Answer.CANCELLED:
            await anyio.sleep(CANCEL_SECONDS)
        return answer

    def _params(self, request: ApprovalRequest) -> schema.PermissionRequest:
        call = request.call
        # The preview comes first: CodeCompanion shows a diff only when it is content[0].
        content = (*call.content, TextContent(request.reason))
        return schema.PermissionRequest(
            session_id=self._session_id,
            tool_call=schema.ToolCallUpdate(
                tool_call_id=call.call_id,
                title=call.title,
                kind=call.kind,
                status=ToolCallStatus.PENDING,
                content=content_items(
                    content, live=self._abilities.embeds_terminals, meta=self._abilities.terminal_meta
                ),
                locations=locations_of(call.locations),
                raw_input=shown_input(call.raw_input),
            ),
            options=tuple(
                schema.PermissionOption(option_id=option.answer, name=option.name, kind=option.answer)
                for option in request.options
            ),
        )


def answer_of(outcome: schema.PermissionOutcome, request: ApprovalRequest) -> Answer:
    """The answer; an option that was not offered is a refusal (opensumi#4707)."""
    if isinstance(outcome, schema.CancelledOutcome):
        return Answer.CANCELLED
    offered = {option.answer.value: option.answer for option in request.options}
    return offered.get(outcome.option_id, Answer.REJECT_ONCE)


def abilities_of(client: schema.ClientCapabilities) -> Abilities:
    """What the client can show."""
    # With terminals of its own a client never sees ours, except as a fall-back, which text shows well enough.
    follows_ours = client.has_meta("terminal_output") and not client.terminal
    compactions = client.session.compaction is not None
    return Abilities(terminal_meta=follows_ours, embeds_terminals=client.terminal, compactions=compactions)


def description_of(client: schema.ClientCapabilities, info: schema.Implementation | None) -> ClientDescription:
    """What the model is told of the client."""
    files = "Files are read and written through the editor, so unsaved changes are seen."
    commands = "Commands run in the editor's terminal."
    notes: list[str] = []
    if client.fs.read_text_file or client.fs.write_text_file:
        notes.append(files)
    if client.terminal:
        notes.append(commands)
    name = (info.title or info.name) if info is not None else ""
    return ClientDescription(name[:60], tuple(notes))


class EditorClient:
    """The editor, as sessions need it. What it can do is known once initialize was answered."""

    def __init__(self, dispatcher: Dispatcher, means: LocalMeans, clock: Clock) -> None:
        self._dispatcher = dispatcher
        self._means = means
        self._clock = clock
        self._capabilities = schema.ClientCapabilities()
        self._info: schema.Implementation | None = None
        self._views: dict[SessionId, EditorView] = {}
        self.timer = FlushTimer()

    @property
    def dispatcher(self) -> Dispatcher:
        """The connection."""
        return self._dispatcher

    def introduce(self, capabilities: schema.ClientCapabilities, info: schema.Implementation | None) -> None:
        """Take what the client said of itself."""
        self._capabilities = capabilities
        self._info = info

    @property
    def description(self) -> ClientDescription:
        """See `Client.description`."""
        return description_of(self._capabilities, self._info)

    def view(self, session_id: SessionId) -> EditorView:
        """See `Client.view`. One view a session, since order is kept inside it."""
        view = self._views.get(session_id)
        if view is None:
            abilities = abilities_of(self._capabilities)
            view = EditorView(session_id, self._dispatcher, abilities, self.timer, self._clock)
            self._views[session_id] = view
        return view

    def approver(self, session_id: SessionId) -> EditorApprover:
        """See `Client.approver`."""
        return EditorApprover(session_id, self._dispatcher, abilities_of(self._capabilities), self.view(session_id))

    def workbench(self, session_id: SessionId) -> EditorWorkbench:
        """See `Client.workbench`."""
        return EditorWorkbench(session_id, self._dispatcher, self._capabilities, self._means)

    def forget(self, session_id: SessionId) -> None:
        """Drop the view of a closed session."""
        self._views.pop(session_id, None)
