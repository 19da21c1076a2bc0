"""The user's files and processes, as ports with local implementations.

Owns: reading, writing, listing and searching files, running commands, and resolving paths. Must not know: ACP,
sessions, models, memory or policy.
"""
