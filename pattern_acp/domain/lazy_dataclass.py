"""`dataclass` as the standard library has it, except that `__init__` is compiled when the first instance is made.

Owns: the decorator. Must not know: any class it decorates. The standard library compiles six methods of a frozen class
when the class is defined, 0.3 to 0.7 ms each time; an editor waits for more than two hundred such classes at every
spawn, and a first turn makes instances of a third of them (docs/benchmarks.md). Here a class starts with its fields and
slots, which takes 0.03 ms; its other methods read the fields and need no compiling.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, field, fields
from dataclasses import dataclass as standard_dataclass
from inspect import Parameter, Signature
from reprlib import recursive_repr
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn, TypeVar, cast, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field

T = TypeVar("T")


class _Decorated:
    """What a decorated class has for a type checker."""

    __dataclass_fields__: ClassVar[dict[str, "Field[object]"]]


@dataclass_transform(field_specifiers=(field,))
def dataclass(*, slots: Literal[True], frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """The class decorator. It means what it means in the standard library; what the class defines itself is kept.

    Always slotted, for classes without a base of their own.

    Raises:
        TypeError: the class has a `__post_init__`, or a field that is not an ordinary parameter.
    """
    del slots  # said so that every class reads as with the standard library's decorator

    def decorate(cls: type[T]) -> type[T]:
        own = vars(cls)
        # Python itself puts a None beside an own `__eq__`, which is not a definition.
        kept = {name for name in own if name != "__hash__" or own[name] is not None}
        if cls.__doc__ is None:
            # The standard library would look the signature up, which takes longer than all the rest.
            cls.__doc__ = cls.__name__
        made = standard_dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        if "__post_init__" in own or not all(each.init and not each.kw_only for each in _fields(made)):
            raise TypeError(f"{cls.__name__} needs the standard library's dataclass; this one has plain fields only.")
        methods = _methods(is_frozen=frozen, is_compared=eq)
        for name in methods.keys() - kept:
            setattr(made, name, methods[name])
        return made

    return decorate


def _methods(*, is_frozen: bool, is_compared: bool) -> dict[str, object]:
    methods: dict[str, object] = {"__init__": _init, "__repr__": _repr, "__signature__": _ConstructorSignature()}
    if is_frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        methods |= {"__getstate__": _values, "__setstate__": _restore}
    if is_compared:
        methods |= {"__eq__": _eq, "__hash__": _hash if is_frozen else None}
    return methods


def _init(self: object, *values: object, **named: object) -> None:
    """Take the place of the first call, and put the compiled method into the place of this one."""
    cls = type(self)
    written = _write_init(cls)
    # Twice, from two threads, does no harm.
    setattr(cls, "__init__", written)  # noqa: B010  # a type checker refuses to see a method assigned
    written(self, *values, **named)


def _write_init(cls: type[object]) -> Callable[..., None]:
    scope: dict[str, object] = {"_set": object.__setattr__, "_ABSENT": MISSING}
    parameters: list[str] = []
    lines: list[str] = []
    is_frozen = cls.__setattr__ is _refuse_to_set
    for each in _fields(cls):
        parameter, value = each.name, each.name
        if each.default_factory is not MISSING:
            scope[f"_make_{each.name}"] = each.default_factory
            parameter = f"{each.name}=_ABSENT"
            value = f"_make_{each.name}() if {each.name} is _ABSENT else {each.name}"
        elif each.default is not MISSING:
            scope[f"_default_{each.name}"] = each.default
            parameter = f"{each.name}=_default_{each.name}"
        parameters.append(parameter)
        lines.append(f"_set(self, {each.name!r}, {value})" if is_frozen else f"self.{each.name} = {value}")
    body = "\n ".join(lines) or "pass"
    exec(f"def __init__(self, {', '.join(parameters)}):\n {body}", scope)  # noqa: S102  # as the standard library does
    written = cast("Callable[..., None]", scope["__init__"])
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written


class _ConstructorSignature:
    """Shows tools that look at a class, such as hypothesis, what its constructor takes."""

    def __get__(self, instance: object, owner: type[object]) -> Signature:
        parameters: list[Parameter] = []
        for each in _fields(owner):
            default = each.default if each.default_factory is MISSING else each.default_factory
            default = Parameter.empty if default is MISSING else default
            parameters.append(
                Parameter(each.name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=each.type)
            )
        return Signature(parameters, return_annotation=None)


@recursive_repr()
def _repr(self: object) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in _fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: object, other: object) -> bool:
    if type(self) is not type(other):
        return NotImplemented
    return _compared(self) == _compared(other)


def _hash(self: object) -> int:
    return hash(_compared(self))


def _compared(self: object) -> tuple[object, ...]:
    return tuple(getattr(self, each.name) for each in _fields(self) if each.compare)


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    del self, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    del self
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(self: object) -> list[object]:
    """What a copy is made of; see `_restore`."""
    return [getattr(self, each.name) for each in _fields(self)]


def _restore(self: object, values: list[object]) -> None:
    """Fill a copy, which setting its fields one by one could not do."""
    for each, value in zip(_fields(self), values, strict=True):
        object.__setattr__(self, each.name, value)


def _fields(owner: object) -> "tuple[Field[object], ...]":
    return fields(cast("_Decorated", owner))
