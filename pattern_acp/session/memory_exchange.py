"""Memory and its files, for sessions that keep memory as files.

Owns: whether there is anything to do. Must not know: how it is done (`session.memory_files`), which is imported only
where a person has asked for files.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


async def exchange_files(session: "Session") -> None:
    """See `memory_files.exchange_files`."""
    if session.state.settings.memory.files:
        from pattern_acp.session import memory_files

        await memory_files.exchange_files(session)


async def write_files(session: "Session") -> None:
    """See `memory_files.write_files`."""
    if session.state.settings.memory.files:
        from pattern_acp.session import memory_files

        await memory_files.write_files(session)
