"""The options of CREATE and ALTER SEQUENCE, of serial and of identity columns: read, completed and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.typenames import type_of_name
from pgrepl.sql.def_elem import conflicting, get_int64, get_qualified_name, get_type_name
from pgrepl.sql.nodes import DefElem
from pgrepl.types.names import format_type
from pgrepl.types.oids import INT2, INT4, INT8

LIMITS = {INT2: (-(2**15), 2**15 - 1), INT4: (-(2**31), 2**31 - 1), INT8: (-(2**63), 2**63 - 1)}
_KNOWN = ("as", "increment", "start", "restart", "maxvalue", "minvalue", "cache", "cycle", "owned_by")


@dataclass(frozen=True, slots=True)
class Sequence:
    """A row of pg_sequence, with the sequence's current value."""

    type: int = INT8
    start: int = 0
    increment: int = 1
    maximum: int = 0
    minimum: int = 0
    cache: int = 1
    cycle: bool = False
    last_value: int = 0
    is_called: bool = False


def sequence_options(
    session: Session, options: tuple[DefElem, ...], old: Sequence | None = None, *, identity: bool = False
) -> tuple[Sequence, tuple[str, ...]]:
    """The sequence the options describe (`old` changed by them, in ALTER) and the OWNED BY name, as init_params
    does."""
    given: dict[str, DefElem] = {}
    for option in options:
        if option.name == "sequence_name":
            raise PgError("42601", "invalid sequence option SEQUENCE NAME", location=option.location)
        if option.name not in _KNOWN:
            raise PgError("XX000", f'option "{option.name}" not recognized')
        if option.name in given:
            conflicting(option)
        given[option.name] = option
    seq = old or Sequence()
    seq, whole_maximum, whole_minimum = _with_type(session, seq, old, given.get("as"), identity)
    if "increment" in given:
        seq = replace(seq, increment=get_int64(given["increment"]))
        if seq.increment == 0:
            raise PgError("22023", "INCREMENT must not be zero")
    if "cycle" in given:
        seq = replace(seq, cycle=bool(given["cycle"].value))
    seq = _with_bounds(seq, old, given, whole_maximum, whole_minimum)
    seq = _with_values(seq, old, given)
    if "cache" in given:
        seq = replace(seq, cache=get_int64(given["cache"]))
        if seq.cache <= 0:
            raise PgError("22023", f"CACHE ({seq.cache}) must be greater than zero")
    owned_by = get_qualified_name(given["owned_by"]) if "owned_by" in given else ()
    return seq, owned_by


def _with_type(
    session: Session, seq: Sequence, old: Sequence | None, option: DefElem | None, identity: bool
) -> tuple[Sequence, bool, bool]:
    """AS type. A bound at the limit of the old type moves to that of the new type."""
    if option is None:
        return seq, False, False
    type_, _ = type_of_name(session, get_type_name(option))
    if type_ not in LIMITS:
        what = "identity column type" if identity else "sequence type"
        raise PgError("22023", f"{what} must be smallint, integer, or bigint")
    low, high = LIMITS[seq.type]
    return (
        replace(seq, type=type_),
        old is not None and seq.maximum == high,
        old is not None and seq.minimum == low,
    )


def _with_bounds(
    seq: Sequence, old: Sequence | None, given: dict[str, DefElem], whole_maximum: bool, whole_minimum: bool
) -> Sequence:
    low, high = LIMITS[seq.type]
    maximum, minimum = given.get("maxvalue"), given.get("minvalue")
    if maximum is not None and maximum.value is not None:
        seq = replace(seq, maximum=get_int64(maximum))
    elif old is None or maximum is not None or whole_maximum:
        seq = replace(seq, maximum=high if seq.increment > 0 or whole_maximum else -1)
    if not low <= seq.maximum <= high:
        raise PgError(
            "22023", f"MAXVALUE ({seq.maximum}) is out of range for sequence data type {format_type(seq.type)}"
        )
    if minimum is not None and minimum.value is not None:
        seq = replace(seq, minimum=get_int64(minimum))
    elif old is None or minimum is not None or whole_minimum:
        seq = replace(seq, minimum=low if seq.increment < 0 or whole_minimum else 1)
    if not low <= seq.minimum <= high:
        raise PgError(
            "22023", f"MINVALUE ({seq.minimum}) is out of range for sequence data type {format_type(seq.type)}"
        )
    if seq.minimum >= seq.maximum:
        raise PgError("22023", f"MINVALUE ({seq.minimum}) must be less than MAXVALUE ({seq.maximum})")
    return seq


def _with_values(seq: Sequence, old: Sequence | None, given: dict[str, DefElem]) -> Sequence:
    """START and RESTART, within the bounds."""
    if "start" in given:
        seq = replace(seq, start=get_int64(given["start"]))
    elif old is None:
        seq = replace(seq, start=seq.minimum if seq.increment > 0 else seq.maximum)
    _within("START", seq.start, seq)
    if "restart" in given:
        restart = given["restart"]
        seq = replace(seq, last_value=seq.start if restart.value is None else get_int64(restart), is_called=False)
    elif old is None:
        seq = replace(seq, last_value=seq.start, is_called=False)
    _within("RESTART", seq.last_value, seq)
    return seq


def _within(word: str, value: int, seq: Sequence) -> None:
    if value < seq.minimum:
        raise PgError("22023", f"{word} value ({value}) cannot be less than MINVALUE ({seq.minimum})")
    if value > seq.maximum:
        raise PgError("22023", f"{word} value ({value}) cannot be greater than MAXVALUE ({seq.maximum})")


def as_options(seq: Sequence) -> tuple[DefElem, ...]:
    """The options that make a sequence like this one, for LIKE … INCLUDING IDENTITY (PostgreSQL's sequence_options)."""
    return (
        DefElem("cache", seq.cache),
        DefElem("cycle", seq.cycle),
        DefElem("increment", seq.increment),
        DefElem("maxvalue", seq.maximum),
        DefElem("minvalue", seq.minimum),
        DefElem("start", seq.start),
    )
