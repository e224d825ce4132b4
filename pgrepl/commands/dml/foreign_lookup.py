"""Both sides of a foreign key: which keys are there, and which rows reference them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.constraint import constraint_row
from pgrepl.catalog.lock_modes import RowMode
from pgrepl.catalog.relation import Relation, relation
from pgrepl.commands.dml.foreign_key import ForeignKey
from pgrepl.commands.query.tables import Member, members
from pgrepl.errors import PgError
from pgrepl.expr import typefacts
from pgrepl.expr.casts import Context as CastContext
from pgrepl.expr.coerce import coerce_to_target
from pgrepl.expr.context import Context
from pgrepl.expr.evaluate import compile
from pgrepl.expr.index_info import index_info
from pgrepl.expr.opclasses import EQUAL, family_member
from pgrepl.expr.scope import Scope
from pgrepl.expr.tree import Var
from pgrepl.frozen import frozen
from pgrepl.lake.table import lake_table
from pgrepl.sql.nodes import CoercionForm
from pgrepl.sql.quote import quote_always
from pgrepl.types import oids
from pgrepl.types.builtin import opclass_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.place import Place

Key = tuple[Any, ...]
Row = tuple[Any, ...]

_INTEGERS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64}


class _NoMatch(Exception):
    """The value is none that the other type has."""


def tables_of(session: Session, oid: int) -> list[Member]:
    """Where rows of one side stand: the table itself, of a partitioned one all its leaves."""
    return members(session, oid, relation(session, oid).kind == "p")


@frozen
class Referencing:
    """A row that references one of the keys asked for."""

    number: int  # of the key
    relation: Relation
    place: Place
    row: Row


def present(session: Session, key: ForeignKey, values: Sequence[Key], *, own: bool = False) -> set[int]:
    """Which of the keys are in the referenced table, by their numbers. They are of the referencing columns' types, or
    with `own` of the referenced ones'."""
    from pgrepl.lake import local

    rel = relation(session, key.referenced)
    convert = _converters(session, key, to_referenced=True) if not own else None
    wanted, numbers = _converted(values, convert)
    found: set[int] = set()
    for member in tables_of(session, rel.oid):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.referenced_columns]
        table = lake_table(session, member.relation.oid)
        found.update(numbers[n] for n, _ in local.lookup(session, table, attnums, wanted))
    return found


def lock_referenced(session: Session, key: ForeignKey, values: Sequence[Key]) -> None:
    """Lock the rows that have the keys, so that nobody takes these away (FOR KEY SHARE)."""
    from pgrepl.commands.dml.locking import Standing, lock_rows, refuse_changed
    from pgrepl.lake import local

    rel = relation(session, key.referenced)
    wanted, _ = _converted(values, _converters(session, key, to_referenced=True))
    rows = []
    for member in tables_of(session, rel.oid):
        attnums = [member.numbers[number] for number in key.referenced_columns]
        table = lake_table(session, member.relation.oid)
        rows += [Standing(member.relation.oid, read[-1]) for _, read in local.lookup(session, table, attnums, wanted)]
    if not rows:
        return
    with _in_check(session, key):
        _, changed = lock_rows(session, rows, [RowMode.KEY_SHARE] * len(rows), verb="locking")
        refuse_changed(session, changed)
    session.transaction.refresh()


@contextmanager
def _in_check(session: Session, key: ForeignKey) -> Iterator[None]:
    """What goes wrong happened in the query that PostgreSQL's trigger runs (RI_FKey_check)."""
    try:
        yield
    except PgError as error:
        rel = relation(session, key.referenced)
        only = "" if rel.kind == "p" else "ONLY "
        columns = [rel.attributes[number - 1].name for number in key.referenced_columns]
        where = " AND ".join(f"{quote_always(name)} OPERATOR(pg_catalog.=) ${n}" for n, name in enumerate(columns, 1))
        table = f"{quote_always(rel.schema)}.{quote_always(rel.name)}"
        text = f'SQL statement "SELECT 1 FROM {only}{table} x WHERE {where} FOR KEY SHARE OF x"'
        context = error.report.context
        error.report = replace(error.report, context=text if context is None else f"{context}\n{text}")
        raise


def referencing(session: Session, key: ForeignKey, values: Sequence[Key]) -> list[Referencing]:
    """The rows that reference any of these keys of the referenced table, in the order of the keys."""
    from pgrepl.lake import local

    wanted, numbers = _converted(values, _converters(session, key, to_referenced=False))
    found = []
    for member in tables_of(session, key.referencing):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.columns]
        table = lake_table(session, member.relation.oid)
        width = len(member.relation.attributes)
        want = [column.attnum for column in table.columns]
        for n, read in local.lookup(session, table, attnums, wanted, want):
            row = table.own_row(width, read[:-1])
            found.append(Referencing(numbers[n], member.relation, read[-1], row))
    return sorted(found, key=lambda each: each.number)


def is_referenced(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """Which keys of the referenced table are referenced by some row, by their numbers."""
    from pgrepl.lake import local

    wanted, numbers = _converted(values, _converters(session, key, to_referenced=False))
    return _numbers_in(session, key, wanted, numbers, local.lookup)


def has_rows(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """Which values of the referencing columns are there, by their numbers."""
    from pgrepl.lake import local

    return _numbers_in(session, key, values, list(range(len(values))), local.lookup)


def _numbers_in(
    session: Session, key: ForeignKey, wanted: Sequence[Key], numbers: Sequence[int], lookup: Callable[..., Any]
) -> set[int]:
    found: set[int] = set()
    for member in tables_of(session, key.referencing):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.columns]
        found.update(numbers[n] for n, _ in lookup(session, lake_table(session, member.relation.oid), attnums, wanted))
    return found


# --- values of the one side's type among those of the other's -------------------------------------------------------


def _converters(session: Session, key: ForeignKey, *, to_referenced: bool) -> list[Callable[[Any], Any]]:
    own, other = column_types(session, key)
    pairs = zip(own, other, strict=True) if to_referenced else zip(other, own, strict=True)
    return [_equal_value(source, target) for source, target in pairs]


def column_types(session: Session, key: ForeignKey) -> tuple[list[int], list[int]]:
    """Of the referencing columns and of the referenced ones."""
    rel, other = relation(session, key.referencing), relation(session, key.referenced)
    return (
        [rel.attributes[number - 1].type for number in key.columns],
        [other.attributes[number - 1].type for number in key.referenced_columns],
    )


def _converted(values: Sequence[Key], convert: Sequence[Callable[[Any], Any]] | None) -> tuple[list[Key], list[int]]:
    """The keys as the other side would have them, and their numbers; a key that it cannot have is left out."""
    if convert is None:
        return list(values), list(range(len(values)))
    wanted, numbers = [], []
    for number, each in enumerate(values):
        try:
            wanted.append(tuple([one(value) for one, value in zip(convert, each, strict=True)]))
        except _NoMatch:
            continue
        numbers.append(number)
    return wanted, numbers


def _equal_value(source: int, target: int) -> Callable[[Any], Any]:
    """The value of the target type that an = between the types calls equal."""
    source, target = typefacts.base(source), typefacts.base(target)
    if source == target:
        return lambda value: value
    bits = _INTEGERS.get(target)
    if bits is not None:
        return lambda value: _integer(value, bits)
    if target == oids.NUMERIC:
        return lambda value: value if isinstance(value, Decimal) else Decimal(value)
    if target in (oids.FLOAT4, oids.FLOAT8):
        return float
    if target in (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ) and source in (
        oids.DATE,
        oids.TIMESTAMP,
        oids.TIMESTAMPTZ,
    ):
        from pgrepl.types.dates import USECS_PER_DAY

        if source == oids.DATE:
            return lambda value: value * USECS_PER_DAY
        return (lambda value: _day(value, USECS_PER_DAY)) if target == oids.DATE else (lambda value: value)
    return lambda value: value


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, (Decimal, float)):
        if value != value or value in (float("inf"), float("-inf")) or value != int(value):
            raise _NoMatch
        value = int(value)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _NoMatch
    return int(value)


def _day(value: int, length: int) -> int:
    if value % length:
        raise _NoMatch
    return value // length


def assigned(session: Session, source: int, target: int, typmod: int) -> Callable[[Any], Any]:
    """A value as a column of another type takes it by assignment."""
    if source == target:
        return lambda value: value
    expr = coerce_to_target(
        Scope(session),
        Var(source, attnum=1),
        source,
        target,
        typmod,
        CastContext.ASSIGNMENT,
        CoercionForm.IMPLICIT_CAST,
        -1,
    )
    assert expr is not None  # the foreign key could not have been made otherwise
    value_of = compile(expr, Context(session))
    return lambda value: value_of((value,))


def equality_operators(session: Session, key: ForeignKey) -> list[int]:
    """The = between the referenced and the referencing columns, as ATAddForeignKeyConstraint chooses them."""
    row = constraint_row(session, key.oid)
    info = index_info(session, row.conindid)
    classes = dict(zip(info.columns, info.opclasses, strict=False))
    own, _ = column_types(session, key)
    found = []
    for number, typoid in zip(key.referenced_columns, own, strict=True):
        opclass = opclass_by_oid(classes[number])
        assert opclass is not None
        operator = family_member(opclass.family, opclass.intype, typefacts.base(typoid), EQUAL)
        found.append(operator or family_member(opclass.family, opclass.intype, opclass.intype, EQUAL))
    return found
