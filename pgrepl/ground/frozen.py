"""Frozen dataclasses that cost little to define.

`@dataclass(frozen=True, slots=True)` examines the words of each annotation and compiles six methods for a class, which
takes a third of a millisecond, and a start of pgrepl defines hundreds of classes. `@frozen` makes the same class with
shared methods, and compiles only its `__init__`, when the first instance is made. `dataclasses.replace`, `fields` and
`field` work as ever; there are no default factories, class variables or init-only variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from inspect import get_annotations
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda function: function


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    own_hash = cls.__dict__.get("__hash__")  # of a class whose instances are looked up often
    slotted: Any = _with_slots(cls)
    slotted.__init__ = _first_init
    slotted.__repr__ = _repr
    slotted.__eq__ = _eq
    slotted.__hash__ = own_hash or _hash
    slotted.__setattr__ = slotted.__delattr__ = _refuse
    slotted.__reduce__ = _reduce
    return slotted  # type: ignore[no-any-return]


@dataclass(init=False, repr=False, eq=False)
class _Usual:
    """A dataclass for what `dataclasses` marks its fields and classes with."""

    usual: int


def _with_slots(cls: Any) -> Any:
    """The class again, with a slot for each of its own annotations, as a dataclass that `dataclasses` knows."""
    content = dict(cls.__dict__)
    known: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        known.update(getattr(base, "__dataclass_fields__", {}))
    own = get_annotations(cls)
    for name, kind in own.items():
        value = content.pop(name, MISSING)
        described: Any = value if isinstance(value, Field) else field() if value is MISSING else field(default=value)
        described.name, described.type = name, kind
        described.kw_only = described.kw_only is True
        described._field_type = _USUAL._field_type
        known[name] = described
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    content["__slots__"] = tuple([name for name in own if name not in inherited])
    content["__dataclass_fields__"] = known
    content["__dataclass_params__"] = _Usual.__dataclass_params__  # type: ignore[attr-defined]
    content["__match_args__"] = tuple([described.name for described in known.values() if not described.kw_only])
    for other in ("__dict__", "__weakref__"):
        content.pop(other, None)
    return type(cls)(cls.__name__, cls.__bases__, content)


_USUAL: Any = fields(_Usual)[0]


def replace(instance: T, /, **changes: Any) -> T:
    """The same as that of `dataclasses`, in half the time: a copy is compiled for each class."""
    kind = type(instance)
    copy = _copies.get(kind)
    if copy is None:
        copy = _copies[kind] = _compiled_copy(kind)
    return copy(instance, **changes)  # type: ignore[no-any-return]


_copies: dict[type[Any], Callable[..., Any]] = {}
_SAME: Any = object()


def _compiled_copy(cls: type[Any]) -> Callable[..., Any]:
    """`def copy(self, *, a=_same, b=_same, …)`"""
    scope: dict[str, Any] = {"_new": cls.__new__, "_cls": cls, "_same": _SAME}
    names = [slot.name for slot in fields(cls)]
    lines = ["made = _new(_cls)"]
    for name in names:
        scope[f"set_{name}"] = getattr(cls, name).__set__
        lines.append(f"set_{name}(made, self.{name} if {name} is _same else {name})")
    lines += ["made.__post_init__()"] * hasattr(cls, "__post_init__")
    parameters = ", ".join(["self", *["*"] * bool(names), *[f"{name}=_same" for name in names]])
    exec(f"def copy({parameters}):\n " + "\n ".join(lines) + "\n return made", scope)
    copied: Callable[..., Any] = scope["copy"]
    return copied


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    cls = type(self)
    cls.__init__ = _compiled_init(cls)
    cls.__init__(self, *args, **kwargs)


def _compiled_init(cls: type[Any]) -> Any:
    """`def __init__(self, a, b=…, *, c=…)`, which sets each slot past `__setattr__`."""
    scope: dict[str, Any] = {}
    positional, keywords, lines = ["self"], list[str](), ["pass"]
    for slot in fields(cls):
        scope[f"set_{slot.name}"] = getattr(cls, slot.name).__set__
        scope[f"default_{slot.name}"] = slot.default
        parameter = slot.name if slot.default is MISSING else f"{slot.name}=default_{slot.name}"
        (keywords if slot.kw_only else positional).append(parameter)
        lines.append(f"set_{slot.name}(self, {slot.name})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(positional + (["*", *keywords] if keywords else []))
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines), scope)
    return scope["__init__"]


_compared: dict[type[Any], Callable[[Any], Any]] = {}  # the fields by which two instances are compared


def _values(self: Any) -> Any:
    getter = _compared.get(type(self))
    if getter is None:
        names = [slot.name for slot in fields(self) if slot.compare]
        getter = _compared[type(self)] = attrgetter(*names) if names else _nothing
    return getter(self)


def _nothing(self: Any) -> tuple[()]:
    return ()


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = ", ".join(f"{slot.name}={getattr(self, slot.name)!r}" for slot in fields(self) if slot.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuilt, (type(self), {slot.name: getattr(self, slot.name) for slot in fields(self)})


def _rebuilt(cls: type[T], values: dict[str, Any]) -> T:
    return cls(**values)
