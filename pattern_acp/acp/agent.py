"""The agent side of a connection: the table of methods, and what can be answered before anything heavy is loaded.

`initialize` needs this module and the wire structs alone. Everything about sessions is `acp.session_methods`, which
`Services` builds in the background as soon as initialize was answered; requests that need it wait for it here.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import msgspec

from pattern_acp.acp import initialize_response as initialize_answer
from pattern_acp.acp import schema
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.initialize_response import (
    AUTH_METHOD,
    LOGIN_METHOD,
    PROTOCOL_VERSION,
    SECOND_VERSION,
    TERMINAL_AUTH_METHOD,
    asks_for_second,
    has_second_form,
)
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.jsonrpc.dispatcher import (
    Answer,
    Dispatcher,
    InOrderHook,
    NotificationHandler,
    RequestContext,
    RequestHandler,
)
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED, INVALID_PARAMS, UNSUPPORTED_VERSION, RpcError
from pattern_acp.jsonrpc.transport import Transport

if TYPE_CHECKING:
    from pattern_acp.acp.session_methods import SessionMethods

__all__ = ["AUTH_METHOD", "LOGIN_METHOD", "TERMINAL_AUTH_METHOD", "auth_methods", "initialize_response"]


def initialize_response(client: schema.ClientCapabilities) -> schema.InitializeResponse:
    """The answer to initialize: exactly what works."""
    return msgspec.convert(
        initialize_answer.initialize_result(in_terminal=_runs_in_terminal(client)), schema.InitializeResponse
    )


def auth_methods(client: schema.ClientCapabilities) -> tuple[schema.AuthMethod, ...]:
    """The ways to sign in."""
    known = initialize_answer.auth_methods(in_terminal=_runs_in_terminal(client))
    return msgspec.convert(known, tuple[schema.AuthMethod, ...])


def _runs_in_terminal(client: schema.ClientCapabilities) -> bool:
    return client.auth.terminal or client.has_meta("terminal-auth")


T = TypeVar("T")


class Services(Protocol):
    """Builds what sessions need, outside the hot path of initialize."""

    def begin(
        self, dispatcher: Dispatcher, client: schema.ClientCapabilities, info: schema.Implementation | None
    ) -> None:
        """Start building for this client, without waiting. Called again, it only takes the client's new promises."""
        ...

    async def methods(self, request: object = None) -> "SessionMethods":
        """The session methods that serve a request, by its folder or session, once they are built.

        Raises:
            PatternError: they could not be built; the next call tries again.
        """
        ...

    def methods_if_ready(self, request: object = None) -> "SessionMethods | None":
        """The session methods that serve a request, or None while they are not built."""
        ...

    def all_ready(self) -> "Sequence[SessionMethods]":
        """All session methods that are built: with a constellation for each project, one for each that is open."""
        ...

    async def forget_keys(self) -> None:
        """Forget the keys that were stored at a sign-in. Raises PatternError where they cannot be forgotten."""
        ...

    async def has_kept_keys(self) -> bool:
        """Tell whether keys are stored now."""
        ...


class Agent:
    """One ACP connection."""

    def __init__(
        self,
        transport: Transport,
        services: Services,
        translate: Callable[[Exception], RpcError | None],
        *,
        is_introduced: bool = False,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        """A connection that is not served yet.

        Args:
            transport: Lines to and from the client.
            services: Builds the methods that need sessions.
            translate: The error to answer with; see `Dispatcher`.
            is_introduced: The first request, an initialize, was answered already (`acp.initialize_response`).
            on_end: See `Dispatcher`.
        """
        self._services = services
        self._is_introduced = is_introduced
        self._client = schema.ClientCapabilities()
        self._initialized = False
        self._signed_out = False
        self._translate = translate
        serve = self.for_sessions
        self._requests: dict[str, RequestHandler] = {
            "initialize": self._initialize,
            "authenticate": self.authenticate,
            "logout": self.logout,
            "session/new": serve(schema.NewSessionRequest, lambda ours: ours.new),
            "session/load": serve(schema.LoadSessionRequest, lambda ours: ours.load),
            "session/resume": serve(schema.ResumeSessionRequest, lambda ours: ours.resume),
            "session/list": serve(schema.ListSessionsRequest, lambda ours: ours.list),
            "session/close": serve(schema.SessionRequest, lambda ours: ours.close),
            "session/delete": serve(schema.SessionRequest, lambda ours: ours.delete),
            "session/set_mode": serve(schema.SetModeRequest, lambda ours: ours.set_mode),
            "session/set_config_option": serve(schema.SetConfigOptionRequest, lambda ours: ours.set_config_option),
            "session/prompt": serve(schema.PromptRequest, lambda ours: ours.prompt),
            extensions.FORK: serve(extensions.ForkSessionRequest, lambda ours: ours.fork),
            extensions.OWN_FORK: serve(extensions.ForkSessionRequest, lambda ours: ours.fork),
            extensions.OPEN: serve(extensions.OpenSessionRequest, lambda ours: ours.open),
            extensions.STOP_SUBAGENT: serve(extensions.StopSubagentRequest, lambda ours: ours.stop_subagent),
            extensions.SUBSCRIBE: serve(extensions.SubscribeRequest, lambda ours: ours.memory_events.subscribe),
            extensions.UNSUBSCRIBE: serve(extensions.UnsubscribeRequest, lambda ours: ours.memory_events.unsubscribe),
            extensions.SUBSCRIBE_SESSION: serve(
                extensions.SubscribeSessionRequest, lambda ours: ours.session_feed.subscribe
            ),
            extensions.UNSUBSCRIBE_SESSION: serve(
                extensions.UnsubscribeRequest, lambda ours: ours.session_feed.unsubscribe
            ),
            extensions.BOARD: serve(extensions.BoardRequest, lambda ours: ours.board),
            extensions.LIST: serve(extensions.ListCheckpointsRequest, lambda ours: ours.list_checkpoints),
            extensions.PREVIEW: serve(extensions.RewindRequest, lambda ours: ours.preview_rewind),
            extensions.RESTORE: serve(extensions.RewindRequest, lambda ours: ours.restore),
            extensions.REWIND: serve(extensions.RewindRequest, lambda ours: ours.rewind),
        }
        self._in_order: dict[str, InOrderHook] = {
            "initialize": self._take_introduction,
            "session/prompt": self._register_prompt,
        }
        self._notifications: dict[str, NotificationHandler] = {"session/cancel": self.cancel}
        self.dispatcher = Dispatcher(
            transport,
            requests=self._requests,
            notifications=self._notifications,
            in_order=self._in_order,
            translate=translate,
            on_end=on_end,
        )

    async def _initialize(self, raw: msgspec.Raw, context: RequestContext) -> schema.InitializeResponse:
        request = schema.read_params(raw, schema.InitializeRequest)
        schema.parse_protocol_version(request.protocol_version)
        self._client = request.client_capabilities
        self._initialized = True

        async def begin() -> None:
            self._services.begin(self.dispatcher, request.client_capabilities, request.client_info)

        context.after_response(begin)
        return initialize_response(request.client_capabilities)

    def _take_introduction(self, raw: msgspec.Raw, context: RequestContext) -> Answer | None:
        """Choose the version of the connection before its next line is read: the first initialize does, for good."""
        context.is_answered, self._is_introduced = self._is_introduced, False
        if self._initialized:
            return None
        try:
            params = cast("object", msgspec.json.decode(raw))
        except msgspec.DecodeError:
            return None
        if isinstance(params, dict) and has_second_form(members := cast("dict[str, object]", params)):
            if members.get("protocolVersion") == 0:
                data: JsonObject = {"requested": 0, "supported": [PROTOCOL_VERSION, SECOND_VERSION]}
                raise RpcError(UNSUPPORTED_VERSION, "There is no version 0 of ACP here; ask for 1 or 2.", data)
            if asks_for_second(members):
                return partial(self._speak_second(), raw, context)
        return None

    def _speak_second(self) -> RequestHandler:
        """Serve the methods of version 2 from now on; the handler of its initialize."""
        from pattern_acp.acp.v2.agent import second_version

        self._initialized = True
        second = second_version(self)
        self._requests.clear()
        self._requests.update(second.requests)
        self._in_order.clear()
        self._in_order.update(second.in_order)
        self._notifications.update(second.notifications)
        return self._requests["initialize"]

    def begin(self, client: schema.ClientCapabilities, info: schema.Implementation | None) -> None:
        """Build the sessions for a client that has introduced itself."""
        self._client = client
        self._initialized = True
        self._services.begin(self.dispatcher, client, info)

    def explain(self, error: Exception) -> RpcError | None:
        """Return the error to answer with; None for one that nobody foresaw."""
        return error if isinstance(error, RpcError) else self._translate(error)

    def ready_sessions(self, request: object) -> "SessionMethods | None":
        """Return the methods of sessions that serve a request, if they are built and the client is signed in."""
        return None if self._signed_out else self._services.methods_if_ready(request)

    def all_ready_sessions(self) -> "Sequence[SessionMethods]":
        """Return all methods of sessions that are built, if the client is signed in."""
        return () if self._signed_out else self._services.all_ready()

    async def authenticate(self, raw: msgspec.Raw, context: RequestContext) -> schema.EmptyResponse:
        """Sign in; the same in both versions."""
        del context
        request = schema.read_params(raw, schema.AuthenticateRequest)
        if request.method_id == AUTH_METHOD:
            self._signed_out = False
            return schema.EmptyResponse()
        known = {method.id for method in auth_methods(self._client)}
        if request.method_id in known:
            raise RpcError(INVALID_PARAMS, "This method runs in a terminal; start it there instead of authenticating.")
        raise RpcError(INVALID_PARAMS, "There is no such auth method; use one that initialize lists.")

    async def logout(self, raw: msgspec.Raw, context: RequestContext) -> schema.EmptyResponse:
        """Sign out; the same in both versions."""
        del raw, context
        # What `auth login` stored is forgotten. Keys in the environment are the user's; we only stop using them.
        self._signed_out = True
        await self._services.forget_keys()
        return schema.EmptyResponse()

    async def sessions(self, request: object = None) -> "SessionMethods":
        """The methods of sessions that serve a request, once they are built.

        Raises:
            RpcError: the client is signed out.
            PatternError: they cannot be built.
        """
        if self._signed_out and await self._services.has_kept_keys():
            # Signed in again in a terminal, of which the client need not tell.
            self._signed_out = False
        if self._signed_out:
            raise RpcError(AUTH_REQUIRED, "Signed out; authenticate to continue.")
        if not self._initialized:
            # A client that skips initialize is served as one without capabilities.
            self._initialized = True
            self._services.begin(self.dispatcher, self._client, None)
        return await self._services.methods(request)

    def for_sessions(
        self, params: type[T], choose: "Callable[[SessionMethods], Callable[[T, RequestContext], Awaitable[object]]]"
    ) -> RequestHandler:
        """A handler that reads its parameters, waits for the sessions, and calls one of their methods."""

        async def handle(raw: msgspec.Raw, context: RequestContext) -> object:
            request = schema.read_params(raw, params)
            return await choose(await self.sessions(request))(request, context)

        return handle

    def _register_prompt(self, raw: msgspec.Raw, context: RequestContext) -> Answer | None:
        if self._signed_out or not self._services.all_ready():
            return None
        request = schema.read_params(raw, schema.PromptRequest)
        methods = self._services.methods_if_ready(request)
        return None if methods is None else methods.register_prompt(request, context)

    def cancel(self, raw: msgspec.Raw) -> None:
        """Cancel the turn of a session."""
        if self._services.all_ready():
            request = schema.read_params(raw, schema.SessionRequest)
            methods = self._services.methods_if_ready(request)
            if methods is not None:
                methods.cancel(request)
