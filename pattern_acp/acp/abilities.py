"""What the client promised, as the rest of the program needs it."""

from pattern_acp.acp import schema
from pattern_acp.acp.updates import Abilities
from pattern_acp.session.ports import ClientDescription


def abilities_of(client: schema.ClientCapabilities) -> Abilities:
    """What the client can show."""
    # With terminals of its own a client never sees ours, except as a fall-back, which text shows well enough.
    follows_ours = client.has_meta("terminal_output") and not client.terminal
    compactions = client.session.compaction is not None
    return Abilities(terminal_meta=follows_ours, embeds_terminals=client.terminal, compactions=compactions)


def description_of(client: schema.ClientCapabilities, info: schema.Implementation | None) -> ClientDescription:
    """What the model is told of the client."""
    files = "Files are read and written through the editor, so unsaved changes are seen."
    commands = "Commands run in the editor's terminal."
    notes: list[str] = []
    if client.fs.read_text_file or client.fs.write_text_file:
        notes.append(files)
    if client.terminal:
        notes.append(commands)
    name = (info.title or info.name) if info is not None else ""
    return ClientDescription(name[:60], tuple(notes))
