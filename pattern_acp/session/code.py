"""The code map as one session may use it.

Owns: which sessions have one, and which files it may show. Must not know: what is asked of it.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pattern_acp.domain.access import ReadPath
from pattern_acp.policy.decision import Verdict
from pattern_acp.tools.base import CodeAccess, shown_name

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.state import SessionState

CODE_TOOL = "code_map"
"""The tool that is not offered without a code map."""


def code_of(shared: "Constellation", state: "SessionState") -> CodeAccess | None:
    """The code map, where the session is in a workspace.

    The user's home and the top of the file system are none: they hold everything else, too.
    """
    return None if _holds_everything(state.policy.roots[0]) else shared.code


def may_read(state: "SessionState", path: str) -> bool:
    """True when policy, with the user's answers so far, allows reading an absolute path unasked."""
    from pattern_acp.policy.decide import decide

    policy = state.policy
    decision = decide(
        (ReadPath(shown_name(path)),), mode=policy.mode, roots=policy.roots, grants=policy.grants, rules=policy.rules
    )
    return decision.verdict is Verdict.ALLOW


@cache
def _holds_everything(root: str) -> bool:
    """Asked several times a turn, of the few folders that this process has sessions in."""
    first = Path(root)
    return first in {Path(first.anchor), _home()}


@cache
def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None
