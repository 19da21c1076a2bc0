"""MCP servers: programs and addresses that give the model more tools.

Owns: starting and ending them, what they offer, their names, and what was pinned of their tools. Must not know:
policy, how tools are shown, or who may call them. The `mcp` package is imported only by `connection.py`,
`transports.py`, `refusals.py` and `listing.py`, which are imported in a worker thread once there is a
server.
"""
