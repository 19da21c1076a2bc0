"""The client's side of a WebSocket, where the server is none or goes away."""

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from pattern_acp.jsonrpc.transport import ConnectionClosedError
from pattern_acp.jsonrpc.websocket import HandshakeRefusedError, dial


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"", ConnectionClosedError), (b"SSH-2.0-OpenSSH_9.6\r\n", HandshakeRefusedError)],
    ids=["a server that ends", "a server of another kind"],
)
async def test_a_server_that_ends_within_the_handshake_is_tried_again_and_one_of_another_kind_is_not(
    answer: bytes, error: type[Exception]
):
    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            if answer:
                await stream.send(answer)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610  no database
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with pytest.raises(error):
            await dial(await anyio.connect_tcp("127.0.0.1", port), f"ws://127.0.0.1:{port}/acp", {})
        tasks.cancel_scope.cancel()
