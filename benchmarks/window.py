"""A conversation of 1,000 turns in a window of 12,000 tokens: does it stay inside, what does it cost, what is found?

Run it with `python benchmarks/window.py [TURNS]`. Every strategy runs with recall, and the default also without.
"""

import sys

import anyio

from tests.support.long_conversation import FACTS, Measured, converse


def _row(name: str, measured: Measured) -> str:
    return (
        f"{name:<24} {measured.turns:>5} turns  {measured.refused:>2} over the window  largest {measured.largest:>6,}  "
        f"{measured.compactions:>4} compactions  {measured.summary_share:>5.1%} of tokens for summaries  "
        f"{measured.found}/{len(FACTS)} facts found  estimate off by {measured.estimate_error:.1%}  "
        f"{measured.seconds:.0f} s"
    )


async def _run(turns: int) -> None:
    print(_row("summarise", await converse(turns)), flush=True)
    print(_row("summarise, no recall", await converse(turns, recall=False)), flush=True)
    print(_row("truncate", await converse(turns, strategy="truncate")), flush=True)
    print(_row("importance", await converse(turns, strategy="importance")), flush=True)
    print(_row("time_decay", await converse(turns, strategy="time_decay")), flush=True)


if __name__ == "__main__":
    anyio.run(_run, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
