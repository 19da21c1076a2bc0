"""A lazily written dataclass behaves as the standard library's."""

import copy
import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from threading import Thread
from typing import ClassVar, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.lazy_dataclass import CALLS_BEFORE_COMPILING, dataclass

NO_FIELD = "other"


@dataclass(frozen=True, slots=True)
class Point:
    """A frozen one."""

    x: int
    y: int = 2
    label: str = field(default="", repr=False)
    tags: list[str] = field(default_factory=list[str], compare=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    """The same by the standard library."""

    x: int
    y: int = 2
    label: str = field(default="", repr=False)
    tags: list[str] = field(default_factory=list[str], compare=False)


@dataclass(slots=True)
class Counter:
    """A mutable one."""

    count: int = 0
    _hidden: int = 1


@dataclass(slots=True, eq=False)
class Thing:
    """One that is only ever itself."""

    name: str


@dataclass(frozen=True, slots=True)
class Own:
    """One with methods of its own."""

    name: str

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7


def test_values_come_by_position_and_name_and_default() -> None:
    point = Point(1, label="a")
    assert (point.x, point.y, point.label, point.tags, point.total) == (1, 2, "a", [], 3)


def test_every_instance_gets_its_own_default_list() -> None:
    assert Point(1).tags is not Point(1).tags


WRONG_ARGUMENTS: tuple[tuple[tuple[object, ...], dict[str, object]], ...] = (
    ((), {}),
    ((1, 2, "", [], 5), {}),
    ((1,), {"z": 1}),
    ((1,), {"x": 1}),
)


@pytest.mark.parametrize(("values", "named"), WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused_as_by_the_standard_library(
    values: tuple[object, ...], named: dict[str, object]
) -> None:
    make, make_standard = cast("Callable[..., object]", Point), cast("Callable[..., object]", StandardPoint)
    with pytest.raises(TypeError) as ours:
        make(*values, **named)
    with pytest.raises(TypeError) as theirs:
        make_standard(*values, **named)
    assert str(ours.value) == str(theirs.value).replace("StandardPoint", "Point")


@given(st.integers(), st.integers(), st.text(), st.lists(st.text()))
def test_text_equality_and_hash_are_those_of_the_standard_library(x: int, y: int, label: str, tags: list[str]) -> None:
    ours, theirs = Point(x, y, label, tags), StandardPoint(x, y, label, tags)
    assert repr(ours) == repr(theirs).replace("StandardPoint", "Point")
    assert hash(ours) == hash(theirs)
    assert (ours == Point(1, y, label)) == (theirs == StandardPoint(1, y, label))
    assert ours != theirs


def test_a_frozen_one_cannot_be_changed() -> None:
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError):
            setattr(point, name, 2)
        with pytest.raises(FrozenInstanceError):
            delattr(point, name)


def test_a_mutable_one_can_be_changed_but_not_hashed_or_extended() -> None:
    counter = Counter()
    counter.count += 3
    assert counter == Counter(3)
    with pytest.raises(TypeError):
        hash(counter)
    with pytest.raises(AttributeError):
        setattr(counter, NO_FIELD, 1)


def test_one_without_equality_is_only_equal_to_itself() -> None:
    thing = Thing("a")
    assert thing == copy.copy(thing) or hash(thing) == hash(thing)
    assert thing != Thing("a")


def test_own_methods_are_kept() -> None:
    own = Own("abc")
    assert (repr(own), hash(own)) == ("own", 7)
    assert own == Own("b")


def test_replacing_matching_and_listing_fields_work() -> None:
    match replace(Point(1), y=5):
        case Point(x, y):
            assert (x, y) == (1, 5)
    assert [each.name for each in fields(Point)] == ["x", "y", "label", "tags"]


def test_the_wire_library_takes_it_for_a_dataclass() -> None:
    assert msgspec.to_builtins(Point(1)) == {"x": 1, "y": 2, "label": "", "tags": []}
    assert msgspec.convert({"x": 4}, Point) == Point(4)


def test_a_copy_is_equal() -> None:
    assert copy.deepcopy(Point(1, tags=["a"])).tags == ["a"]
    assert copy.deepcopy(Counter(3)) == Counter(3)


def test_threads_that_make_the_first_instances_together_get_whole_ones() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        """Made by several threads at once."""

        value: int

    made: list[int] = []

    def make(number: int) -> None:
        made.append(Fresh(number).value)

    threads = [Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(8))


def test_what_it_does_not_do_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match="Hidden needs the standard library's"):

        @dataclass(slots=True)
        class Hidden:
            """One with a field that is no parameter."""

            size: int = field(init=False, default=0)

    with pytest.raises(TypeError, match="After needs the standard library's"):

        @dataclass(slots=True)
        class After:
            """One that does more."""

            size: int = 0

            def __post_init__(self) -> None:
                self.size += 1


def test_one_that_holds_itself_can_be_shown() -> None:
    @dataclass(slots=True)
    class Chain:
        """A link."""

        next: object = None

    chain = Chain()
    chain.next = chain
    assert repr(chain).endswith("Chain(next=...)")


def test_tools_see_what_the_constructor_takes() -> None:
    parameters = inspect.signature(Point).parameters
    assert [(each.name, each.annotation) for each in parameters.values()] == [
        ("x", int),
        ("y", int),
        ("label", str),
        ("tags", list[str]),
    ]
    assert parameters["x"].default is inspect.Parameter.empty
    assert parameters["y"].default == 2


def test_calls_before_and_after_the_constructor_is_compiled_do_the_same() -> None:
    @dataclass(frozen=True, slots=True)
    class Often:
        """Made so often that its constructor is compiled."""

        x: int
        tags: list[str] = field(default_factory=list[str])

    made = [
        Often(number, tags=["a"]) if number % 2 else Often(x=number) for number in range(3 * CALLS_BEFORE_COMPILING)
    ]
    assert [each.x for each in made] == list(range(3 * CALLS_BEFORE_COMPILING))
    assert [each.tags for each in made[:2]] == [each.tags for each in made[-2:]] == [[], ["a"]]


def test_a_default_that_all_instances_would_share_is_refused() -> None:
    with pytest.raises(TypeError, match="share the default of names"):

        @dataclass(slots=True)
        class Shared:
            """One with a list that all would have."""

            names: list[str] = []  # noqa: RUF012  the mistake


def test_a_field_without_a_default_behind_one_that_has_one_is_refused() -> None:
    with pytest.raises(TypeError, match="b has no default"):

        @dataclass(slots=True)
        class Behind:
            """In an order that no call could follow."""

            a: int = 0
            b: int  # pyright: ignore[reportGeneralTypeIssues]


def test_what_belongs_to_the_class_is_no_field() -> None:
    @dataclass(frozen=True, slots=True)
    class Limited:
        """One with a limit for all."""

        limit: ClassVar[int] = 3
        size: int = 1

    assert (Limited.limit, Limited(2).size, [each.name for each in fields(Limited)]) == (3, 2, ["size"])
