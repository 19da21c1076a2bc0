"""A Werkzeug server that runs in a thread for as long as a test needs it.

Owns: its start and its end. Must not know: what is served.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from werkzeug.serving import BaseWSGIServer


@contextmanager
def in_thread(server: BaseWSGIServer) -> Generator[None]:
    """Serve until the context ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
