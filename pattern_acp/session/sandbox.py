"""The sandbox of one session: what confines its commands, and the limits of the next one.

Owns: what the user's setting, this machine and the session's folders come to. Must not know: how a profile is applied.
"""

import os
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import PolicySettings
from pattern_acp.policy.decision import NO_NETWORK, NO_SANDBOX, SANDBOX_REQUIRED
from pattern_acp.policy.sandbox import session_profile
from pattern_acp.processes.confinement import Profile

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.state import SessionState

ELSEWHERE = (
    "The folders of this session are not on this machine, so nothing confines commands in the editor's terminal."
)


class SandboxState(Struct, frozen=True):
    """The sandbox of a session: its name as policy knows it, and what is wrong with it in a sentence."""

    name: str = ""
    problem: str = ""


async def sandbox_of(shared: "Constellation", state: "SessionState") -> SandboxState:
    """The sandbox in which commands of `session` run unasked, and its name for decisions (`policy.decide`)."""
    setting, means = state.settings.policy.sandbox, shared.sandboxing
    if setting == "off" or means is None:
        return SandboxState()
    found = await means.confinement.find()
    problem = found.problem
    # Not in a thread: it takes a few microseconds, and a turn has just read what the folder brings.
    if found.name and not os.path.isdir(state.cwd):  # noqa: ASYNC240, PTH112
        found, problem = replace(found, name=""), ELSEWHERE
    return SandboxState(sandbox_name(state.settings.policy, found.name), problem)


def sandbox_name(policy: PolicySettings, found: str) -> str:
    """The name by which decisions know a sandbox; `found` is what confines on this machine, empty for nothing."""
    if not found:
        return SANDBOX_REQUIRED if policy.sandbox == "require" else NO_SANDBOX
    return f"{found}, {'the network of the machine' if policy.sandbox_network == 'host' else NO_NETWORK}"


async def sandbox_summary(shared: "Constellation", state: "SessionState") -> str:
    """Name of what confines commands of `session` that run unasked, or why nothing does, for `/status`."""
    if state.settings.policy.sandbox == "off":
        return "off"
    found = await sandbox_of(shared, state)
    confines = found.name not in {"", NO_SANDBOX, SANDBOX_REQUIRED}
    return ". ".join(part for part in (found.name if confines else "none", found.problem) if part)


async def note_sandbox(shared: "Constellation", state: "SessionState") -> None:
    """Let the session's next decisions know its sandbox."""
    state.policy.sandbox = (await sandbox_of(shared, state)).name


async def profile_of(
    shared: "Constellation", state: "SessionState", *, roots: tuple[str, ...] | None = None
) -> Profile:
    """The limits of a command that is to run now: they follow what is on the disk.

    `roots` are the folders that it may write, the session's own unless others are named.

    Raises:
        OSError: the folder for temporary files cannot be made.
    """
    means = shared.sandboxing
    if means is None:
        raise OSError("nothing can confine commands here")
    settings = state.settings.policy
    network = settings.sandbox_network == "host"
    joined = "" if network else await to_thread.run_sync(means.confinement.hold, state.session_id)
    temporary = await to_thread.run_sync(means.confinement.temporary_folder, state.session_id)
    make = partial(
        session_profile,
        roots or state.policy.roots,
        replace(means.folders, writable=settings.sandbox_writable),
        means.environment,
        temporary=temporary,
        network=network,
    )
    return replace(await to_thread.run_sync(make), joined=joined)
