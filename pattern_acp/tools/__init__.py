"""Tools of the model: one module a tool, or a few that belong together.

Owns: each tool's description, argument types and effect over the ports it is handed. Must not know: the turn loop,
ACP, the provider, or how permission is asked; it states what a call would touch and waits to be run.
"""
