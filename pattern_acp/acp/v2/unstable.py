"""The methods of ACP v2 that are not stable yet, each behind its capability (`acp.second_introduction`).

Owns: forks, archives, titles and states of sessions for clients of version 2. Must not know: how any of it is stored.
"""

from collections.abc import Mapping

from msgspec.structs import asdict

from pattern_acp.acp import schema as v1
from pattern_acp.acp import schema_extensions as extensions
from pattern_acp.acp.session_methods import asks_for_archived, session_info
from pattern_acp.acp.v2 import schema
from pattern_acp.acp.v2.methods import SecondMethods, opened_session, view_of
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, RpcError
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
        return schema.SessionStatusResponse(status="open", state=schema.ForegroundState(state=view_of(session).state))

    async def set_title(
        self, request: schema.SetSessionTitleRequest, _context: RequestContext, /
    ) -> schema.SetSessionTitleResponse:
        """session/set_title."""
        return schema.SetSessionTitleResponse(title=await self.sessions.rename(request.session_id, request.title))

    def _elsewhere(self, session: Session, context: RequestContext) -> schema.NewSessionResponse:
        self.follow(session, context)
        return opened_session(session, session.state.client_id)
