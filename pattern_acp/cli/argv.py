"""Reading a command line with click, from the same rows as slash commands.

Owns: the options that every command takes, help, and the sentence about a line that means nothing. Must not know: what
a command does. Nothing on the way of `pattern-acp acp` imports it (cli/serving.py).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

import click
from msgspec import convert
from msgspec.structs import replace

from pattern_acp import __version__
from pattern_acp.cli.arguments import (
    Arguments,
    Auth,
    BackUp,
    BadUsage,
    Chat,
    ConfigWanted,
    Connect,
    Doctor,
    Explain,
    Journal,
    Mcp,
    ModelsWanted,
    Policy,
    Restore,
    Serve,
    ServeClients,
    Setup,
    ShowText,
    Sweep,
    Tour,
)
from pattern_acp.cli.command_table import GROUPS, seconds_of
from pattern_acp.commands.parameters import (
    HERE,
    PROGRAM,
    Command,
    CommandMisusedError,
    Group,
    Kind,
    Parameter,
    TypedCommand,
    Value,
    read_values,
)
from pattern_acp.config.keys import KEYS, Key
from pattern_acp.config.settings import Flags
from pattern_acp.config.toml_file import MODEL, choices_of

_Meant = TypeVar("_Meant")

WIDTH = 100
"""Columns of help at most."""


class HelpShown(Exception):  # noqa: N818 - no fault: help was asked for
    """Carries help, or the version, out of click, which would print it."""


def _flag(key: Key) -> Parameter:
    about = f"{key.summary[0].lower()}{key.summary[1:-1]}"
    choices = choices_of(key.rule)
    metavar = "" if choices else "PROVIDER/MODEL" if key.rule is MODEL else "NAME"
    return Parameter(_field_of(key), about, metavar=metavar, option=key.flag, choices=choices)


def _field_of(key: Key) -> str:
    """The field of `Flags` that the flag of a setting fills."""
    return key.flag.removeprefix("--").replace("-", "_")


SETTINGS = tuple(_flag(key) for key in KEYS if key.flag and key.name != "budget.turn")
"""Flags that every command takes."""


ABOUT = "An agent for editors that speak ACP. Without a command it serves ACP on stdin and stdout."

MORE = (
    "Settings also come from PATTERN_ACP_MODEL, PATTERN_ACP_MODE, PATTERN_ACP_THINKING, PATTERN_ACP_CONSTELLATION, "
    "PATTERN_ACP_HOME, PATTERN_ACP_LOG and config.toml; 'pattern-acp doctor' shows each value and where it came from."
)


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Parse a command line, without the program's name."""
    try:
        called = _main().main(list(argv), PROGRAM, standalone_mode=False, max_content_width=WIDTH)
    except HelpShown as shown:
        return ShowText(str(shown))
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else PROGRAM
        return BadUsage(_sentence(error.format_message(), where))
    assert isinstance(called, TypedCommand)  # noqa: S101  every command of ours returns one
    return _MEANINGS.get(called.group, _same)(called)


def _same(call: TypedCommand) -> TypedCommand:
    return call


def _meaning(kind: type[_Meant], **renamed: str) -> Callable[[TypedCommand], _Meant]:
    """A command's value from a call: its fields are the parameters' names; what is empty is left to its default."""

    def of(call: TypedCommand) -> _Meant:
        given: dict[str, object] = {**call.shared, **call.values, "flags": call.flags, "action": call.command}
        fields = {name: value for name, value in given.items() if value is not False and value not in (None, "", ())}
        fields |= {there: False for there, here in renamed.items() if here in fields}
        return convert(fields, kind)

    return of


def _chat(call: TypedCommand) -> Chat:
    answer = "allow" if call.values["yes"] else "deny" if call.values["deny"] else "ask"
    seconds = seconds_of(str(call.values["timeout"]))
    return replace(_meaning(Chat)(call), answer=answer, timeout_seconds=seconds)


_MEANINGS: "dict[str, Callable[[TypedCommand], Arguments]]" = {
    "": lambda call: Serve(call.flags),
    "acp": lambda call: Serve(call.flags),
    "chat": _chat,
    "journal": _meaning(Journal, follow="no_follow"),
    "auth": _meaning(Auth, browser="no_browser"),
    "mcp": _meaning(Mcp, browser="no_browser"),
    "policy": _meaning(Policy),
    "models": _meaning(ModelsWanted),
    "backup": _meaning(BackUp),
    "restore": _meaning(Restore),
    "gc": _meaning(Sweep),
    "explain": _meaning(Explain),
    "config": _meaning(ConfigWanted),
    "doctor": _meaning(Doctor),
    "setup": _meaning(Setup),
    "tour": _meaning(Tour),
    "serve": _meaning(ServeClients),
    "connect": _meaning(Connect),
}
"""The meaning of each command's call; a command that is not here is its own meaning."""


def _main() -> click.Group:
    acp = Parameter("acp", "serve ACP, as without any argument", Kind.FLAG, option="--acp")
    json = Parameter("json", "print JSON, of commands that have it", Kind.FLAG, option="--json")

    @click.pass_context
    def serve(ctx: click.Context, **_: object) -> TypedCommand | None:
        if ctx.invoked_subcommand is None:
            if ctx.params.get("json"):
                raise click.UsageError("--json needs a command.", ctx)
            return TypedCommand("", flags=_flags(_given(ctx)))
        if ctx.params.get("acp") and ctx.invoked_subcommand != "acp":
            raise click.UsageError(f"--acp and {ctx.invoked_subcommand} are two commands; give one of them.", ctx)
        return None

    made = _Verbs(
        PROGRAM,
        params=_options((acp, json, *SETTINGS)),
        help=ABOUT,
        epilog=MORE,
        invoke_without_command=True,
        add_help_option=False,
        callback=serve,
    )
    made.makers = {one.name: partial(_group, one) for one in GROUPS}
    made.usage = "[COMMAND] [ARGUMENT ...]"
    return made


def _sentence(problem: str, where: str) -> str:
    one_line = " ".join(problem.split()).removesuffix(".")
    one_line = re.sub(r"\.? \(?Did you mean (.*?)\?\)?$", r", perhaps you mean \1", one_line)
    return f"{PROGRAM}: {one_line[:1].lower()}{one_line[1:]}; see {where} --help"


class _Command(click.Command):
    """A command whose help also says what its words mean."""

    usage = ""
    words: tuple[tuple[str, str], ...] = ()

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """The row knows them."""
        del ctx
        return ["[OPTIONS]", *([self.usage] if self.usage else [])]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Words first, then options, then settings."""
        if self.words:
            with formatter.section("Arguments"):
                formatter.write_dl(self.words)
        settings = {one.option for one in SETTINGS}
        records = [(one, one.get_help_record(ctx)) for one in self.get_params(ctx) if isinstance(one, click.Option)]
        for title, is_setting in (("Options", False), ("Settings", True)):
            shown = [record for one, record in records if record and bool(settings & {*one.opts}) is is_setting]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


class _Verbs(click.Group, _Command):
    """A group whose default verb takes the words that name none, and whose verbs are made when they are asked for.

    All of them together cost more than most commands themselves.
    """

    makers: Mapping[str, Callable[[], click.Command]] = {}
    default = ""
    takes_words = False
    unknown = ""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of their rows."""
        del ctx
        return list(self.makers)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make a verb, or return the one that was made."""
        del ctx
        if cmd_name not in self.commands and cmd_name in self.makers:
            self.commands[cmd_name] = self.makers[cmd_name]()
        return self.commands.get(cmd_name)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Without click's own word for verbs."""
        return _Command.collect_usage_pieces(self, ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs behind the options."""
        _Command.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> "tuple[str | None, click.Command | None, list[str]]":
        """The verb, else the default one with all words."""
        if self.takes_words and args[0] not in self.makers:
            return self.default, self.get_command(ctx, self.default), args
        if self.unknown and args[0] not in self.makers:
            raise click.UsageError(self.unknown, ctx)
        if args[0] not in self.makers:
            # The sentence about it offers names like it.
            self.commands = {name: make() for name, make in self.makers.items()}
        return super().resolve_command(ctx, args)


def _group(group: Group) -> click.Command:
    if len(group.commands) == 1 and not group.commands[0].name:
        return _command(group, group.commands[0])
    verbs = {one.name: one for one in group.commands if one.only != "slash"}
    made = _Verbs(
        group.name,
        params=_options((*group.shared, *_own(group, group.default), *SETTINGS)),
        help=group.description,
        short_help=group.summary,
        invoke_without_command=True,
        add_help_option=False,
    )
    made.makers = {name: partial(_command, group, one) for name, one in verbs.items()}
    made.default = group.default
    made.usage = group.words
    made.unknown = group.unknown
    taken = verbs[group.default].taken("terminal") if group.default in verbs else ()
    made.takes_words = any(not one.option for one in taken) and not group.unknown

    @click.pass_context
    def call_default(ctx: click.Context, **_: object) -> TypedCommand | None:
        if ctx.invoked_subcommand is not None:
            return None
        default = made.get_command(ctx, group.default)
        if default is None:
            raise click.UsageError(f"{group.name} needs one of {', '.join(verbs)}.", ctx)
        with default.make_context(group.default, [], ctx) as inner:
            return default.invoke(inner)

    made.callback = call_default
    return made


def _own(group: Group, verb: str) -> tuple[Parameter, ...]:
    """The options of a verb that may be left out, which then follow the group's name."""
    taken = next((one.taken("terminal") for one in group.commands if one.name == verb), ())
    return tuple(one for one in taken if one.option)


def _command(group: Group, command: Command) -> click.Command:
    taken = command.taken("terminal")
    positional = tuple(one for one in taken if not one.option)
    also = tuple(Parameter(one.name, one.help, metavar="TEXT", option=one.also) for one in positional if one.also)
    own = (*(one for one in taken if one.option), *also)

    @click.pass_context
    def call(ctx: click.Context, typed_words: tuple[str, ...], **_: object) -> TypedCommand:
        given = _given(ctx)
        found = {one.name: [_unescaped(one, text) for text in _texts(given.get(one.name))] for one in own}
        typed = f"{group.name} {command.name}".rstrip()
        known = {one.name for one in (*own, *group.shared)}
        if given.get("json") and "json" not in known:
            raise click.UsageError(f"{typed} has no --json.", ctx)
        for one in _own(group, group.default):
            if given.get(one.name) and one.name not in known:
                raise click.UsageError(f"{one.option} belongs to {group.name} {group.default}, not to {typed}.", ctx)
        try:
            values = read_values(command, typed_words, found, place="terminal", typed=typed)
        except CommandMisusedError as error:
            raise click.UsageError(error.sentence.replace("/memory ", f"{PROGRAM} memory "), ctx) from error
        shared: dict[str, Value] = {one.name: _value(one, given.get(one.name)) for one in group.shared}
        return TypedCommand(group.name, command.name, values, shared, _flags(given))

    made = _Command(
        command.name or group.name,
        callback=call,
        params=[
            *_options(own),
            *_options((*group.shared, *SETTINGS)),
            click.Argument(["typed_words"], nargs=-1, type=click.UNPROCESSED),
        ],
        help=group.description if not command.name else f"{command.description}.",
        short_help=group.summary if not command.name else command.description,
        add_help_option=False,
    )
    made.usage = group.words if not command.name else (command.hint or command.usage_in("terminal").strip())
    made.words = tuple((one.shown, one.help) for one in positional)
    return made


def _given(ctx: click.Context) -> dict[str, Any]:
    """Collect the parameters of the command and of the commands that it is in."""
    given: dict[str, Any] = {}
    each: click.Context | None = ctx
    while each is not None:
        given = {**{name: value for name, value in each.params.items() if value}, **given}
        each = each.parent
    return given


def _texts(value: object) -> Sequence[str]:
    if isinstance(value, tuple):
        return [str(one) for one in cast("tuple[object, ...]", value)]
    return [] if value in (None, False) else ["yes" if value is True else str(value)]


def _unescaped(one: Parameter, text: str) -> str:
    """With line ends, where they are typed as two characters; a doubled backslash is one, every other stays."""
    return re.sub(r"\\([n\\])", lambda found: "\n" if found[1] == "n" else "\\", text) if one.lines else text


def _value(one: Parameter, value: object) -> Value:
    if one.kind is Kind.FLAG:
        return bool(value)
    return str(value or "")


def _flags(given: Mapping[str, Any]) -> Flags:
    for key in KEYS:
        value = given.get(_field_of(key)) if key.flag else None
        if value is not None and key.rule.check(value) is None:
            # A value typed a moment ago is refused; one from a file or variable only falls back (config/load.py).
            raise click.UsageError(f"{key.flag} must be {key.rule.allowed}.")
    return convert({name: given[name] for name in Flags.__struct_fields__ if name in given}, Flags)


def _options(parameters: Sequence[Parameter]) -> list[click.Parameter]:
    made: list[click.Parameter] = [_option(one) for one in parameters]
    if SETTINGS[0] in parameters:
        made.append(_showing("-V", "--version", "print the version", lambda _: f"{PROGRAM} {__version__}"))
        made.append(_showing("-h", "--help", "show this help", lambda ctx: ctx.get_help()))
    return made


def _showing(short: str, long: str, about: str, text: "Callable[[click.Context], str]") -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001  click's form
        if value:
            raise HelpShown(text(ctx))

    return click.Option([short, long], is_flag=True, is_eager=True, expose_value=False, callback=show, help=about)


def _option(one: Parameter) -> click.Option:
    names = [*one.option.split(), one.name]
    if one.kind is Kind.FLAG:
        return click.Option(names, is_flag=True, help=one.help)
    if one.kind is Kind.PAGE:
        return click.Option(names, is_flag=False, flag_value=HERE, metavar=f"[{one.metavar}]", help=one.help)
    kind = click.Choice(one.choices) if one.choices else None
    metavar = None if one.choices else one.metavar or one.name.upper()
    return click.Option(names, type=kind, metavar=metavar, multiple=one.kind is Kind.MANY, help=one.help)
