"""What keeps a reader from knowing which commands a line runs.

Owns: that question, for a line and the lines inside it. Must not know: modes, grants, paths.
"""

import re

from pattern_acp.policy.command_line import HIDING, CommandLine, Feature, SimpleCommand
from pattern_acp.policy.commands import read_command_line
from pattern_acp.policy.program_tables import EVALUATORS, SHELLS, STARTERS
from pattern_acp.policy.programs import effective_commands, inner_lines, program_name, takes_line

_TEXT_RUNNERS = EVALUATORS - SHELLS - {"env", "xargs", "script", "hyperfine"}
_NOT_A_COMMAND = re.compile(r"-|[A-Za-z_]\w*\+?=|[\d.]+[smhd]?$")


def hidden_features(line: CommandLine, *, windows: bool = False) -> frozenset[Feature]:
    """The features, of the line and of every shell line inside it, that hide what runs; empty when all is seen."""
    commands = [command for command in effective_commands(line, windows=windows) if command.words]
    inner = (read_command_line(text, windows=windows) for text in inner_lines(commands))
    found = line.features.union(*(each.features for each in inner)) & HIDING
    if not line.parse_ok:
        found |= {Feature.UNREADABLE}
    if any(_runs_unknown_text(command) for command in commands):
        found |= {Feature.CHANGING_COMMAND}
    return found


def _runs_unknown_text(command: SimpleCommand) -> bool:
    """Whether what the command is told to run is only known at run time, as in `eval $X` or `env $X`."""
    if not command.changing:
        return False
    name, words = program_name(command.words[0]), command.words
    if name in _TEXT_RUNNERS:
        return True
    first = next((i for i, word in enumerate(words) if i and not _NOT_A_COMMAND.match(word)), None)
    if name in SHELLS:
        return takes_line(words[1:]) or first in command.changing
    return name in STARTERS and first in command.changing
