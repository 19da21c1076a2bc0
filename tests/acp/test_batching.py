"""Few, larger chunks, in order."""

import anyio
import anyio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp.client import FLUSH_CHARACTERS, FLUSH_SECONDS, Chunk, ChunkBatch, FlushTimer
from pattern_acp.acp.content import CHUNK_CHARACTERS
from tests.support.constellation import FakeClock


class Sent:
    """What went out, and a client that may not read."""

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.blocks = False
        self.blocked = anyio.Event()

    async def send(self, chunk: Chunk) -> None:
        if self.blocks:
            self.blocked.set()
            await anyio.sleep_forever()
        self.chunks.append(chunk)

    @property
    def texts(self) -> list[str]:
        return [chunk.text for chunk in self.chunks]


def bench() -> tuple[ChunkBatch, Sent, FakeClock]:
    sent, clock = Sent(), FakeClock()
    # Nobody runs the timer, so that only the batch itself decides.
    return ChunkBatch(sent.send, FlushTimer(), clock), sent, clock


def text(content: str, message_id: str = "msg_1", *, thought: bool = False) -> Chunk:
    return Chunk(message_id, content, thought)


async def test_the_first_text_after_a_pause_goes_out_at_once():
    batch, sent, clock = bench()
    await batch.add(text("One"))
    await batch.add(text(" two"))
    assert sent.texts == ["One"]
    clock.advance(round(FLUSH_SECONDS * 1000))
    await batch.add(text(" three"))
    assert sent.texts == ["One", " two three"]


async def test_400_characters_go_out_without_waiting():
    batch, sent, _ = bench()
    await batch.add(text("One"))
    for _ in range(FLUSH_CHARACTERS // 10):
        await batch.add(text("0123456789"))
    assert sent.texts == ["One", "0123456789" * (FLUSH_CHARACTERS // 10)]


async def test_what_else_is_shown_comes_behind_the_text_that_waits():
    batch, sent, _ = bench()
    order: list[str] = []

    async def act() -> None:
        order.extend(sent.texts)

    await batch.add(text("One"))
    await batch.add(text(" two"))
    await batch.then(act)
    assert order == ["One", " two"]


async def test_messages_and_reasoning_are_not_joined():
    batch, sent, _ = bench()
    await batch.add(text("zero"))
    for chunk in (text("a"), text("b"), text("c", thought=True), text("d", "msg_2"), text("e", "msg_2")):
        await batch.add(chunk)
    await batch.flush()
    assert sent.chunks[1:] == [text("ab"), text("c", thought=True), text("de", "msg_2")]


async def test_text_is_cut_for_the_line_whether_it_comes_at_once_or_gathers():
    batch, sent, _ = bench()
    await batch.add(text("x" * (CHUNK_CHARACTERS * 2 + 1)))
    assert [len(piece) for piece in sent.texts] == [CHUNK_CHARACTERS, CHUNK_CHARACTERS, 1]


async def test_text_that_was_not_sent_when_the_turn_was_cancelled_is_sent_later_and_once():
    batch, sent, _ = bench()
    sent.blocks = True
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(batch.add, text("One"))
            await sent.blocked.wait()
            tasks.cancel_scope.cancel()
    sent.blocks = False
    await batch.flush()
    await batch.flush()
    assert sent.texts == ["One"]


async def test_the_timer_sends_what_nothing_else_sends():
    sent, clock, timer = Sent(), FakeClock(), FlushTimer()
    batch = ChunkBatch(sent.send, timer, clock)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(timer.run)
            await batch.add(text("One"))
            await batch.add(text(" two"))
            while len(sent.chunks) < 2:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert sent.texts == ["One", " two"]


@given(st.lists(st.tuples(st.text(max_size=500), st.sampled_from(["m1", "m2"]), st.booleans()), max_size=20))
async def test_nothing_is_lost_doubled_or_reordered(items: list[tuple[str, str, bool]]):
    batch, sent, clock = bench()
    for content, message_id, thought in items:
        clock.advance(7)
        await batch.add(Chunk(message_id, content, thought))
    await batch.flush()
    assert "".join(sent.texts) == "".join(content for content, _, _ in items)
    wanted = [(name, thought) for content, name, thought in items for _ in content]
    assert [(chunk.message_id, chunk.thought) for chunk in sent.chunks for _ in chunk.text] == wanted
