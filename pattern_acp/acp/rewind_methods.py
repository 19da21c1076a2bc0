"""`_pattern/checkpoint/*` and `_pattern/session/rewind`: translation to and from the session layer."""

from typing import TYPE_CHECKING

from pattern_acp.acp import schema_extensions as wire
from pattern_acp.acp.updates import iso_time
from pattern_acp.domain.file_states import FileChange
from pattern_acp.jsonrpc.dispatcher import RequestContext
from pattern_acp.session.errors import InvalidRequestError
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import Session

if TYPE_CHECKING:
    from pattern_acp.session.rewind_plan import PlannedFile

MOST_TEXTS = 50
"""Most files of which a preview brings the texts; a line to the client must stay small."""


class RewindMethods:
    """The methods of one connection."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def list(self, request: wire.ListCheckpointsRequest, _context: RequestContext, /) -> object:
        """`_pattern/checkpoint/list`."""
        from pattern_acp.session.rewind_requests import points_of

        points = await points_of(self._sessions.get(request.session_id))
        return wire.ListCheckpointsResponse(
            points=tuple(
                wire.RewindPoint(
                    key=point.key,
                    kind=point.kind,
                    text=point.text,
                    at=iso_time(point.at_ms),
                    files=point.files,
                    message_id=point.message_id or None,
                    checkpoint_id=point.checkpoint_id or None,
                )
                for point in points
            )
        )

    async def preview(self, request: wire.RewindRequest, _context: RequestContext, /) -> object:
        """`_pattern/checkpoint/preview`: nothing is changed."""
        from pattern_acp.session.rewind_requests import preview_rewind

        session = self._sessions.get(request.session_id)
        plan = await preview_rewind(session, request.to)
        return wire.PreviewResponse(
            words=plan.target.words,
            lost=plan.lost,
            regained=plan.regained,
            files=tuple([await _file(session, file, texts=at < MOST_TEXTS) for at, file in enumerate(plan.files)]),
            blocks=tuple(wire.RewindBlock(label=block.label, text=block.sentence) for block in plan.blocks),
            not_kept=plan.left_out,
            fork_behind=plan.target.fork_behind,
        )

    async def restore(self, request: wire.RewindRequest, _context: RequestContext, /) -> object:
        """`_pattern/checkpoint/restore`: everything, unless parts are named."""
        return await self._go(request, ())

    async def rewind(self, request: wire.RewindRequest, _context: RequestContext, /) -> object:
        """`_pattern/session/rewind`: the conversation, unless parts are named."""
        from pattern_acp.session.rewind_points import PARTS

        return await self._go(request, PARTS[:1])

    async def _go(self, request: wire.RewindRequest, parts: tuple[str, ...]) -> wire.RewindResponse:
        from pattern_acp.session.rewind_requests import rewind_for_client
        from pattern_acp.session.rewind_text import refused

        session = self._sessions.get(request.session_id)
        if request.parts == ():
            raise InvalidRequestError("`parts` is empty, so that nothing would go back; name a part, or leave it out.")
        wanted = request.parts or (() if request.to == "undo" else parts)
        plan, done, fork = await rewind_for_client(session, request.to, wanted, overwrite=request.overwrite)
        parts_gone = wanted or plan.target.parts
        has_files = "files" in parts_gone
        return wire.RewindResponse(
            words=plan.target.words,
            lost=plan.lost,
            regained=plan.regained,
            files=done.files,
            kept=tuple(file.path for file in plan.conflicts) if has_files and not request.overwrite else (),
            blocks=done.blocks,
            problems=(*done.problems, *refused(plan, parts_gone)),
            fork_session_id=fork.session_id if fork is not None else None,
        )


async def _file(session: Session, file: "PlannedFile", *, texts: bool) -> wire.RewindFile:
    from pattern_acp.session.rewind_plan import diff_of

    diff = await diff_of(session, FileChange(file.path, file.now, file.then)) if texts and not file.problem else None
    return wire.RewindFile(
        path=file.path,
        kind=file.kind,
        conflict=file.conflict or None,
        problem=file.problem or None,
        old_text=diff.old_text if diff is not None else None,
        new_text=diff.new_text if diff is not None else None,
    )
