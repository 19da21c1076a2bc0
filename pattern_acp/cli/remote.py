"""`pattern-acp serve` and `connect`: the agent on one machine and the editor on another.

Owns: what is said in the terminal, and where the token is shown, asked for and stored. Must not know: how clients are
served (`bootstrap.remote_server`) or connected (`bootstrap.connector`).
"""

import getpass
import sys
from functools import partial

import anyio

from pattern_acp.bootstrap.client_machine import ClientMachine
from pattern_acp.bootstrap.connector import Connector, Dial, ServerUnusableError, dialler
from pattern_acp.bootstrap.constellation_choice import is_per_project
from pattern_acp.bootstrap.credentials import KeysOfPerson
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.remote_server import (
    AddressUnusableError,
    Admission,
    RemoteServer,
    origin_of,
    parse_address,
    serve_clients,
    tls_context,
)
from pattern_acp.cli.arguments import EXIT_OK, Connect, ServeClients
from pattern_acp.cli.output import write_error, write_line, write_sentence
from pattern_acp.config.keys import TOKEN_VARIABLE
from pattern_acp.config.logs import mask_also
from pattern_acp.credentials.model import Credential, SignInRefusedError
from pattern_acp.credentials.store import SERVER_PREFIX, ServerToken
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import ConfigError
from pattern_acp.jsonrpc.stdio import claim_standard_streams
from pattern_acp.jsonrpc.transport import StdioTransport

USUAL_ADDRESS = "127.0.0.1:8931"


def run_serve_clients(arguments: ServeClients, process: Process) -> int:
    """Serve until interrupted; the exit code.

    Raises:
        PatternError: the address, the certificate, the token's file or the constellation cannot be used.
    """
    token = ServerToken(process.loaded.paths.data)
    if arguments.new_token and not arguments.listen:
        _show(token.make(SystemClock().now_ms()))
        return EXIT_OK
    if is_per_project(process.loaded):
        raise ConfigError(
            "A server has one constellation for all its clients, and [constellation] per_project is set: name the one "
            "to serve with --constellation NAME."
        )
    address = parse_address(arguments.listen or USUAL_ADDRESS)
    if not address.is_of_this_machine and not arguments.allow_remote:
        raise AddressUnusableError(
            f"{arguments.listen} can be reached from other machines; add --allow-remote if that is meant."
        )
    origins = tuple(origin_of(each) for each in arguments.origins)
    context = tls_context(arguments.certificate, arguments.key) if arguments.certificate else None
    if arguments.new_token or not token.exists():
        _show(token.make(SystemClock().now_ms()))
    if not address.is_of_this_machine and context is None:
        write_error("Without --certificate the token and all that is said go over the network as they are.")

    def ready(server: RemoteServer, url: str) -> None:
        del server
        write_sentence(f"Serving at {url}. An editor connects with: pattern-acp connect {url}")

    admission = Admission(token.fits, origins, arguments.local)
    anyio.run(partial(serve_clients, process, address, admission, context=context, ready=ready))
    return EXIT_OK


def _show(token: str) -> None:
    mask_also(token)
    write_sentence("The token of this server, which is shown this once (only a hash of it is stored):")
    write_line(f"\n  {token}\n")
    write_sentence("On a client: pattern-acp connect URL --save-token. A new one: pattern-acp serve --new-token")


def run_connect(arguments: Connect, process: Process) -> int:
    """Connect an editor, or store a token; the exit code.

    Raises:
        PatternError: the URL is none, there is no token, or it cannot be stored.
    """
    dialler(arguments.url, "", arguments.authority)
    name = f"{SERVER_PREFIX}{arguments.url}"
    store = KeysOfPerson(process).store
    if arguments.save_token:
        place = store.save(name, Credential(_read_token()))
        where = "the system's keyring" if place == "keyring" else str(store.path)
        write_sentence(f"The token is stored in {where}. Test it with: pattern-acp connect {arguments.url} < /dev/null")
        return EXIT_OK
    token = process.environ.get(TOKEN_VARIABLE, "").strip()
    if not token:
        stored = store.load(name)
        token = stored.secret if stored is not None else ""
    if not token:
        raise ServerUnusableError(
            f"There is no token for {arguments.url}; run `pattern-acp connect {arguments.url} --save-token`, or set "
            f"{TOKEN_VARIABLE}."
        )
    mask_also(token)
    dial = dialler(arguments.url, token, arguments.authority)
    anyio.run(_connect, dial, ClientMachine(process.environ, process.loaded.paths.cache))
    return EXIT_OK


async def _connect(dial: Dial, machine: ClientMachine) -> None:
    async with StdioTransport(*claim_standard_streams()) as editor:
        await Connector(editor, dial, machine).run()


def _read_token() -> str:
    hidden = sys.stdin.isatty()
    token = (getpass.getpass("Token of the server (it is not shown): ") if hidden else sys.stdin.read(1024)).strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise SignInRefusedError("This is no token: it must be one word of ASCII characters. Nothing was changed.")
    return token
