"""The only package that names concrete classes: it builds a process and owns the order of start and shutdown.

Start: `cli.serving` claims the descriptors and answers a plain initialize before this package is imported (`acp.agent`
answers any other); then the rest is imported in a worker thread and the constellation opened by one task, which also
closes it. Shutdown (invariant 9): turns are cancelled and recorded, children die with them, leases are released,
providers and database close.
"""
