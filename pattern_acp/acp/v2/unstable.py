"""The methods of ACP v2 that are not stable yet, each behind its capability (`acp.second_introduction`).

Owns: forks, archives, titles and states of sessions, ways to providers, and the state of keys, for clients of
version 2. Must not know: how any of it is stored.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from msgspec.structs import asdict

from pattern_acp.acp import schema as v1
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.session_methods import asks_for_archived, session_info
from pattern_acp.acp.v2 import schema
from pattern_acp.acp.v2.methods import SecondMethods, opened_session, view_of
from pattern_acp.domain.errors import ProviderError
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, RpcError
from pattern_acp.providers.base import Route
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.session import Session

ARCHIVED: Mapping[str, bool | None] = {"exclude": False, "include": None, "only": True}
"""The sessions that session/list returns, by its filter."""


class UnstableMethods(SecondMethods):
    """The methods of sessions in version 2, and what a client may ask of them beyond the stable protocol."""

    async def fork(
        self, request: extensions.ForkSessionRequest, context: RequestContext, /
    ) -> schema.NewSessionResponse:
        """session/fork."""
        return self._elsewhere(await self.first.forked(request), context)

    async def open(
        self, request: extensions.OpenSessionRequest, context: RequestContext, /
    ) -> schema.NewSessionResponse:
        """_pattern/session/open: the replay and the state go out before the answer."""
        session = await self.first.opened_as_asked(request)
        await view_of(session).show_state("idle")
        return self._elsewhere(session, context)

    async def list(self, request: schema.ListSessionsRequest, _context: RequestContext, /) -> object:
        """session/list.

        Raises:
            RpcError: the filter is none that we know.
        """
        if request.archived not in {None, *ARCHIVED}:
            raise RpcError(INVALID_PARAMS, f"`archived` takes one of {', '.join(ARCHIVED)}.")
        archived = asks_for_archived(request) if request.archived is None else ARCHIVED[request.archived]
        page = await self.sessions.list(request.cwd, request.cursor, archived=archived)
        return schema.ListSessionsResponse(
            sessions=tuple(
                schema.SessionInfo(**asdict(session_info(one)), archived=one.row.archived) for one in page.rows
            ),
            next_cursor=page.next_cursor,
        )

    async def archive(self, request: v1.SessionRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """session/archive: the session is closed first."""
        await self.sessions.archive(request.session_id, archived=True)
        self.first.forget(request)
        return v1.EmptyResponse()

    async def unarchive(self, request: v1.SessionRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """session/unarchive."""
        await self.sessions.archive(request.session_id, archived=False)
        return v1.EmptyResponse()

    async def status(self, request: v1.SessionRequest, _context: RequestContext, /) -> schema.SessionStatusResponse:
        """session/status: nothing is opened or changed."""
        session = self.sessions.find(request.session_id)
        if session is None:
            listed = await self.sessions.described(request.session_id)
            return schema.SessionStatusResponse(status="saved", meta={"pattern": {"status": listed.status.value}})
        return schema.SessionStatusResponse(status="open", state=view_of(session).foreground())

    async def set_title(
        self, request: schema.SetSessionTitleRequest, _context: RequestContext, /
    ) -> schema.SetSessionTitleResponse:
        """session/set_title."""
        return schema.SetSessionTitleResponse(title=await self.sessions.rename(request.session_id, request.title))

    async def list_providers(self, _request: v1.MetaWire, _context: RequestContext, /) -> schema.ListProvidersResponse:
        """providers/list."""
        return schema.ListProvidersResponse(providers=tuple(map(_provider, self.shared.models.routes())))

    async def set_provider(self, request: schema.SetProviderRequest, _context: RequestContext, /) -> v1.EmptyResponse:
        """providers/set: until the process ends; nothing is stored, and none of the user's keys goes there.

        Raises:
            RpcError: the provider does not speak this protocol, or the address is none.
        """
        route = next((one for one in self.shared.models.routes() if one.name == request.provider_id), None)
        if route is not None and protocol_of(route) != request.api_type:
            raise RpcError(INVALID_PARAMS, f"{route.name} speaks {protocol_of(route)}; send that as `apiType`.")
        if not is_address(request.base_url):
            raise RpcError(INVALID_PARAMS, "`baseUrl` is no http:// or https:// address.")
        with _as_invalid():
            await self.shared.models.set_route(request.provider_id, request.base_url, request.headers)
        self.shared.default_model = self.shared.models.default()
        return v1.EmptyResponse()

    async def disable_provider(
        self, request: schema.ProviderRequestById, _context: RequestContext, /
    ) -> v1.EmptyResponse:
        """providers/disable: until the process ends, or it is set again."""
        with _as_invalid():
            self.shared.models.disable(request.provider_id)
        self.shared.default_model = self.shared.models.default()
        return v1.EmptyResponse()

    async def auth_status(self, _request: v1.MetaWire, _context: RequestContext, /) -> schema.AuthStatusResponse:
        """auth/status, of a client that is not signed out: whether new sessions have a key where they need one."""
        model = self.shared.default_model.qualified
        if key := self.shared.models.key_in_use(model):
            account = schema.AuthAccount(label=f"{model.partition('/')[0]}: {key}", active=True)
            return schema.AuthStatusResponse(state="authenticated", accounts=(account,))
        is_missing = self.shared.models.missing_key(model) or model == OFFLINE_MODEL
        return schema.AuthStatusResponse(state="unauthenticated" if is_missing else "not_required")

    @property
    def shared(self) -> Constellation:
        """The constellation that all sessions share."""
        return self.sessions.constellation

    def _elsewhere(self, session: Session, context: RequestContext) -> schema.NewSessionResponse:
        self.follow(session, context)
        return opened_session(session, session.state.client_id)


PROTOCOLS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "responses": "openai",
    "gemini": "_gemini",
    "vertex": "vertex",
    "bedrock": "bedrock",
}
"""The protocol's names of the APIs that we speak, by our wires and the clouds that host them."""

OFFLINE_MODEL = "offline/offline"
"""The model of sessions that have none."""


def protocol_of(route: Route) -> str:
    """The API of a provider, as the protocol names it."""
    return PROTOCOLS.get(route.host) or PROTOCOLS.get(route.wire) or f"_{route.wire}"


def is_address(url: str) -> bool:
    """Tell whether requests can be sent to a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _provider(route: Route) -> schema.ProviderInfo:
    api = protocol_of(route)
    current = schema.ProviderConfig(api_type=api, base_url=route.base_url) if route.base_url else None
    return schema.ProviderInfo(provider_id=route.name, supported=(api,), required=False, current=current)


@contextmanager
def _as_invalid() -> Generator[None]:
    """Refuse the parameters that name a provider which is not there."""
    try:
        yield
    except ProviderError as error:
        raise RpcError(INVALID_PARAMS, error.sentence) from error
