"""Polymorphic parameters: whether the argument types are consistent, and which types they give the parameters and the
result.

There are two families. Arguments of parameters declared anyelement, anyarray, anyrange … must agree exactly on one
element type; arguments of parameters declared anycompatible… need a common type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context, castable
from pgrepl.expr.analyse.lookup import POLYMORPHIC_1
from pgrepl.ground.errors import PgError
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_ELEMENTS = (oids.ANYELEMENT, oids.ANYNONARRAY, oids.ANYENUM)
_VERSUS = "{0} versus {1}"
_COMPATIBLE = (oids.ANYCOMPATIBLE, oids.ANYCOMPATIBLENONARRAY)


class _Disagree(Exception):
    """The argument types are inconsistent. Carries PostgreSQL's message, with {0} and {1} in place of type names."""

    def __init__(self, message: str, *types: int, detail: str | None = None, sqlstate: str = "42804") -> None:
        super().__init__(message)
        self.message, self.types, self.detail, self.sqlstate = message, types, detail, sqlstate

    def error(self, session: Session) -> PgError:
        names = [lookup.type_text(session, t) for t in self.types]
        detail = self.detail.format(*names) if self.detail is not None else None
        return PgError(self.sqlstate, self.message.format(*names), detail=detail)


@dataclass(slots=True)
class _Family1:
    """The argument types of anyelement, anyarray … parameters."""

    elem: int = 0
    array: int = 0
    range: int = 0
    multirange: int = 0
    nonarray: bool = False
    enum: bool = False
    wants_multirange: bool = False
    args: int = 0


@dataclass(slots=True)
class _Family2:
    """The argument types of anycompatible, anycompatiblearray … parameters."""

    actual: list[int] = field(default_factory=list)
    type: int = 0
    array: int = 0
    range: int = 0
    range_elem: int = 0
    multirange: int = 0
    multirange_range: int = 0
    seen: bool = False
    nonarray: bool = False
    wants_array: bool = False
    wants_range: bool = False
    wants_multirange: bool = False


def consistent(actual: Sequence[int], declared: Sequence[int]) -> bool:
    """Whether the arguments' types fit the polymorphic parameters (check_generic_type_consistency)."""
    try:
        one, two = _collect(actual, declared)
        if one.args:
            _settle1(one, checking=True)
        if two.seen:
            _settle2(two, checking=True)
    except _Disagree:
        return False
    return True


def resolve(session: Session, actual: Sequence[int], declared: Sequence[int], result: int) -> tuple[list[int], int]:
    """The parameter types and the result type of a call, with polymorphic types replaced
    (enforce_generic_type_consistency)."""
    try:
        return _resolve(actual, declared, result)
    except _Disagree as problem:
        raise problem.error(session) from None


def _resolve(actual: Sequence[int], declared: Sequence[int], result: int) -> tuple[list[int], int]:
    if not any(t in lookup.POLYMORPHIC for t in declared):
        return list(declared), result
    one, two = _collect(actual, declared)
    one.nonarray |= result == oids.ANYNONARRAY
    one.enum |= result == oids.ANYENUM
    one.wants_multirange |= result == oids.ANYMULTIRANGE
    two.nonarray |= result == oids.ANYCOMPATIBLENONARRAY
    two.wants_array |= result == oids.ANYCOMPATIBLEARRAY
    two.wants_range |= result == oids.ANYCOMPATIBLERANGE
    two.wants_multirange |= result == oids.ANYCOMPATIBLEMULTIRANGE
    if one.args:
        if one.array == oids.ANYARRAY and (one.args != 1 or (result != oids.ANYARRAY and result in POLYMORPHIC_1)):
            raise _Disagree('cannot determine element type of "anyarray" argument')
        _settle1(one, checking=False)
    if two.seen:
        _settle2(two, checking=False)
    types = [_parameter(one, two, a, d) for a, d in zip(actual, declared, strict=True)]
    return types, _result(one, two, result)


def _alike(known: int, given: int, declared: str) -> int:
    if known and given != known:
        message = f'arguments declared "{declared}" are not all alike'
        raise _Disagree(message, known, given, detail=_VERSUS)
    return given


def _collect(actual: Sequence[int], declared: Sequence[int]) -> tuple[_Family1, _Family2]:
    one, two = _Family1(), _Family2()
    for given, parameter in zip(actual, declared, strict=True):
        if parameter in POLYMORPHIC_1:
            one.args += 1
            _collect1(one, given, parameter)
        elif parameter in lookup.POLYMORPHIC_2:
            two.seen = True
            _collect2(two, given, parameter)
    return one, two


def _collect1(one: _Family1, given: int, parameter: int) -> None:
    one.nonarray |= parameter == oids.ANYNONARRAY
    one.enum |= parameter == oids.ANYENUM
    one.wants_multirange |= parameter == oids.ANYMULTIRANGE
    if given == oids.UNKNOWN:
        return
    if parameter in _ELEMENTS:
        one.elem = _alike(one.elem, given, "anyelement")
    elif parameter == oids.ANYARRAY:
        one.array = _alike(one.array, lookup.base(given), "anyarray")
    elif parameter == oids.ANYRANGE:
        one.range = _alike(one.range, lookup.base(given), "anyrange")
    else:
        one.multirange = _alike(one.multirange, lookup.base(given), "anymultirange")


def _collect2(two: _Family2, given: int, parameter: int) -> None:
    two.nonarray |= parameter == oids.ANYCOMPATIBLENONARRAY
    two.wants_array |= parameter == oids.ANYCOMPATIBLEARRAY
    two.wants_range |= parameter == oids.ANYCOMPATIBLERANGE
    two.wants_multirange |= parameter == oids.ANYCOMPATIBLEMULTIRANGE
    if given == oids.UNKNOWN:
        return
    if parameter in _COMPATIBLE:
        two.actual.append(given)
        return
    given = lookup.base(given)
    if parameter == oids.ANYCOMPATIBLEARRAY:
        two.actual.append(_part(lookup.element(given), "anycompatiblearray", "an array", given))
    elif parameter == oids.ANYCOMPATIBLERANGE:
        fresh = not two.range
        two.range = _alike(two.range, given, "anycompatiblerange")
        if fresh:
            two.range_elem = _part(lookup.range_subtype(given), "anycompatiblerange", "a range type", given)
            two.actual.append(two.range_elem)
    else:
        two.multirange = _alike(two.multirange, given, "anycompatiblemultirange")
        two.multirange_range = _part(
            lookup.multirange_range(given), "anycompatiblemultirange", "a multirange type", given
        )


def _part(part: int, declared: str, kind: str, given: int) -> int:
    if not part:
        raise _Disagree(f"argument declared {declared} is not {kind} but type {{0}}", given)
    return part


def _agree(known: int, part: int, whole: int, declared: str, other: str) -> int:
    if known and part != known:
        message = f"argument declared {declared} is not consistent with argument declared {other}"
        raise _Disagree(message, whole, known, detail=_VERSUS)
    return part


def _settle1(one: _Family1, *, checking: bool) -> None:
    if one.array == oids.ANYARRAY:
        # columns of pg_stats have this type; it is allowed where the element type is not needed
        if not checking:
            one.elem = one.elem or oids.ANYELEMENT
    elif one.array:
        element = _part(lookup.element(one.array), "anyarray", "an array", one.array)
        one.elem = _agree(one.elem, element, one.array, "anyarray", "anyelement")
    if one.multirange:
        of = _part(lookup.multirange_range(one.multirange), "anymultirange", "a multirange type", one.multirange)
        one.range = _agree(one.range, of, one.multirange, "anymultirange", "anyrange")
    elif one.wants_multirange and one.range:
        one.multirange = lookup.range_multirange(one.range)
    if one.range:
        subtype = _part(lookup.range_subtype(one.range), "anyrange", "a range type", one.range)
        one.elem = _agree(one.elem, subtype, one.range, "anyrange", "anyelement")
    if checking:
        if (one.nonarray and lookup.is_array_domain(one.elem)) or (one.enum and not lookup.is_enum(one.elem)):
            raise _Disagree("")
        return
    if not one.elem:
        raise _Disagree("could not determine polymorphic type because input has type unknown")
    if one.nonarray and one.elem != oids.ANYELEMENT and lookup.is_array_domain(one.elem):
        raise _Disagree("type matched to anynonarray is an array type: {0}", one.elem)
    if one.enum and one.elem != oids.ANYELEMENT and not lookup.is_enum(one.elem):
        raise _Disagree("type matched to anyenum is not an enum type: {0}", one.elem)


def _settle2(two: _Family2, *, checking: bool) -> None:
    if two.multirange:
        if two.range:
            _agree(two.range, two.multirange_range, two.multirange, "anycompatiblemultirange", "anycompatiblerange")
        else:
            two.range = two.multirange_range
            two.range_elem = _part(
                lookup.range_subtype(two.range), "anycompatiblemultirange", "a multirange type", two.multirange
            )
            two.wants_range = True
            two.actual.append(two.range_elem)
    elif two.wants_multirange and two.range:
        two.multirange = lookup.range_multirange(two.range)
    if not two.actual:
        if not checking:
            two.type, two.array = oids.TEXT, oids.TEXT_ARRAY
            _require_ranges(two)
        return
    two.type = common_type_of(two.actual)
    if not all(castable(t, two.type, Context.IMPLICIT) for t in two.actual):
        raise _Disagree("arguments of anycompatible family cannot be cast to a common type")
    if two.nonarray and checking and lookup.is_array_domain(two.type):
        raise _Disagree("")
    if checking:
        if two.range_elem and two.range_elem != two.type:
            raise _Disagree("")
        return
    if two.wants_array:
        two.array = _array_of(two.type)
    _require_ranges(two)
    for wanted, whole, declared in (
        (two.wants_range, two.range, "anycompatiblerange"),
        (two.wants_multirange, two.multirange, "anycompatiblemultirange"),
    ):
        if wanted and two.range_elem != two.type:
            raise _Disagree(f"{declared} type {{0}} does not match anycompatible type {{1}}", whole, two.type)
    if two.nonarray and lookup.is_array_domain(two.type):
        raise _Disagree("type matched to anycompatiblenonarray is an array type: {0}", two.type)


def _require_ranges(two: _Family2) -> None:
    if two.wants_range and not two.range:
        raise _Disagree(_undetermined("anycompatiblerange"))
    if two.wants_multirange and not two.multirange:
        raise _Disagree(_undetermined("anycompatiblemultirange"))


def _undetermined(declared: str) -> str:
    return f"could not determine polymorphic type {declared} because input has type unknown"


def _array_of(elem: int) -> int:
    array = lookup.array_over(elem)
    if not array:
        raise _Disagree("could not find array type for data type {0}", elem, sqlstate="42704")
    return array


def common_type_of(types: Sequence[int]) -> int:
    """The common type of some types, by their OIDs alone (select_common_type_from_oids)."""
    best = types[0]
    if best != oids.UNKNOWN and all(t == best for t in types):
        return best
    best = lookup.base(best)
    for given in types[1:]:
        other = lookup.base(given)
        if other in (oids.UNKNOWN, best):
            continue
        if best == oids.UNKNOWN:
            best = other
        elif lookup.category(other) != lookup.category(best):
            raise _Disagree("argument types {0} and {1} cannot be matched", best, other)
        elif (
            not lookup.preferred(best)
            and castable(best, other, Context.IMPLICIT)
            and not castable(other, best, Context.IMPLICIT)
        ):
            best = other
    return oids.TEXT if best == oids.UNKNOWN else best


def _parameter(one: _Family1, two: _Family2, given: int, parameter: int) -> int:
    """The actual type of a parameter. Polymorphic ones of the anyelement family are replaced for arguments of unknown
    type only."""
    if parameter not in POLYMORPHIC_1 or given != oids.UNKNOWN:
        return _compatible(two, parameter)
    if parameter in _ELEMENTS:
        return one.elem
    if parameter == oids.ANYARRAY:
        one.array = one.array or _array_of(one.elem)
        return one.array
    if parameter == oids.ANYRANGE:
        if not one.range:
            raise _Disagree(_undetermined("anyrange"))
        return one.range
    if not one.multirange:
        raise _Disagree(_undetermined("anymultirange"))
    return one.multirange


def _result(one: _Family1, two: _Family2, result: int) -> int:
    if result in _ELEMENTS:
        return one.elem
    if result == oids.ANYARRAY:
        return one.array or _array_of(one.elem)
    if result in (oids.ANYRANGE, oids.ANYMULTIRANGE):
        typoid = one.range if result == oids.ANYRANGE else one.multirange
        if not typoid:
            raise _Disagree(_undetermined("anyrange" if result == oids.ANYRANGE else "anymultirange"))
        return typoid
    return _compatible(two, result)


def _compatible(two: _Family2, typoid: int) -> int:
    """The actual type of the anycompatible family; another type is itself."""
    if typoid in _COMPATIBLE:
        return two.type
    if typoid == oids.ANYCOMPATIBLEARRAY:
        return two.array
    if typoid == oids.ANYCOMPATIBLERANGE:
        return two.range
    return two.multirange if typoid == oids.ANYCOMPATIBLEMULTIRANGE else typoid
