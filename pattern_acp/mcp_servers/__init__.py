"""MCP servers: programs and addresses that give the model more tools.

Owns: starting and ending them, their offers and names, and the pinned definitions of their tools. Must not know:
policy, how tools are shown, or who may call them. The `mcp` package is imported only by `connection.py`,
`transports.py` and `listing.py`, which are imported in a worker thread once there is a server.
"""
