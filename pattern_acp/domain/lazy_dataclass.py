"""`dataclass` as the standard library has it, except that what a class needs is made when it is first needed.

Owns: the decorator. Must not know: any class it decorates. The standard library looks at every field and compiles six
methods of a frozen class when the class is defined, 0.3 to 0.7 ms each time; an editor waits for more than four hundred
such classes at every spawn, and a first turn makes instances of a quarter of them, most of them once or twice
(docs/benchmarks.md). Here a class starts with its names and slots, which takes 0.02 ms. Its constructor goes through
the names until it was called often enough to be worth compiling, and what the standard library knows of a class
(`dataclasses.fields`, `replace`, msgspec) is asked of the standard library at the first question.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, MISSING, Field, FrozenInstanceError, field, fields
from dataclasses import dataclass as standard_dataclass
from functools import cache
from inspect import Parameter, Signature
from reprlib import recursive_repr
from typing import ClassVar, Final, Literal, NoReturn, TypeVar, cast, dataclass_transform

T = TypeVar("T")

CALLS_BEFORE_COMPILING: Final = 40
"""To compile a constructor takes as long as about 40 of its calls that go through the names."""

_ASKED = ("__dataclass_fields__", "__dataclass_params__")

_set = object.__setattr__


class _Decorated:
    """What a decorated class has for a type checker."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    __match_args__: ClassVar[tuple[str, ...]]
    __compared_names__: ClassVar[tuple[str, ...]]


@dataclass_transform(field_specifiers=(field,))
def dataclass(*, slots: Literal[True], frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
    """The class decorator. It means what it means in the standard library; what the class defines itself is kept.

    Always slotted, for classes without a base of their own.

    Raises:
        TypeError: the class has a `__post_init__`, a field that is not an ordinary parameter, a default that instances
            would share and could change, or a field without a default behind one that has one.
    """
    del slots  # said so that every class reads as with the standard library's decorator

    methods = _methods(is_frozen=frozen, is_compared=eq)

    def decorate(cls: type[T]) -> type[T]:
        own = dict(vars(cls))
        annotations = cast("dict[str, object]", own.get("__annotations__", {}))
        # Most are plain classes, which are told apart by one look.
        names = tuple([name for name, kind in annotations.items() if type(kind) is type or not _is_of_class(kind)])
        given = {name: own.pop(name) for name in names if name in own}
        defaults, factories = _defaults(cls.__name__, names, given) if given else ({}, {})
        if "__post_init__" in own or KW_ONLY in annotations.values():
            raise _too_much(cls.__name__)
        own.pop("__dict__", None)
        own.pop("__weakref__", None)
        if "__hash__" in own and own["__hash__"] is None:
            # Python itself puts it beside an own `__eq__`; it is not a definition.
            del own["__hash__"]
        own = {"__init__": _constructor(names, defaults, factories), **methods, **own}
        own["__slots__"] = own["__match_args__"] = names
        own["__compared_names__"] = tuple([name for name in names if _is_compared(given.get(name))]) if given else names
        for name in _ASKED:
            own[name] = _AskedOfStandard(name, annotations, given)
        return type(cls)(cls.__name__, cls.__bases__, own)

    return decorate


def _is_of_class(kind: object) -> bool:
    if isinstance(kind, str):
        return kind.startswith("ClassVar")
    return getattr(kind, "__origin__", None) is ClassVar or kind is ClassVar


def _is_compared(given: object) -> bool:
    return not isinstance(given, Field) or cast("Field[object]", given).compare


def _defaults(
    owner: str, names: tuple[str, ...], given: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, Callable[[], object]]]:
    """Defaults and what makes them, by name; refuses what a constructor of plain parameters cannot do."""
    defaults: dict[str, object] = {}
    factories: dict[str, Callable[[], object]] = {}
    for name in names:
        default = given.get(name, MISSING)
        if isinstance(default, Field):
            known = cast("Field[object]", default)
            if not known.init or known.kw_only is True:
                raise _too_much(owner)
            default = known.default
            if known.default_factory is not MISSING:
                factories[name] = known.default_factory
                continue
        if default is not MISSING:
            if type(default).__hash__ is None:
                raise TypeError(f"All instances of {owner} would share the default of {name}; use a default_factory.")
            defaults[name] = default
        elif defaults or factories:
            raise TypeError(f"{owner}.{name} has no default and stands behind a field that has one.")
    return defaults, factories


def _too_much(owner: str) -> TypeError:
    return TypeError(f"{owner} needs the standard library's dataclass; this one has plain fields only.")


@cache
def _methods(*, is_frozen: bool, is_compared: bool) -> Mapping[str, object]:
    methods: dict[str, object] = {"__repr__": _repr, "__signature__": _SIGNATURE}
    if is_frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        methods |= {"__getstate__": _values, "__setstate__": _restore}
    if is_compared:
        methods |= {"__eq__": _eq, "__hash__": _hash if is_frozen else None}
    return methods


def _constructor(
    names: tuple[str, ...], defaults: Mapping[str, object], factories: Mapping[str, Callable[[], object]]
) -> Callable[..., None]:
    calls = 0

    def __init__(self: object, /, *values: object, **named: object) -> None:  # noqa: N807  it becomes one
        nonlocal calls
        calls += 1
        if calls <= CALLS_BEFORE_COMPILING and len(values) <= len(names):
            for name, value in zip(names, values, strict=False):
                _set(self, name, value)
            used = 0
            for name in names[len(values) :]:
                if name in named:
                    used += 1
                    _set(self, name, named[name])
                elif name in defaults:
                    _set(self, name, defaults[name])
                elif name in factories:
                    _set(self, name, factories[name]())
                else:
                    break
            else:
                if used == len(named):
                    return
        # Called often, or wrongly: then the compiled one says in Python's own words what is wrong.
        cls = type(self)
        written = _write_init(cls, names, defaults, factories)
        # Twice, from two threads, does no harm.
        setattr(cls, "__init__", written)  # noqa: B010  # a type checker refuses to see a method assigned
        written(self, *values, **named)

    return __init__


def _write_init(
    cls: type[object],
    names: tuple[str, ...],
    defaults: Mapping[str, object],
    factories: Mapping[str, Callable[[], object]],
) -> Callable[..., None]:
    scope: dict[str, object] = {"_set": _set, "_ABSENT": MISSING}
    parameters: list[str] = []
    lines: list[str] = []
    is_frozen = cls.__setattr__ is _refuse_to_set
    for name in names:
        parameter, value = name, name
        if name in factories:
            scope[f"_make_{name}"] = factories[name]
            parameter = f"{name}=_ABSENT"
            value = f"_make_{name}() if {name} is _ABSENT else {name}"
        elif name in defaults:
            scope[f"_default_{name}"] = defaults[name]
            parameter = f"{name}=_default_{name}"
        parameters.append(parameter)
        lines.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    body = "\n ".join(lines) or "pass"
    exec(f"def __init__(self, {', '.join(parameters)}):\n {body}", scope)  # noqa: S102  # as the standard library does
    written = cast("Callable[..., None]", scope["__init__"])
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written


class _AskedOfStandard:
    """What the standard library notes about a data class, found out by its own decorator at the first question."""

    def __init__(self, name: str, annotations: Mapping[str, object], given: Mapping[str, object]) -> None:
        self._name = name
        self._annotations = annotations
        self._given = given

    def __get__(self, instance: object, owner: type[object]) -> object:
        # Without a docstring the standard library writes one, out of a signature that takes longer than all the rest.
        about = {"__annotations__": dict(self._annotations), "__doc__": owner.__name__, "__module__": owner.__module__}
        plain = type(owner.__name__, (), {**about, **self._given})
        made = standard_dataclass(init=False, repr=False, eq=False)(plain)
        for name in _ASKED:
            setattr(owner, name, getattr(made, name))
        return getattr(made, self._name)


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


_SIGNATURE: Final = _ConstructorSignature()


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
    return tuple([getattr(self, name) for name in cast("_Decorated", self).__compared_names__])


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    del self, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    del self
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _values(self: object) -> list[object]:
    """What a copy is made of; see `_restore`."""
    return [getattr(self, name) for name in cast("_Decorated", self).__match_args__]


def _restore(self: object, values: list[object]) -> None:
    """Fill a copy, which setting its fields one by one could not do."""
    for name, value in zip(cast("_Decorated", self).__match_args__, values, strict=True):
        _set(self, name, value)


def _fields(owner: object) -> tuple[Field[object], ...]:
    return fields(cast("_Decorated", owner))
