"""The agent side of a connection: the table of methods, and what can be answered before anything heavy is loaded.

`initialize` needs this module and the wire structs alone. Everything about sessions is `acp.session_methods`, which
`Services` builds in the background as soon as initialize was answered; requests that need it wait for it here.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from pattern_acp.acp import initialize_response as initialize_answer
from pattern_acp.acp import schema, schema_extensions
from pattern_acp.acp.initialize_response import AUTH_METHOD, LOGIN_METHOD, TERMINAL_AUTH_METHOD
from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestContext, RequestHandler
from pattern_acp.jsonrpc.errors import AUTH_REQUIRED, INVALID_PARAMS, RpcError
from pattern_acp.jsonrpc.transport import Transport

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


class MemoryEventsPort(Protocol):
    """Memory live; see `acp.memory_feed.MemoryEvents`."""

    async def subscribe(self, request: schema_extensions.SubscribeRequest, context: RequestContext, /) -> object:
        """_pattern/memory/subscribe."""
        ...

    async def unsubscribe(self, request: schema_extensions.UnsubscribeRequest, context: RequestContext, /) -> object:
        """_pattern/memory/unsubscribe."""
        ...


class RewindPort(Protocol):
    """Going back; see `acp.rewind_methods.RewindMethods`."""

    async def list(self, request: schema_extensions.ListCheckpointsRequest, context: RequestContext, /) -> object:
        """_pattern/checkpoint/list."""
        ...

    async def preview(self, request: schema_extensions.RewindRequest, context: RequestContext, /) -> object:
        """_pattern/checkpoint/preview."""
        ...

    async def restore(self, request: schema_extensions.RewindRequest, context: RequestContext, /) -> object:
        """_pattern/checkpoint/restore."""
        ...

    async def rewind(self, request: schema_extensions.RewindRequest, context: RequestContext, /) -> object:
        """_pattern/session/rewind."""
        ...


class SessionExtensionsPort(Protocol):
    """Forks and sessions in use; see `acp.session_extensions.SessionExtensions`."""

    async def fork(self, request: schema_extensions.ForkSessionRequest, context: RequestContext, /) -> object:
        """session/fork."""
        ...

    async def open(self, request: schema_extensions.OpenSessionRequest, context: RequestContext, /) -> object:
        """_pattern/session/open."""
        ...

    async def stop_subagent(self, request: schema_extensions.StopSubagentRequest, context: RequestContext, /) -> object:
        """_pattern/subagent/stop."""
        ...


class SessionMethodsPort(Protocol):
    """The methods that need sessions; see `acp.session_methods.SessionMethods`."""

    @property
    def more(self) -> SessionExtensionsPort:
        """session/fork and _pattern/session/*."""
        ...

    @property
    def memory_events(self) -> MemoryEventsPort:
        """_pattern/memory/*."""
        ...

    @property
    def rewinds(self) -> RewindPort:
        """_pattern/checkpoint/* and _pattern/session/rewind."""
        ...

    async def new(self, request: schema.NewSessionRequest, context: RequestContext, /) -> object:
        """session/new."""
        ...

    async def load(self, request: schema.LoadSessionRequest, context: RequestContext, /) -> object:
        """session/load."""
        ...

    async def resume(self, request: schema.ResumeSessionRequest, context: RequestContext, /) -> object:
        """session/resume."""
        ...

    async def list(self, request: schema.ListSessionsRequest, context: RequestContext, /) -> object:
        """session/list."""
        ...

    async def close(self, request: schema.SessionRequest, context: RequestContext, /) -> object:
        """session/close."""
        ...

    async def delete(self, request: schema.SessionRequest, context: RequestContext, /) -> object:
        """session/delete."""
        ...

    async def set_mode(self, request: schema.SetModeRequest, context: RequestContext, /) -> object:
        """session/set_mode."""
        ...

    async def set_config_option(self, request: schema.SetConfigOptionRequest, context: RequestContext, /) -> object:
        """session/set_config_option."""
        ...

    def register_prompt(self, request: schema.PromptRequest, context: RequestContext) -> None:
        """The part of session/prompt that happens in wire order."""
        ...

    async def prompt(self, request: schema.PromptRequest, context: RequestContext, /) -> object:
        """session/prompt."""
        ...

    def cancel(self, request: schema.SessionRequest) -> None:
        """session/cancel."""
        ...


class Services(Protocol):
    """Builds what sessions need, outside the hot path of initialize."""

    def begin(
        self, dispatcher: Dispatcher, client: schema.ClientCapabilities, info: schema.Implementation | None
    ) -> None:
        """Start building for this client, without waiting. Called again, it only takes the client's new promises."""
        ...

    async def methods(self) -> SessionMethodsPort:
        """The session methods, once they are built.

        Raises:
            PatternError: they could not be built; the next call tries again.
        """
        ...

    def methods_if_ready(self) -> SessionMethodsPort | None:
        """The session methods, or None while they are not built."""
        ...

    async def forget_keys(self) -> None:
        """Forget the keys that were kept at a sign-in.

        Raises:
            PatternError: they cannot be forgotten.
        """
        ...

    async def has_kept_keys(self) -> bool:
        """Whether keys are kept now."""
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
    ) -> None:
        """`is_introduced`: the first request, an initialize, was answered already (`acp.introduction`)."""
        self._services = services
        self._is_introduced = is_introduced
        self._client = schema.ClientCapabilities()
        self._initialized = False
        self._signed_out = False
        self.dispatcher = Dispatcher(
            transport,
            requests={
                "initialize": self._initialize,
                "authenticate": self._authenticate,
                "logout": self._logout,
                "session/new": self._for_sessions(schema.NewSessionRequest, lambda methods: methods.new),
                "session/load": self._for_sessions(schema.LoadSessionRequest, lambda methods: methods.load),
                "session/resume": self._for_sessions(schema.ResumeSessionRequest, lambda methods: methods.resume),
                "session/list": self._for_sessions(schema.ListSessionsRequest, lambda methods: methods.list),
                "session/close": self._for_sessions(schema.SessionRequest, lambda methods: methods.close),
                "session/delete": self._for_sessions(schema.SessionRequest, lambda methods: methods.delete),
                "session/set_mode": self._for_sessions(schema.SetModeRequest, lambda methods: methods.set_mode),
                "session/set_config_option": self._for_sessions(
                    schema.SetConfigOptionRequest, lambda methods: methods.set_config_option
                ),
                schema_extensions.FORK: self._for_sessions(
                    schema_extensions.ForkSessionRequest, lambda methods: methods.more.fork
                ),
                schema_extensions.OWN_FORK: self._for_sessions(
                    schema_extensions.ForkSessionRequest, lambda methods: methods.more.fork
                ),
                schema_extensions.OPEN: self._for_sessions(
                    schema_extensions.OpenSessionRequest, lambda methods: methods.more.open
                ),
                schema_extensions.STOP_SUBAGENT: self._for_sessions(
                    schema_extensions.StopSubagentRequest, lambda methods: methods.more.stop_subagent
                ),
                "session/prompt": self._for_sessions(schema.PromptRequest, lambda methods: methods.prompt),
                schema_extensions.SUBSCRIBE: self._for_sessions(
                    schema_extensions.SubscribeRequest, lambda methods: methods.memory_events.subscribe
                ),
                schema_extensions.UNSUBSCRIBE: self._for_sessions(
                    schema_extensions.UnsubscribeRequest, lambda methods: methods.memory_events.unsubscribe
                ),
                **self._rewinds(),
            },
            notifications={"session/cancel": self._cancel},
            prepare={"initialize": self._take_introduction, "session/prompt": self._register_prompt},
            translate=translate,
        )

    async def run(self) -> None:
        """Serve until the client is gone."""
        await self.dispatcher.run()

    async def _initialize(self, raw: msgspec.Raw, context: RequestContext) -> schema.InitializeResponse:
        request = schema.read_params(raw, schema.InitializeRequest)
        schema.parse_protocol_version(request.protocol_version)
        self._client = request.client_capabilities
        self._initialized = True

        async def begin() -> None:
            self._services.begin(self.dispatcher, request.client_capabilities, request.client_info)

        context.after_response(begin)
        return initialize_response(request.client_capabilities)

    def _take_introduction(self, raw: msgspec.Raw, context: RequestContext) -> None:
        del raw
        context.is_answered, self._is_introduced = self._is_introduced, False

    async def _authenticate(self, raw: msgspec.Raw, context: RequestContext) -> schema.EmptyResponse:
        del context
        request = schema.read_params(raw, schema.AuthenticateRequest)
        if request.method_id == AUTH_METHOD:
            self._signed_out = False
            return schema.EmptyResponse()
        known = {method.id for method in auth_methods(self._client)}
        if request.method_id in known:
            raise RpcError(INVALID_PARAMS, "This method runs in a terminal; start it there instead of authenticating.")
        raise RpcError(INVALID_PARAMS, "There is no such auth method; use one that initialize lists.")

    async def _logout(self, raw: msgspec.Raw, context: RequestContext) -> schema.EmptyResponse:
        del raw, context
        # What `auth login` kept is forgotten. Keys in the environment are the person's; we only stop using them.
        self._signed_out = True
        await self._services.forget_keys()
        return schema.EmptyResponse()

    async def _sessions(self) -> SessionMethodsPort:
        if self._signed_out and await self._services.has_kept_keys():
            # Signed in again in a terminal, of which the client need not tell.
            self._signed_out = False
        if self._signed_out:
            raise RpcError(AUTH_REQUIRED, "Signed out; authenticate to go on.")
        if not self._initialized:
            # A client that skips initialize is served as one without capabilities.
            self._initialized = True
            self._services.begin(self.dispatcher, self._client, None)
        return await self._services.methods()

    def _for_sessions(
        self, params: type[T], choose: Callable[[SessionMethodsPort], Callable[[T, RequestContext], Awaitable[object]]]
    ) -> RequestHandler:
        """A handler that reads its parameters, waits for the sessions, and calls one of their methods."""

        async def handle(raw: msgspec.Raw, context: RequestContext) -> object:
            request = schema.read_params(raw, params)
            return await choose(await self._sessions())(request, context)

        return handle

    def _rewinds(self) -> dict[str, RequestHandler]:
        asked = schema_extensions.RewindRequest
        return {
            schema_extensions.LIST: self._for_sessions(
                schema_extensions.ListCheckpointsRequest, lambda methods: methods.rewinds.list
            ),
            schema_extensions.PREVIEW: self._for_sessions(asked, lambda methods: methods.rewinds.preview),
            schema_extensions.RESTORE: self._for_sessions(asked, lambda methods: methods.rewinds.restore),
            schema_extensions.REWIND: self._for_sessions(asked, lambda methods: methods.rewinds.rewind),
        }

    def _register_prompt(self, raw: msgspec.Raw, context: RequestContext) -> None:
        methods = self._services.methods_if_ready()
        if methods is not None and not self._signed_out:
            methods.register_prompt(schema.read_params(raw, schema.PromptRequest), context)

    def _cancel(self, raw: msgspec.Raw) -> None:
        methods = self._services.methods_if_ready()
        if methods is not None:
            methods.cancel(schema.read_params(raw, schema.SessionRequest))
