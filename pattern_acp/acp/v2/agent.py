"""The methods of a connection that speaks ACP v2.

Owns: the table of methods and their parameters. Must not know: sessions, which `acp.v2.methods` serves.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import msgspec
from msgspec import Struct

from pattern_acp.acp import schema as v1
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.initialize_response import second_in_terminal, second_result
from pattern_acp.acp.v2 import schema
from pattern_acp.jsonrpc.dispatcher import Answer, InOrderHook, NotificationHandler, RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED, RESOURCE_NOT_FOUND, RpcError

if TYPE_CHECKING:
    from pattern_acp.acp.session_methods import SessionMethods
    from pattern_acp.acp.v2.methods import SecondMethods

T = TypeVar("T")


class Connection(Protocol):
    """The parts of `acp.agent.Agent` that both versions share; it would import this module in a circle."""

    def begin(self, client: v1.ClientCapabilities, info: v1.Implementation | None) -> None:
        """Build the sessions for a client that has introduced itself."""
        ...

    async def authenticate(self, raw: msgspec.Raw, context: RequestContext) -> v1.EmptyResponse:
        """Sign in."""
        ...

    async def logout(self, raw: msgspec.Raw, context: RequestContext) -> v1.EmptyResponse:
        """Sign out."""
        ...

    async def sessions(self, request: object = None) -> "SessionMethods":
        """The methods of sessions that serve a request, once they are built."""
        ...

    def ready_sessions(self, request: object) -> "SessionMethods | None":
        """The methods of sessions that serve a request, if they are built."""
        ...

    def all_ready_sessions(self) -> "Sequence[SessionMethods]":
        """All methods of sessions that are built."""
        ...

    def cancel(self, raw: msgspec.Raw) -> None:
        """Cancel the turn of a session."""
        ...

    def explain(self, error: Exception) -> RpcError | None:
        """Return the error to answer with."""
        ...


class Tables(Struct, frozen=True):
    """Handlers for a dispatcher."""

    requests: Mapping[str, RequestHandler]
    in_order: Mapping[str, InOrderHook]
    notifications: Mapping[str, NotificationHandler]


def second_version(connection: Connection) -> Tables:
    """Return the methods of version 2 for a connection that has chosen it."""
    second = _Second(connection)
    serve = second.serve
    requests: dict[str, RequestHandler] = {
        "initialize": second.initialize,
        "auth/login": connection.authenticate,
        "auth/logout": connection.logout,
        "session/new": serve(v1.NewSessionRequest, lambda ours: ours.new),
        "session/resume": serve(schema.ResumeSessionRequest, lambda ours: ours.resume),
        "session/list": serve(schema.ListSessionsRequest, lambda ours: ours.list),
        "session/close": serve(v1.SessionRequest, lambda ours: ours.first.close),
        "session/delete": serve(v1.SessionRequest, lambda ours: ours.first.delete),
        "session/set_config_option": serve(schema.SetConfigOptionRequest, lambda ours: ours.set_config_option),
        "tool_call/cancel": serve(schema.CancelToolCallRequest, lambda ours: ours.cancel_call),
        "terminal/cancel": serve(v1.TerminalRequest, lambda ours: ours.cancel_terminal),
        "session/prompt": serve(schema.PromptRequest, lambda ours: ours.prompt),
        "session/fork": serve(extensions.ForkSessionRequest, lambda ours: ours.fork),
        "session/archive": serve(v1.SessionRequest, lambda ours: ours.archive),
        "session/unarchive": serve(v1.SessionRequest, lambda ours: ours.unarchive),
        "session/status": serve(v1.SessionRequest, lambda ours: ours.status),
        "session/set_title": serve(schema.SetSessionTitleRequest, lambda ours: ours.set_title),
        "providers/list": serve(v1.MetaWire, lambda ours: ours.list_providers),
        "providers/set": serve(schema.SetProviderRequest, lambda ours: ours.set_provider),
        "providers/disable": serve(schema.ProviderRequestById, lambda ours: ours.disable_provider),
        "auth/status": second.auth_status,
        extensions.OWN_FORK: serve(extensions.ForkSessionRequest, lambda ours: ours.fork),
        extensions.OPEN: serve(extensions.OpenSessionRequest, lambda ours: ours.open),
        extensions.STOP_SUBAGENT: serve(extensions.StopSubagentRequest, lambda ours: ours.first.stop_subagent),
        extensions.SUBSCRIBE: serve(extensions.SubscribeRequest, lambda ours: ours.first.memory_events.subscribe),
        extensions.UNSUBSCRIBE: serve(extensions.UnsubscribeRequest, lambda ours: ours.first.memory_events.unsubscribe),
        extensions.SUBSCRIBE_SESSION: serve(
            extensions.SubscribeSessionRequest, lambda ours: ours.first.session_feed.subscribe
        ),
        extensions.UNSUBSCRIBE_SESSION: serve(
            extensions.UnsubscribeRequest, lambda ours: ours.first.session_feed.unsubscribe
        ),
        extensions.BOARD: serve(extensions.BoardRequest, lambda ours: ours.first.board),
        extensions.LIST: serve(extensions.ListCheckpointsRequest, lambda ours: ours.first.list_checkpoints),
        extensions.PREVIEW: serve(extensions.RewindRequest, lambda ours: ours.first.preview_rewind),
        extensions.RESTORE: serve(extensions.RewindRequest, lambda ours: ours.first.restore),
        extensions.REWIND: serve(extensions.RewindRequest, lambda ours: ours.first.rewind),
    }
    in_order: dict[str, InOrderHook] = {
        "initialize": second.keep_version,
        "session/prompt": second.register_prompt,
    }
    notifications: dict[str, NotificationHandler] = {
        "session/cancel": second.cancel,
        v1.MCP_MESSAGE: second.hear_server,
    }
    return Tables(requests, in_order, notifications)


class _Second:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._methods: dict[SessionMethods, SecondMethods] = {}

    async def initialize(self, raw: msgspec.Raw, context: RequestContext) -> object:
        """Answer any initialize of this connection: its version was chosen by the first one."""
        params = cast("object", msgspec.json.decode(raw))
        in_terminal = second_in_terminal(params)
        info = _info_of(params)

        async def begin() -> None:
            # Nothing that version 1 has clients do for us: files and commands are ours in version 2.
            auth = v1.AuthCapabilities(terminal=in_terminal)
            client = v1.ClientCapabilities(auth=auth, elicitation=_elicitation_of(params), meta=_meta_of(params))
            self._connection.begin(client, info)

        context.after_response(begin)
        return second_result(in_terminal=in_terminal)

    async def auth_status(self, raw: msgspec.Raw, context: RequestContext) -> object:
        """auth/status, which is answered also when the client is signed out."""
        try:
            return await self.serve(v1.MetaWire, lambda ours: ours.auth_status)(raw, context)
        except RpcError as error:
            if error.code != AUTH_REQUIRED:
                raise
            return schema.AuthStatusResponse(state="unauthenticated")

    def keep_version(self, raw: msgspec.Raw, context: RequestContext) -> None:
        """Do nothing in wire order: the version stays."""
        del raw, context

    def register_prompt(self, raw: msgspec.Raw, context: RequestContext) -> Answer | None:
        """Give a prompt its place before the next line is read."""
        if not self._connection.all_ready_sessions():
            return None
        request = v1.read_params(raw, schema.PromptRequest)
        ready = self._connection.ready_sessions(request)
        if ready is None:
            return None
        try:
            return self._over(ready).register_prompt(request, context)
        except Exception as error:
            raise self._explained(error, request) from error

    def cancel(self, raw: msgspec.Raw) -> None:
        """Cancel a turn, or a subagent."""
        request = v1.read_params(raw, v1.SessionRequest)
        every = self._connection.all_ready_sessions()
        if not any(self._over(ready).cancel_subagent(request.session_id) for ready in every):
            self._connection.cancel(raw)

    def hear_server(self, raw: msgspec.Raw) -> None:
        """Take a notification of an MCP server of the client."""
        for ready in self._connection.all_ready_sessions():
            ready.client.servers.hear(raw)

    def serve(
        self, params: type[T], choose: "Callable[[SecondMethods], Callable[[T, RequestContext], Awaitable[object]]]"
    ) -> RequestHandler:
        """Return a handler that reads its parameters, waits for the sessions, and calls one of their methods."""

        async def handle(raw: msgspec.Raw, context: RequestContext) -> object:
            request = v1.read_params(raw, params)
            try:
                return await choose(self._over(await self._connection.sessions(request)))(request, context)
            except Exception as error:
                raise self._explained(error, request) from error

        return handle

    def _over(self, first: "SessionMethods") -> "SecondMethods":
        known = self._methods.get(first)
        if known is None:
            from pattern_acp.acp.v2.methods import SecondMethods

            known = self._methods[first] = SecondMethods(first, self._connection.explain)
        return known

    def _explained(self, error: Exception, request: object) -> Exception:
        """The error to raise: one about a session that is not there names it in its data."""
        found = self._connection.explain(error)
        session_id = getattr(request, "session_id", None)
        if found is None or found.code != RESOURCE_NOT_FOUND or not isinstance(session_id, str):
            return error
        data = {"sessionId": session_id, "details": found.message}
        return RpcError(found.code, found.message, data, failure_code=found.failure_code)


def _elicitation_of(params: object) -> v1.ElicitationCapabilities | None:
    """The ways in which the client asks the user for values; None for what cannot be read."""
    promised = cast("dict[str, object]", params).get("capabilities") if isinstance(params, dict) else None
    if not isinstance(promised, dict):
        return None
    try:
        return msgspec.convert(cast("dict[str, object]", promised).get("elicitation"), v1.ElicitationCapabilities)
    except msgspec.ValidationError:
        return None


def _meta_of(params: object) -> dict[str, object] | None:
    """The client's promises beside those of ACP; None for what cannot be read."""
    promised = cast("dict[str, object]", params).get("capabilities") if isinstance(params, dict) else None
    meta = cast("dict[str, object]", promised).get("_meta") if isinstance(promised, dict) else None
    return cast("dict[str, object]", meta) if isinstance(meta, dict) else None


def _info_of(params: object) -> v1.Implementation | None:
    """The client's name and version, as far as they can be read."""
    if not isinstance(params, dict):
        return None
    try:
        return msgspec.convert(cast("dict[str, object]", params).get("info"), v1.Implementation)
    except msgspec.ValidationError:
        return None
