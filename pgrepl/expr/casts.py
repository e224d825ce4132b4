"""PostgreSQL's casts: the coercion path from one type to another, and the contexts in which it is allowed."""

from __future__ import annotations

from enum import IntEnum

from pgrepl.expr import typefacts
from pgrepl.expr.tree import Const, Expr
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import builtin, oids


class Context(IntEnum):
    """The context in which a cast is allowed: implicitly, in assignments, or only when written (CoercionContext)."""

    IMPLICIT = 0
    ASSIGNMENT = 1
    PLPGSQL = 2  # as ASSIGNMENT, and through text where there is no cast
    EXPLICIT = 3


class Path:
    """The path by which one type is converted to another (CoercionPathType). FUNC comes with the function to call."""

    NONE = "none"
    FUNC = "func"
    RELABEL = "relabel"
    ARRAY = "array"
    IO = "io"


_MULTIRANGE_OF_RANGE = 4281  # int4multirange(int4range); what it makes follows from the type of the call
_CONTEXTS = {"i": Context.IMPLICIT, "a": Context.ASSIGNMENT, "e": Context.EXPLICIT}
_METHODS = {"f": Path.FUNC, "i": Path.IO, "b": Path.RELABEL}


def pathway(target: int, source: int, context: Context) -> tuple[str, int]:
    """The path from one type to another and its function (find_coercion_pathway)."""
    source, target = typefacts.base(source), typefacts.base(target)
    if source == target:
        return Path.RELABEL, 0
    if oids.INTERNAL in (source, target):
        return Path.NONE, 0
    found = _cast_pathway(target, source, context)
    if found[0] == Path.NONE and context is Context.PLPGSQL:
        return Path.IO, 0
    return found


def _cast_pathway(target: int, source: int, context: Context) -> tuple[str, int]:
    cast = builtin.cast(source, target)
    if cast is not None:
        if context < _CONTEXTS[cast.context]:
            return Path.NONE, 0
        method = _METHODS[cast.method]
        return method, cast.func if method == Path.FUNC else 0
    if typefacts.range_multirange(source) == target and target:
        return (Path.FUNC, _MULTIRANGE_OF_RANGE) if context is Context.EXPLICIT else (Path.NONE, 0)
    if target not in (oids.OIDVECTOR, oids.INT2VECTOR):
        target_element, source_element = typefacts.element(target), typefacts.element(source)
        if target_element and source_element and pathway(target_element, source_element, context)[0] != Path.NONE:
            return Path.ARRAY, 0
    if context >= Context.ASSIGNMENT and typefacts.category(target) == typefacts.STRING_CATEGORY:
        return Path.IO, 0
    if context >= Context.EXPLICIT and typefacts.category(source) == typefacts.STRING_CATEGORY:
        return Path.IO, 0
    return Path.NONE, 0


def castable(source: int, target: int, context: Context) -> bool:
    """Whether a cast exists, judged by the two types alone, without other arguments and tables (the first half of
    can_coerce_type)."""
    if source == target:
        return True
    if oids.INTERNAL in (source, target):
        return source == oids.UNKNOWN
    if target == oids.ANY or source == oids.UNKNOWN or pathway(target, source, context)[0] != Path.NONE:
        return True
    if source == oids.RECORD and typefacts.is_complex(target):
        return True
    if target == oids.RECORD and typefacts.is_complex(source):
        return True
    return target == oids.RECORD_ARRAY and typefacts.is_complex_array(source)


def is_binary_coercible(source: int, target: int) -> bool:
    """Whether values of one type are values of the other without conversion at run time (IsBinaryCoercible)."""
    if source == target or target in (oids.ANY, oids.ANYELEMENT, oids.ANYCOMPATIBLE):
        return True
    source = typefacts.base(source)
    if source == target:
        return True
    if target in (oids.ANYARRAY, oids.ANYCOMPATIBLEARRAY) and typefacts.is_array(source):
        return True
    if target in (oids.ANYNONARRAY, oids.ANYCOMPATIBLENONARRAY) and not typefacts.is_array(source):
        return True
    if target == oids.ANYENUM and typefacts.is_enum(source):
        return True
    if target in (oids.ANYRANGE, oids.ANYCOMPATIBLERANGE) and typefacts.range_subtype(source):
        return True
    if target in (oids.ANYMULTIRANGE, oids.ANYCOMPATIBLEMULTIRANGE) and typefacts.multirange_range(source):
        return True
    if target == oids.RECORD and typefacts.is_complex(source):
        return True
    if target == oids.RECORD_ARRAY and typefacts.is_complex_array(source):
        return True
    cast = builtin.cast(source, target)
    return cast is not None and cast.method == "b" and cast.context == "i"


def length_function(target: int) -> tuple[str, int]:
    """As find_typmod_coercion_function does."""
    elem = typefacts.element(target)
    typoid = elem or target
    cast = builtin.cast(typoid, typoid)
    if cast is None or not cast.func:
        return Path.NONE, 0
    return (Path.ARRAY, 0) if elem else (Path.FUNC, cast.func)


def function_typmod(function: int, args: tuple[Expr, ...], form: CoercionForm) -> int:
    """The type modifier that a call of a length coercion function gives its result (exprIsLengthCoercion)."""
    if form not in (CoercionForm.EXPLICIT_CAST, CoercionForm.IMPLICIT_CAST) or len(args) not in (2, 3):
        return -1
    second = args[1]
    if isinstance(second, Const) and second.type == oids.INT4 and second.value is not None:
        return int(second.value)
    return -1
