"""`dataclass` as the standard library has it, except that its methods are written when they are first used.

Owns: the decorator. Must not know: any class it decorates. The standard library compiles six methods of a frozen class
when the class is made, 0.3 to 0.7 ms each time; an editor waits for a hundred of them at every spawn, and most of their
methods are never called (docs/benchmarks.md, "What a start is made of"). Here a class starts with fields and slots
alone; the first call of a method has the standard library write it.
"""

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, field, fields, make_dataclass
from dataclasses import dataclass as standard_dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field

T = TypeVar("T")


class _Decorated:
    """What a decorated class has for a type checker."""

    __dataclass_fields__: ClassVar[dict[str, "Field[object]"]]


@dataclass_transform(field_specifiers=(field,))
def dataclass(*, slots: Literal[True], frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """The class decorator. It means what it means in the standard library, for classes without a base of their own.

    Always slotted. What the class defines itself is kept.
    """
    del slots  # said so that every class reads as with the standard library's decorator

    def decorate(cls: type[T]) -> type[T]:
        own = vars(cls)
        methods: dict[str, object] = {"__init__": _init, "__repr__": _repr}
        if frozen:
            methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
            methods |= {"__getstate__": _values, "__setstate__": _restore}
        if eq:
            methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
        # Python itself puts a None beside an own `__eq__`, which is not a definition.
        kept = {name for name in own if name != "__hash__" or own[name] is not None}
        made = standard_dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        for name in methods.keys() - kept:
            setattr(made, name, methods[name])
        return made

    return decorate


def _init(self: object, *values: object, **named: object) -> None:
    _write(type(self), "__init__")
    cast("Callable[..., None]", type(self).__init__)(self, *values, **named)


def _repr(self: object) -> str:
    _write(type(self), "__repr__")
    return repr(self)


def _eq(self: object, other: object) -> bool:
    _write(type(self), "__eq__")
    return type(self).__eq__(self, other)


def _hash(self: object) -> int:
    _write(type(self), "__hash__")
    return hash(self)


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    del self, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    del self
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(self: object) -> list[object]:
    """What a copy is made of; see `_restore`."""
    return [getattr(self, each.name) for each in fields(cast("_Decorated", self))]


def _restore(self: object, values: list[object]) -> None:
    """Fill a copy, which setting its fields one by one could not do."""
    for each, value in zip(fields(cast("_Decorated", self)), values, strict=True):
        object.__setattr__(self, each.name, value)


def _write(cls: type[object], name: str) -> None:
    """Put the standard library's method in the place of ours. Twice, from two threads, does no harm."""
    known = cast("type[_Decorated]", cls)
    after = getattr(cls, "__post_init__", None)
    namespace: Mapping[str, object] = {} if after is None else {"__post_init__": after}
    twin = make_dataclass(
        cls.__name__,
        [(each.name, each.type, each) for each in fields(known)],
        namespace={"__doc__": cls.__doc__, **namespace},
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name in {"__eq__", "__hash__"},
        frozen=cls.__setattr__ is _refuse_to_set,
    )
    setattr(cls, name, vars(twin)[name])
