"""Dispatches the command line.

Imports nothing heavy at the top: an editor waits for `serve`, and descriptors are claimed before anything else is
loaded.
"""

import sys
from collections.abc import Sequence

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, EXIT_USAGE, BadUsage, Serve, ShowText, parse_arguments
from pattern_acp.config.settings import Flags


def run(argv: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    arguments = parse_arguments(argv)
    match arguments:
        case Serve(flags):
            return run_serve(flags)
        case ShowText(text):
            sys.stdout.write(text.rstrip("\n") + "\n")
            return EXIT_OK
        case BadUsage(sentence):
            sys.stderr.write(sentence + "\n")
            return EXIT_USAGE
        case _:
            sys.stderr.write("not yet\n")
            return EXIT_ERROR


def run_serve(flags: Flags) -> int:
    """Serve ACP on the standard streams."""
    from pattern_acp.jsonrpc.stdio import claim_standard_streams

    read_fd, write_fd = claim_standard_streams()
    from pattern_acp.bootstrap.process import start_process
    from pattern_acp.bootstrap.serve import serve
    from pattern_acp.config.load import known_secrets, process_environment
    from pattern_acp.config.logs import start_logging

    process = start_process(flags, process_environment())
    settings = process.loaded.settings
    start_logging(process.loaded.paths.state, settings.log_level, known_secrets(settings))
    return serve(process, read_fd, write_fd)
