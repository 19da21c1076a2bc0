"""A server made with the official `mcp` package.

`python -m tests.support.mcp_official_server stdio|http|sse [PORT]`. Over HTTP it takes a free port unless one is
named, and prints it to stdout as its first line.
"""

import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer


def made() -> MCPServer:
    """The server: one tool, one prompt, one resource."""
    server = MCPServer("official", instructions="Adds numbers.")

    @server.tool()
    def add(first: float, second: float) -> float:
        """Add two numbers."""
        return first + second

    @server.prompt()
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Greet {name} politely."

    @server.resource("official://facts")
    def facts() -> str:
        """Facts."""
        return "Two and two are four."

    del add, greet, facts
    return server


async def serve(transport: str, port: int) -> None:
    """Serve over HTTP on a port, 0 for a free one, until the process is ended."""
    server = made()
    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    with socket.create_server(("127.0.0.1", port)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="warning")
        await uvicorn.Server(config).serve([listening])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        made().run("stdio")
    else:
        anyio.run(serve, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
