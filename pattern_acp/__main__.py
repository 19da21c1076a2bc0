"""`python -m pattern_acp` and the `pattern-acp` command."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # `-m` puts the current folder first: a cloned repository with an `anyio.py` would run.
    del sys.path[0]


def main() -> int:
    """Run the command line; the exit code."""
    from pattern_acp.cli.serving import SERVE_PLAINLY, run_serve

    if sys.argv[1:] in SERVE_PLAINLY:
        return run_serve()
    from pattern_acp.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
