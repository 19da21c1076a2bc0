"""Commands whose modules are imported when they are first typed.

Owns: where each is carried out. Must not know: what any of them does. Editors get the list of commands with every
session, and a start that imported all that they need would keep every session waiting (docs/benchmarks.md).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


async def run_code(session: "Session", argument: str) -> str:
    """See `session.code_commands`."""
    from pattern_acp.session.code_commands import run_code as run

    return await run(session, argument)


async def run_handoff(session: "Session", argument: str) -> str:
    """See `session.handoff`."""
    from pattern_acp.session.handoff import run_handoff as run

    return await run(session, argument)


async def run_tools(session: "Session", argument: str) -> str:
    """See `session.tool_form`."""
    from pattern_acp.session.tool_form import run_tools as run

    return await run(session, argument)


async def run_compact(session: "Session", argument: str) -> str:
    """See `session.compact_commands`."""
    from pattern_acp.session.compact_commands import run_compact as run

    return await run(session, argument)


async def run_recall(session: "Session", argument: str) -> str:
    """See `session.recall_command`."""
    from pattern_acp.session.recall_command import run_recall as run

    return await run(session, argument)


async def run_pin(session: "Session", argument: str) -> str:
    """See `session.compact_commands`."""
    from pattern_acp.session.compact_commands import run_pin as run

    return await run(session, argument)


async def run_clear(session: "Session", argument: str) -> str:
    """See `session.conversation_commands`."""
    from pattern_acp.session.conversation_commands import run_clear as run

    return await run(session, argument)


async def run_diff(session: "Session", argument: str) -> str:
    """See `session.conversation_commands`."""
    from pattern_acp.session.conversation_commands import run_diff as run

    return await run(session, argument)


async def run_export(session: "Session", argument: str) -> str:
    """See `session.conversation_commands`."""
    from pattern_acp.session.conversation_commands import run_export as run

    return await run(session, argument)


async def run_memory(session: "Session", argument: str) -> str:
    """See `session.memory_commands`."""
    from pattern_acp.session.memory_commands import run_memory as run

    return await run(session, argument)


async def run_checkpoint(session: "Session", argument: str) -> str:
    """See `session.rewind_commands`."""
    from pattern_acp.session.rewind_commands import run_checkpoint as run

    return await run(session, argument)


async def run_checkpoints(session: "Session", argument: str) -> str:
    """See `session.rewind_commands`."""
    from pattern_acp.session.rewind_commands import run_checkpoints as run

    return await run(session, argument)


async def run_rewind(session: "Session", argument: str) -> str:
    """See `session.rewind_commands`."""
    from pattern_acp.session.rewind_commands import run_rewind as run

    return await run(session, argument)


async def run_archive(session: "Session", argument: str) -> str:
    """See `session.session_commands`."""
    from pattern_acp.session.session_commands import run_archive as run

    return await run(session, argument)


async def run_fork(session: "Session", argument: str) -> str:
    """See `session.session_commands`."""
    from pattern_acp.session.session_commands import run_fork as run

    return await run(session, argument)


async def run_rename(session: "Session", argument: str) -> str:
    """See `session.session_commands`."""
    from pattern_acp.session.session_commands import run_rename as run

    return await run(session, argument)


async def run_search(session: "Session", argument: str) -> str:
    """See `session.session_commands`."""
    from pattern_acp.session.session_commands import run_search as run

    return await run(session, argument)


async def run_undelete(session: "Session", argument: str) -> str:
    """See `session.session_commands`."""
    from pattern_acp.session.session_commands import run_undelete as run

    return await run(session, argument)


async def run_trust(session: "Session", argument: str) -> str:
    """See `session.trust_commands`."""
    from pattern_acp.session.trust_commands import run_trust as run

    return await run(session, argument)


async def run_usage(session: "Session", argument: str) -> str:
    """See `session.usage_commands`."""
    from pattern_acp.session.usage_commands import run_usage as run

    return await run(session, argument)


async def run_budget(session: "Session", argument: str) -> str:
    """See `session.budget_commands`."""
    from pattern_acp.session.budget_commands import run_budget as run

    return await run(session, argument)
