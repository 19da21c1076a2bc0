"""What one device forgets is forgotten on all, and their memory still comes to the same."""

from pathlib import Path

from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.service.forget import MemoryForgetting
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON
from pattern_acp.tools.registry import parameter_names
from tests.support.carriers import Depot, MemoryCarrier
from tests.sync.test_exchange import PROJECT, Device, devices

WORDS = "correct-horse-battery"


def forgetting_of(device: Device) -> MemoryForgetting:
    scope = HistoryScope(((Scope.PROJECT, PROJECT),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, device.peer)
    return MemoryForgetting(device.database, scope, clock=device.clock, parameters=parameter_names)


async def test_after_a_forgetting_writes_of_all_devices_still_merge_with_their_authors(tmp_path: Path):
    depot = Depot()
    async with devices(tmp_path, 3, lambda: MemoryCarrier(depot)) as three:
        one, two, _ = three
        await one.say("project", "The port is 7433.")
        await one.say("project", f"The password is {WORDS}.")
        for each in three:
            await each.exchange()
        await two.say("project", "Written before the second heard of it.")
        await forgetting_of(one).forget("project", WORDS)
        await one.say("project", "Written afterwards.")
        for _ in range(3):
            for each in three:
                await each.exchange()
        lines = {
            "The port is 7433.": "Said on host-0.",
            "Written before the second heard of it.": "Said on host-1.",
            "Written afterwards.": "Said on host-0.",
        }
        for each in three:
            assert await each.texts() == await one.texts()
            assert WORDS not in (await each.texts())["project"]
            assert lines.items() <= (await each.blame()).items()
            assert await each.is_sound() == []
