"""`pattern-acp mcp`: sign in at an MCP server over HTTP, show list logins, forget one. It never shows one."""

from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from pattern_acp.bootstrap.credentials import StoredLogins
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Mcp
from pattern_acp.cli.auth import PASTE, PastedLines
from pattern_acp.cli.command_runner import show_answer
from pattern_acp.cli.output import write_failure, write_line
from pattern_acp.commands.document import Paragraph, Table, as_result, columns
from pattern_acp.config.providers import show_url
from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import local_minute, utc_second
from pattern_acp.mcp_servers.catalogue import LOGIN_PREFIX, can_login, login_key


def run_mcp(arguments: Mcp, process: Process) -> int:
    """Carry it out; 1 when it did not work.

    Raises:
        PatternError: the logins cannot be used, or the sign-in failed.
    """
    return anyio.run(_run, arguments, process)


async def _run(arguments: Mcp, process: Process) -> int:
    logins = StoredLogins(process, in_file=arguments.in_file, browser=arguments.browser)
    logins.store.check()
    servers = {
        name: server
        for name, server in process.loaded.settings.mcp_servers.items()
        if server.transport in {"http", "sse"}
    }
    if arguments.action == "status":
        return _status(servers, logins, process, as_json=arguments.json)
    server = servers.get(arguments.server) or _by_address(arguments.server)
    if server is None:
        names = ", ".join(sorted(servers))
        known = f"servers over HTTP of config.toml are {names}" if servers else "config.toml has none"
        sentence = f"pattern-acp: there is no MCP server {arguments.server!r} that a login is for; {known}."
        write_failure("cli.usage", f"{sentence} An address serves as well.")
        return EXIT_ERROR
    if arguments.action == "logout":
        return await _logout(server, logins)
    return await _login(server, logins)


def _by_address(text: str) -> McpServerSettings | None:
    """The server at an address, which nothing of the settings names."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
    return McpServerSettings(show_url(text.partition("?")[0]), "http", url=text) if is_address else None


async def _login(server: McpServerSettings, logins: StoredLogins) -> int:
    if not can_login(server):
        write_failure(
            "cli.usage",
            f"pattern-acp: {server.name} has an Authorization header in config.toml, which is used; take it out first.",
        )
        return EXIT_ERROR
    # Late: the `mcp` package takes 0.7 s to import.
    from pattern_acp.mcp_servers.sign_in import sign_in

    async def show(url: str) -> None:
        write_line(f"Sign in at {server.name} in your browser:\n\n  {url}\n\n{PASTE}")

    await sign_in(server, logins, show, pasted=PastedLines().next)
    entry = logins.store.entries().get(login_key(server.url))
    where = str(logins.store.path) if entry is not None and entry.place == "file" else "the system's keyring"
    write_line(f"Signed in at {server.name}; it is stored in {where}.")
    return EXIT_OK


async def _logout(server: McpServerSettings, logins: StoredLogins) -> int:
    was_there = await anyio.to_thread.run_sync(logins.store.delete, login_key(server.url))
    write_line(f"Signed out of {server.name}." if was_there else f"There is no login at {server.name}.")
    return EXIT_OK


def _status(servers: dict[str, McpServerSettings], logins: StoredLogins, process: Process, *, as_json: bool) -> int:
    entries = {key: entry for key, entry in logins.store.entries().items() if key.startswith(LOGIN_PREFIX)}
    named = {login_key(server.url): name for name, server in servers.items()}
    rows: list[dict[str, Json]] = []
    expiries: list[str] = []
    for key in (*named, *(key for key in entries if key not in named)):
        entry = entries.get(key)
        ends_ms = (entry.expires_at_ms or 0) if entry is not None else 0
        expiries.append(local_minute(ends_ms) if ends_ms else "")
        rows.append(
            {
                "server": named.get(key, ""),
                "url": key.removeprefix(LOGIN_PREFIX).partition("#")[0],
                "login": entry is not None,
                "keptIn": entry.place if entry is not None else None,
                "expiresAt": utc_second(ends_ms) if ends_ms else None,
            }
        )
    cells = tuple(
        (
            str(row["server"]),
            str(row["url"]),
            "yes" if row["login"] else "no",
            str(row["keptIn"] or ""),
            ends,
        )
        for row, ends in zip(rows, expiries, strict=True)
    )
    nothing = Paragraph("config.toml has no MCP server over HTTP, and there is no login at any.")
    shown = Table(columns("Server", "Address", "Login", "From", "Expires"), cells) if rows else nothing
    return show_answer(as_result(shown, facts=rows), process, as_json=as_json)
