"""An MCP server that a client offers over its own connection (`mcp/message`): it serves the text of open files."""

import json
from pathlib import Path
from typing import cast

import msgspec

from pattern_acp.jsonrpc.dispatcher import RequestContext, RequestHandler
from pattern_acp.jsonrpc.messages import RpcError
from tests.support.editor import JsonDict

FILES = "files-1"
"""The server's id."""

PASSED: JsonDict = {"type": "acp", "name": "editor", "serverId": FILES}
"""The server as session/new names it."""

PATH: JsonDict = {"type": "string"}


def file_tool(name: str, *arguments: str, **more: object) -> JsonDict:
    """A tool that takes these texts."""
    schema = {"type": "object", "properties": dict.fromkeys(arguments, PATH), "required": list(arguments)}
    return {"name": name, "description": name, "inputSchema": schema, **more}


BY_META = (
    file_tool("open_text", "path", _meta={"pattern": {"files": "read"}}),
    file_tool("save_text", "path", "content", _meta={"pattern": {"files": "write"}}),
)
BY_NAME = (
    file_tool("fs/read_text_file", "path", annotations={"readOnlyHint": True}),
    file_tool("fs/write_text_file", "path", "content", annotations={"readOnlyHint": False}),
)


class ClientServer:
    """The server: buffers over the disk, and everything that was asked of it."""

    def __init__(self, *tools: JsonDict) -> None:
        self.tools = (*tools, file_tool("look_around"))
        self.buffers: dict[str, str] = {}
        self.asked: list[tuple[str, JsonDict]] = []
        self.is_gone = False

    def handlers(self) -> dict[str, RequestHandler]:
        """For `FakeEditor`."""
        return {"mcp/message": self._answer}

    async def _answer(self, raw: msgspec.Raw, context: RequestContext) -> JsonDict:
        del context
        params = cast("JsonDict", json.loads(bytes(raw)))
        if self.is_gone or params["serverId"] != FILES:
            raise RpcError(-33001, "MCP server registration unavailable")
        self.asked.append((params["method"], params.get("params", {})))
        return self._outcome(params["method"], params.get("params", {}))

    def _outcome(self, method: str, params: JsonDict) -> JsonDict:
        if "io.modelcontextprotocol/protocolVersion" not in params.get("_meta", {}):
            return {"error": {"code": -32602, "message": "Invalid params: no version"}}
        kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match method:
            case "server/discover":
                about = {"name": "editor", "version": "1"}
                offered: JsonDict = {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "serverInfo": about,
                }
                return {"result": {**kept, **offered}}
            case "tools/list":
                return {"result": {**kept, "tools": list(self.tools)}}
            case "tools/call":
                return {"result": {"resultType": "complete", **self._call(params["name"], params["arguments"])}}
            case _:
                return {"error": {"code": -32601, "message": f"There is no {method}."}}

    def _call(self, name: str, arguments: JsonDict) -> JsonDict:
        path = Path(arguments["path"])
        if "content" in arguments:
            self.buffers[str(path)] = arguments["content"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(arguments["content"], encoding="utf-8", newline="")
            return {"content": []}
        if str(path) in self.buffers:
            return {"content": [{"type": "text", "text": self.buffers[str(path)]}]}
        if path.exists():
            return {"content": [{"type": "text", "text": path.read_text(encoding="utf-8")}]}
        return {"content": [{"type": "text", "text": f"{name}: no such file"}], "isError": True}
