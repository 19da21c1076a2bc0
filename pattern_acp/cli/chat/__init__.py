"""`pattern-acp chat`: a client of our own agent, in a terminal.

Two threads share the work. The main one owns the terminal: it draws, reads keys and takes Ctrl-C. The other runs the
event loop: the agent process, the connection, files and terminals. They meet in an inbox of happenings (events.py).
The package speaks to the agent through ACP alone, with our own dispatcher and wire structs, and must not know how it
works.

Exit codes: 0 when the turn ended well; 1 on an error, or a limit that cut the turn; 3 when a refusal stopped the work;
124 when its time was up; 130 when the turn was cancelled.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pattern_acp.bootstrap.process import Process
    from pattern_acp.cli.arguments import Chat


def run_chat(arguments: "Chat", process: "Process") -> int:
    """Run `pattern-acp chat`; the exit code."""
    from pattern_acp.cli.chat.run import run

    return run(arguments, process)
