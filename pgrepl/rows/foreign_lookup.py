"""Look-ups on both sides of a foreign key: which keys exist, and which rows reference them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.constraint import constraint_row
from pgrepl.catalog.lock_modes import RelationMode, RowMode
from pgrepl.catalog.relation import Relation, relation
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
from pgrepl.rows.equal_values import EqualValues, equal_values
from pgrepl.rows.foreign_key import ForeignKey
from pgrepl.rows.members import Member, members
from pgrepl.sql.nodes import CoercionForm
from pgrepl.sql.quote import quote_always
from pgrepl.types.builtin import opclass_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.lake.ctid import RowPlace

Key = tuple[Any, ...]
Row = tuple[Any, ...]


def tables_of(session: Session, oid: int) -> list[Member]:
    """The tables that hold the rows of one side: the table itself, or all leaves of a partitioned one."""
    return members(session, oid, relation(session, oid).kind == "p")


@frozen
class Referencing:
    """A row that references one of the wanted keys."""

    number: int  # of the key
    relation: Relation
    place: RowPlace
    row: Row
    columns: tuple[int, ...]  # where the key stands in it

    def still(self, row: Row) -> bool:
        """Whether a newer version of the row references the same key."""
        return all(row[number - 1] == self.row[number - 1] for number in self.columns)


def present(session: Session, key: ForeignKey, values: Sequence[Key], *, own: bool = False) -> set[int]:
    """The numbers of the keys that exist in the referenced table. They have the types of the referencing columns, or
    with `own` of the referenced ones."""
    rel = relation(session, key.referenced)
    convert = _converters(session, key, to_referenced=True) if not own else None
    wanted, numbers = _converted(values, convert)
    look = newest_rows if own or rel.kind == "p" else _rows_at_snapshot
    found: set[int] = set()
    for member in tables_of(session, rel.oid):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.referenced_columns]
        found.update(numbers[n] for n, _ in look(session, member.relation.oid, attnums, wanted))
    return found


Found = list[tuple[int, Row]]


def _rows_at_snapshot(
    session: Session, oid: int, attnums: Sequence[int], wanted: Sequence[Key], want: Sequence[int] = ()
) -> Found:
    from pgrepl.lake import local

    return local.lookup(session, lake_table(session, oid), attnums, wanted, want)


def newest_rows(
    session: Session, oid: int, attnums: Sequence[int], wanted: Sequence[Key], want: Sequence[int] = ()
) -> Found:
    """The rows of a table that have these keys in its newest state, also for a transaction that keeps its snapshot
    (ri_PerformCheck, detectNewRows)."""
    from pgrepl.lake.overlay import PROVISIONAL, own_rows

    found = _rows_at_snapshot(session, oid, attnums, wanted, want)
    transaction = session.transaction
    if transaction.is_writing or not (transaction.keeps_snapshot and transaction.locks_rows):
        return found
    mine = own_rows(session, lake_table(session, oid).table_id)
    own = [each for each in found if each[1][-1].row in mine or each[1][-1].row >= PROVISIONAL]
    with session.beside.newest() as now:
        others = [each for each in _rows_at_snapshot(now, oid, attnums, wanted, want) if each[1][-1].row not in mine]
    return own + others


def lock_referenced(session: Session, key: ForeignKey, values: Sequence[Key]) -> None:
    """Lock the rows that have the keys, so that no other transaction deletes them or changes their keys (FOR KEY
    SHARE)."""
    from pgrepl.lake import local
    from pgrepl.rows.locking import Standing, lock_rows, lock_tables, refuse_changed

    rel = relation(session, key.referenced)
    wanted, _ = _converted(values, _converters(session, key, to_referenced=True))
    rows = []
    for member in tables_of(session, rel.oid):
        attnums = [member.numbers[number] for number in key.referenced_columns]
        table = lake_table(session, member.relation.oid)
        rows += [Standing(member.relation.oid, read[-1]) for _, read in local.lookup(session, table, attnums, wanted)]
    if not rows:
        return
    lock_tables(session, dict.fromkeys([rel.oid, *(row.table for row in rows)]), RelationMode.ROW_SHARE)
    with _in_check(session, key):
        _, changed = lock_rows(session, rows, [RowMode.KEY_SHARE] * len(rows), verb="locking")
        refuse_changed(session, changed, locking=True)
    session.transaction.refresh()


@contextmanager
def _in_check(session: Session, key: ForeignKey) -> Iterator[None]:
    """Add the CONTEXT of the query that PostgreSQL's trigger runs to an error (RI_FKey_check)."""
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
    """The rows that reference any of these keys of the referenced table, in the order of the keys. A transaction that
    keeps its snapshot cannot change a row that was inserted since."""
    wanted, numbers = _converted(values, _converters(session, key, to_referenced=False))
    found = []
    for member in tables_of(session, key.referencing):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.columns]
        table = lake_table(session, member.relation.oid)
        width = len(member.relation.attributes)
        want = [column.attnum for column in table.columns]
        there = newest_rows(session, table.oid, attnums, wanted, want)
        if session.transaction.keeps_snapshot:
            known = {read[-1].row for _, read in _rows_at_snapshot(session, table.oid, attnums, wanted)}
            if any(read[-1].row not in known for _, read in there):
                raise PgError("40001", "could not serialize access due to concurrent update")
        for n, read in there:
            row = table.own_row(width, read[:-1])
            found.append(Referencing(numbers[n], member.relation, read[-1], row, tuple(attnums)))
    return sorted(found, key=lambda each: each.number)


def is_referenced(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """The numbers of the keys of the referenced table that are referenced."""
    wanted, numbers = _converted(values, _converters(session, key, to_referenced=False))
    return _numbers_in(session, key, wanted, numbers, newest_rows)


def has_rows(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """The numbers of the values that the referencing columns have."""
    return _numbers_in(session, key, values, list(range(len(values))), _rows_at_snapshot)


def _numbers_in(
    session: Session, key: ForeignKey, wanted: Sequence[Key], numbers: Sequence[int], look: Callable[..., Found]
) -> set[int]:
    found: set[int] = set()
    for member in tables_of(session, key.referencing):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.columns]
        found.update(numbers[n] for n, _ in look(session, member.relation.oid, attnums, wanted))
    return found


# --- conversion between the types of the two sides ----------------------------------------------------------------


def _converters(session: Session, key: ForeignKey, *, to_referenced: bool) -> list[EqualValues]:
    own, other = column_types(session, key)
    pairs = zip(own, other, strict=True) if to_referenced else zip(other, own, strict=True)
    return [equal_values(session, source, target) for source, target in pairs]


def column_types(session: Session, key: ForeignKey) -> tuple[list[int], list[int]]:
    """The types of the referencing columns and of the referenced ones."""
    rel, other = relation(session, key.referencing), relation(session, key.referenced)
    return (
        [rel.attributes[number - 1].type for number in key.columns],
        [other.attributes[number - 1].type for number in key.referenced_columns],
    )


def _converted(values: Sequence[Key], convert: Sequence[EqualValues] | None) -> tuple[list[Key], list[int]]:
    """The keys in the other side's types, and their numbers: none, one or several for each key."""
    if convert is None:
        return list(values), list(range(len(values)))
    wanted, numbers = [], []
    for number, each in enumerate(values):
        for equal in product(*[one(value) for one, value in zip(convert, each, strict=True)]):
            wanted.append(equal)
            numbers.append(number)
    return wanted, numbers


def assigned(session: Session, source: int, target: int, typmod: int) -> Callable[[Any], Any]:
    """Converts a value to a column of another type, as assignment does."""
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
