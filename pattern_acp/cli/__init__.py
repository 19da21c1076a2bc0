"""The commands a user types, and the entry that an editor spawns.

Owns: arguments, the terminal client, the reports. Must not know: how a turn runs; it asks `bootstrap` for a running
agent, or speaks ACP to one like any other client.
"""
