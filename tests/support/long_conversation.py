"""A conversation of many turns in a small window, with facts that are planted at its start and asked for at its end.

Owns: the turns, and what is measured of them. Used by tests (150 turns) and benchmarks/window.py (1,000). The model is
a `WindowModel`: its summaries say nothing of the facts, so that whatever is found at the end was found by recall.
"""

import time
from dataclasses import dataclass

from msgspec.structs import replace

from pattern_acp.config.settings import CompactionSettings, CompactionStrategy, MemorySettings, Settings
from pattern_acp.context.window import request_tokens
from pattern_acp.journal.events import ContextCompacted
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, of_type, unpaired_calls
from tests.support.window_model import WindowModel

FACTS: tuple[tuple[str, str, str], ...] = (
    ("lighthouse", "Sveinbjorn", "The lighthouse keeper of our island is called Sveinbjorn."),
    ("ferry", "quarter past nine", "The ferry to the mainland leaves at quarter past nine."),
    ("bakery", "rye with caraway", "The bakery sells only rye with caraway on Mondays."),
    ("telescope", "Ganymede", "My telescope is named after Ganymede."),
    ("vineyard", "seventeen rows", "The vineyard behind the chapel has seventeen rows."),
    ("accordion", "Castelfidardo", "My accordion was built in Castelfidardo."),
    ("aqueduct", "Philippa", "The aqueduct was paid for by a widow named Philippa."),
    ("orchard", "medlars", "In the orchard we grow nothing but medlars."),
    ("printing press", "Garamond", "Our printing press has a single typeface, Garamond."),
    ("beehives", "dark blue", "The beehives are painted dark blue this year."),
)
"""What each is about, the word that proves it is known, and the sentence that tells it."""

QUESTION = "Tell me again what I said about the {}."


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run showed."""

    turns: int
    requests: int
    refused: int
    """Requests that were over the window."""
    largest: int
    """Tokens of the largest request."""
    compactions: int
    summary_tokens: int
    """Tokens read for summaries, of `tokens` for all requests."""
    tokens: int
    found: int
    """Facts of `FACTS` that stood in the request when they were asked for."""
    invalid: int
    """Calls without exactly one result."""
    estimate_error: float
    """Mean distance between the calibrated estimate and the count, as a share of the count."""
    seconds: float

    @property
    def summary_share(self) -> float:
        """The share of all tokens that summaries cost."""
        return self.summary_tokens / max(self.tokens, 1)


def _filler(number: int) -> str:
    return (
        f"Note {number}: the harbour was quiet and the gulls were many. " + "We mended nets and spoke of weather. " * 9
    )


async def converse(
    turns: int, *, window: int = 12_000, strategy: CompactionStrategy = "summarise", recall: bool = True
) -> Measured:
    """Hold the conversation and measure it; without `recall` nothing is recalled before a turn."""
    answered = 0

    def answer(request: ProviderRequest) -> Turn:
        nonlocal answered
        answered += 1
        is_step = any(part for part in request.messages[-1].parts if hasattr(part, "call_id"))
        if answered % 4 == 0 and not is_step:
            return says("Let me look.") + calls("read_file", path="log.txt")
        return says("It was a quiet day, and we did what there was to do. " * 8)

    model = WindowModel(window, answer, counts=True)
    settings = Settings(
        editor_deadline_seconds=30,
        mode="auto",
        compaction=CompactionSettings(strategy),
        memory=MemorySettings(embedder="hash", recall_tokens=300 if recall else 0),
    )
    began = time.perf_counter()
    async with running_agent(ScriptedProvider([]), settings=settings, others={"scripted": model}) as agent:
        info = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(info, context_window=window, max_output_tokens=1_000)
        (agent.folder / "log.txt").write_text("A gull, a net, a rope, a bell.\n" * 120)
        session = await agent.editor.open_session(str(agent.folder))
        for _, _, sentence in FACTS:
            await agent.editor.prompt(session, sentence)
        for number in range(turns - 2 * len(FACTS)):
            await agent.editor.prompt(session, _filler(number))
            agent.editor.updates.clear()
        found = 0
        for subject, proof, _ in FACTS:
            await agent.editor.prompt(session, QUESTION.format(subject))
            last = next(r for r in reversed(model.requests) if QUESTION.format(subject) in str(r.messages))
            found += proof in last.volatile or any(proof in str(message.parts) for message in last.messages)
        state = agent.sessions.get(session).state
        errors = [
            abs(state.window.calibration.tokens(r.model, estimate) - model.tokens(r)) / model.tokens(r)
            for r in model.requests[-50:]
            if (estimate := request_tokens(r))
        ]
        return Measured(
            turns,
            len(model.sizes),
            model.refused,
            max(model.sizes),
            len(of_type(await events_of(agent, session), ContextCompacted)),
            sum(model.tokens(r) for r in model.summaries),
            sum(model.sizes),
            found,
            sum(len(unpaired_calls(r)) for r in model.requests),
            sum(errors) / len(errors),
            time.perf_counter() - began,
        )
