"""Our own time in a later turn of two model calls and one file read through the editor.

The server's service time and the time the editor took to answer are subtracted from the time between the prompt and
its answer. "Later" means: the first turn of the session, which imports and connects, is not counted.

Whether turns stay as quick as the conversation grows: `--grown 1000 --lines 10` first runs so many turns in one agent,
and then compares its turns with those of a fresh one, in alternation, so that both meet the same load. The model's
window is set so wide that nothing is compacted.
"""

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from agent_process import AgentProcess
from measuring import Row, expect, milliseconds, print_table
from wire_server import WireServer, wire_answers

from pattern_acp.providers.scripted import ScriptStep

OWN_SECONDS = 0.025

MOST_GROWTH = 1.1

BEGUN = 10
"""Turns until a session runs as it does later."""

WINDOW = 10_000_000
"""Tokens of the model's window where turns of a long conversation are measured."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--lines", type=int, default=200, help="of the file, which the history gets with every turn")
    parser.add_argument("--chunk", type=int, default=0, help="characters in one text delta (default: all)")
    parser.add_argument("--grown", type=int, default=0, help="turns of the session that a fresh one is compared with")
    options = parser.parse_args()
    rounds, lines, chunk, grown = int(options.rounds), int(options.lines), int(options.chunk), int(options.grown)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        if grown:
            print_table("Turns of a long conversation", compare(Path(name), rounds, lines, chunk, grown))
        else:
            print_table("A later turn: two model calls, one file read", measure(Path(name), rounds, lines, chunk))


class Reader:
    """An agent with a session whose every turn reads the file, and the server of its model."""

    def __init__(self, folder: Path, lines: int, chunk: int, turns: int) -> None:
        """`turns` are the most that it will run: each has calls with ids of its own."""
        self.own: list[float] = []
        self.cpu: list[float] = []
        self._home, self._project = folder / "home", folder / "project"
        self._project.mkdir(parents=True)
        path = self._project / "notes.txt"
        path.write_text("One line of text.\n" * lines, encoding="utf-8")
        self._files = {str(path): path.read_text(encoding="utf-8")}
        self._home.mkdir()
        wide = f'[models."anthropic/test-model"]\ncontext_window = {WINDOW}\n'
        (self._home / "config.toml").write_text(wide, encoding="utf-8")
        arguments = f'{{"path":"{path}"}}'
        turn = [
            [ScriptStep(text="I will read the file."), ScriptStep(tool="read_file", arguments=arguments)],
            [ScriptStep(text="It holds two hundred lines of text. " * 10)],
        ]
        self._calls = len(turn)
        self._server = WireServer(wire_answers(turn * turns, chunk))

    def __enter__(self) -> "Reader":
        with ExitStack() as stack:
            stack.enter_context(self._server)
            self._agent = stack.enter_context(
                AgentProcess(self._home, environment=self._server.environment(), files=self._files)
            )
            self._agent.initialize()
            self._session_id = self._agent.new_session(self._project)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, turns: int) -> None:
        """Run turns that are not measured."""
        for _ in range(turns):
            self._agent.prompt(self._session_id, "Read the notes.")

    def measure_turn(self) -> None:
        agent, server = self._agent, self._server
        served, answering, cpu_before = len(server.served), agent.answering, agent.cpu
        began = time.perf_counter()
        agent.prompt(self._session_id, "Read the notes again.")
        took = time.perf_counter() - began
        expect(len(server.served) - served == self._calls, "a turn did not ask the model twice")
        expect(agent.answering > answering, "a turn did not read the file")
        service = sum(each.seconds for each in server.served[served:])
        self.own.append(milliseconds(took - service - (agent.answering - answering)))
        self.cpu.append(milliseconds(agent.cpu - cpu_before))


def measure(folder: Path, rounds: int, lines: int, chunk: int) -> list[Row]:
    with Reader(folder, lines, chunk, rounds + 1) as reader:
        reader.run(1)
        for _ in range(rounds):
            reader.measure_turn()
    limit = milliseconds(OWN_SECONDS)
    return [
        Row("our own time a turn", reader.own, "ms", f"<= {limit:.0f}", limit),
        Row("processor time a turn", reader.cpu, "ms"),
    ]


def compare(folder: Path, rounds: int, lines: int, chunk: int, grown: int) -> list[Row]:
    """The turns of a session after `grown` ones beside the turns of another one after its tenth."""
    with (
        Reader(folder / "old", lines, chunk, grown + rounds) as old,
        Reader(folder / "fresh", lines, chunk, BEGUN + rounds) as fresh,
    ):
        old.run(grown)
        fresh.run(BEGUN)
        for _ in range(rounds):
            old.measure_turn()
            fresh.measure_turn()
    growth = statistics.median(old.cpu) / statistics.median(fresh.cpu)
    return [
        Row(f"own time, turns from {grown:,} on", old.own, "ms"),
        Row(f"own time, turns from {BEGUN} on", fresh.own, "ms"),
        Row(f"processor time, turns from {grown:,} on", old.cpu, "ms"),
        Row(f"processor time, turns from {BEGUN} on", fresh.cpu, "ms"),
        Row("processor time, late beside early, medians", [growth], "times", f"<= {MOST_GROWTH}", MOST_GROWTH),
    ]


if __name__ == "__main__":
    main()
