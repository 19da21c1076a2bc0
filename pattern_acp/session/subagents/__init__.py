"""Subagents: runs with a context of their own, each for one call of delegate.

Owns: what a subagent may use, its thread in the journal, what is shown of it, and what it gives back. Must not know:
any wire.
"""
