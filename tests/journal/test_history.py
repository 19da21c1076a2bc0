"""Which events count after the person went back, and back again."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import TurnId
from pattern_acp.journal.events import Event, SessionRewound, SessionTitled
from pattern_acp.journal.history import active_events, went_back
from pattern_acp.journal.reader import Recorded


def rewound(back_to: int | None) -> SessionRewound:
    return SessionRewound("rwd_1", TurnId("turn_1"), before=0, parts=("conversation",), back_to=back_to)


def recorded(*events: Event) -> list[Recorded]:
    return [
        Recorded(number, number, 0, Actor.HUMAN, Origin.PERSON, "", event) for number, event in enumerate(events, 1)
    ]


def titles(count: int) -> list[Event]:
    return [SessionTitled(str(number)) for number in range(1, count + 1)]


def numbers(kept: list[Recorded]) -> list[int]:
    return [entry.session_seq for entry in kept]


def test_going_back_drops_what_came_between_and_keeps_what_follows():
    stream = recorded(*titles(4), rewound(2), SessionTitled("new"))
    assert numbers(active_events(stream)) == [1, 2, 5, 6]
    assert went_back(stream)


def test_a_rewind_of_files_alone_drops_nothing():
    stream = recorded(*titles(2), rewound(None), SessionTitled("new"))
    assert numbers(active_events(stream)) == [1, 2, 3, 4]
    assert not went_back(stream)


def test_going_back_to_before_a_rewind_brings_the_dropped_branch_back():
    stream = recorded(*titles(4), rewound(1), SessionTitled("other"), rewound(4))
    assert numbers(active_events(stream)) == [1, 2, 3, 4, 7]
    assert numbers(active_events(stream, upto=6)) == [1, 5, 6]
    assert numbers(active_events(stream, upto=0)) == []


@given(st.lists(st.one_of(st.none(), st.integers(0, 40)), max_size=40))
def test_the_kept_events_are_those_of_a_model_that_copies_the_whole_conversation(steps: list[int | None]):
    events: list[Event] = []
    behind: list[list[int]] = [[]]
    for number, step in enumerate(steps, 1):
        if step is None:
            events.append(SessionTitled(str(number)))
            behind.append([*behind[-1], number])
        else:
            back_to = step % number
            events.append(rewound(back_to))
            behind.append([*behind[back_to], number])
    stream = recorded(*events)
    assert numbers(active_events(stream)) == behind[-1]
    for upto in range(len(events) + 1):
        assert numbers(active_events(stream, upto=upto)) == behind[upto]
