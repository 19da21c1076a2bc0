"""The person's files and processes, as ports with local implementations.

Owns: reading, writing, listing and searching files, running commands, and knowing which path is really meant. Must
not know: ACP, sessions, models, memory or policy; it does what it is told and reports what is.
"""
