"""`session.ports.Client` over one ACP connection."""

from pattern_acp.acp import schema
from pattern_acp.acp.abilities import abilities_of, description_of
from pattern_acp.acp.batching import FlushTimer
from pattern_acp.acp.permission import EditorApprover
from pattern_acp.acp.view import EditorView
from pattern_acp.acp.workbench import EditorWorkbench, LocalMeans
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import SessionId
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.session.ports import ClientDescription


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
