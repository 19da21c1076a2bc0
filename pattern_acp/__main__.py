"""`python -m pattern_acp` and the `pattern-acp` command."""

import sys


def main() -> int:
    """Run the command line; the exit code."""
    from pattern_acp.cli.serving import SERVE_PLAINLY, run_serve

    if sys.argv[1:] in SERVE_PLAINLY:
        return run_serve()
    from pattern_acp.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
