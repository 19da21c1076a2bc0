"""`pattern-acp memory`: looking at memory and its history, and changing it, from the terminal.

Owns: what a person sees and types. Must not know: how memory is stored.
"""

from pattern_acp.cli.memory.command import run_memory

__all__ = ["run_memory"]
