"""Look-ups on both sides of a foreign key: which keys exist, which rows reference them, also where the two types
differ. With PERIOD, the periods of the referenced rows must together cover that of the referencing row; their other
columns are equal, as those of any foreign key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.locks.lock_table import RelationMode, RowMode
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.casts import Context as CastContext
from pgrepl.expr.analyse.coerce import coerce_to_target
from pgrepl.expr.analyse.scope import Scope
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.containers import in_common, overlaps
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.functions.times.datetime import date_as_timestamp, local_to_utc
from pgrepl.expr.tree import Var
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.read import local
from pgrepl.lake.read.data_file import PROVISIONAL, own_rows
from pgrepl.lake.table import lake_table
from pgrepl.rows.changes import Member, members
from pgrepl.rows.foreign.key import ForeignKey
from pgrepl.rows.foreign.statements import check_statement, in_statement, restrict_statement
from pgrepl.rows.locking import Standing, as_found, lock_rows, lock_tables, refuse_changed
from pgrepl.rows.unique import Cover, Period
from pgrepl.sql.nodes import CoercionForm
from pgrepl.types import oids
from pgrepl.types.lake.lists import timestamp_to_lake
from pgrepl.types.times.dates import INFINITY, UNIX_EPOCH_USECS, USECS_PER_DAY, USECS_PER_SEC
from pgrepl.types.times.datetime_decoding import session_zone

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.read.data_file import RowPlace


EqualValues = Callable[[Any], Sequence[Any]]

_INTEGERS = {oids.INT2: 16, oids.INT4: 32, oids.INT8: 64}
_TIMES = (oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ)  # an = between two of them compares values of the latter


def equal_values(session: Session, source: int, target: int) -> EqualValues:
    """The map from a value of the source type to the equal values of the target type: none, one or several."""
    source, target = lookup.base(source), lookup.base(target)
    if source == target:
        return lambda value: (value,)
    bits = _INTEGERS.get(target)
    if bits is not None:
        return lambda value: _integers(value, bits)
    if target == oids.NUMERIC:
        return lambda value: (value if isinstance(value, Decimal) else Decimal(value),)
    if target in (oids.FLOAT4, oids.FLOAT8):
        return lambda value: (float(value),)
    if source in _TIMES and target in _TIMES:
        return _times(session, source, target)
    return lambda value: (value,)


def _integers(value: Any, bits: int) -> Sequence[int]:
    if isinstance(value, (Decimal, float)):
        if value != value or value in (float("inf"), float("-inf")) or value != int(value):
            return ()
        value = int(value)
    return (int(value),) if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else ()


def _times(session: Session, source: int, target: int) -> EqualValues:
    if _TIMES.index(source) < _TIMES.index(target):
        convert = _conversion(session, source, target)

        def converted(value: int) -> Sequence[int]:
            moment = convert(value)
            return () if moment is None else (moment,)

        return converted

    back = _conversion(session, target, source)
    candidates = _local_times(session) if source == oids.TIMESTAMPTZ else lambda value: {value}

    def sources(value: int) -> Sequence[int]:
        if abs(value) == INFINITY:
            return (value,)
        values = candidates(value)
        if target == oids.DATE:
            values = {timestamp // USECS_PER_DAY for timestamp in values}
        return [candidate for candidate in values if back(candidate) == value]

    return sources


def _conversion(session: Session, source: int, target: int) -> Callable[[int], int | None]:
    """The cast to the later type; None for a value out of its range, to which nothing is equal."""
    style = session.text_style

    def convert(value: int) -> int | None:
        try:
            moment = date_as_timestamp(value) if source == oids.DATE else value
            if target == oids.TIMESTAMPTZ:
                moment = local_to_utc(moment, style)
            timestamp_to_lake(moment)  # a table holds fewer
        except PgError:
            return None
        return moment

    return convert


def _local_times(session: Session) -> Callable[[int], set[int]]:
    """The local times that may mean a moment. Those that are left out when clocks go forward mean later ones, so that
    two may mean the same."""
    zone = session_zone(session.text_style)

    def local(value: int) -> set[int]:
        near = [value - UNIX_EPOCH_USECS + days * USECS_PER_DAY for days in (-1, 0, 1)]
        return {value + zone.at(moment // USECS_PER_SEC).seconds * USECS_PER_SEC for moment in near}

    return local


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
    if key.period:
        return _covered(session, key, values)
    rel = relation(session, key.referenced)
    convert = converters(session, key, to_referenced=True) if not own else None
    wanted, numbers = converted(values, convert)
    look = newest_rows if own or rel.kind == "p" else rows_at_snapshot
    return set(_rows_with(session, rel.oid, key.referenced_columns, wanted, numbers, look))


Found = list[tuple[int, Row]]
Look: TypeAlias = "Callable[[Session, int, Sequence[int], Sequence[Key], Sequence[int]], Found]"


def rows_at_snapshot(
    session: Session, oid: int, attnums: Sequence[int], wanted: Sequence[Key], want: Sequence[int] = ()
) -> Found:
    return local.lookup(session, lake_table(session, oid), attnums, wanted, want)


def newest_rows(
    session: Session, oid: int, attnums: Sequence[int], wanted: Sequence[Key], want: Sequence[int] = ()
) -> Found:
    """The rows of a table that have these keys in its newest state, also for a transaction that keeps its snapshot
    (ri_PerformCheck, detectNewRows)."""
    standing = rows_at_snapshot(session, oid, attnums, wanted, want)
    transaction = session.transaction
    if transaction.is_writing or not (transaction.keeps_snapshot and transaction.locks_rows):
        return standing
    mine = own_rows(session, lake_table(session, oid).table_id)
    own = [match for match in standing if match[1][-1].row in mine or match[1][-1].row >= PROVISIONAL]
    with session.beside.newest() as now:
        others = [match for match in rows_at_snapshot(now, oid, attnums, wanted, want) if match[1][-1].row not in mine]
    return own + others


def lock_referenced(session: Session, key: ForeignKey, values: Sequence[Key]) -> None:
    """Lock the rows that have the keys."""
    if key.period:
        _lock_covering(session, key, values)
        return
    wanted, _ = converted(values, converters(session, key, to_referenced=True))
    rows = []
    for member in tables_of(session, key.referenced):
        attnums = [member.numbers[number] for number in key.referenced_columns]
        read_rows = rows_at_snapshot(session, member.relation.oid, attnums, wanted)
        rows += [Standing(member.relation.oid, read[-1]) for _, read in read_rows]
    lock_key_share(session, key, rows, check_statement)


def lock_referencing(session: Session, key: ForeignKey, rows: Sequence[Standing]) -> bool:
    """Lock rows that reference a removed key. True: a transaction that was waited for has deleted one. Rows that a kept
    snapshot does not have are committed."""
    if session.transaction.keeps_snapshot:
        rows = [row for row in rows if as_found(session, row) is not None]
    return lock_key_share(session, key, rows, restrict_statement)


def lock_key_share(
    session: Session, key: ForeignKey, rows: Sequence[Standing], statement: Callable[[Session, ForeignKey], str]
) -> bool:
    """Lock rows, so that no other transaction deletes them or changes their keys (FOR KEY SHARE). True: another has
    done so meanwhile."""
    if not rows:
        return False
    tables = dict.fromkeys([key.referenced, *(row.table for row in rows)])
    lock_tables(session, tables, RelationMode.ROW_SHARE)
    with in_statement(statement, session, key):
        _, changed = lock_rows(session, rows, [RowMode.KEY_SHARE] * len(rows), verb="locking")
        refuse_changed(session, changed, locking=True)
    session.transaction.refresh()
    return bool(changed)


def referencing(session: Session, key: ForeignKey, values: Sequence[Key]) -> list[Referencing]:
    """The rows that reference any of these keys of the referenced table, in the order of the keys. A transaction that
    keeps its snapshot cannot change a row that was inserted since."""
    wanted, numbers = converted(values, converters(session, key, to_referenced=False))
    references = []
    for member in tables_of(session, key.referencing):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in key.columns]
        table = lake_table(session, member.relation.oid)
        width = len(member.relation.attributes)
        want = [column.attnum for column in table.columns]
        there = newest_rows(session, table.oid, attnums, wanted, want)
        if session.transaction.keeps_snapshot:
            known = {read[-1].row for _, read in rows_at_snapshot(session, table.oid, attnums, wanted)}
            if any(read[-1].row not in known for _, read in there):
                raise PgError("40001", "could not serialize access due to concurrent update")
        for n, read in there:
            row = table.own_row(width, read[:-1])
            references.append(Referencing(numbers[n], member.relation, read[-1], row, tuple(attnums)))
    return sorted(references, key=lambda reference: reference.number)


RowsOfKeys = dict[int, list[Standing]]
"""Rows by the numbers of the keys that they have or reference."""


def references(session: Session, key: ForeignKey, values: Sequence[Key], *, restrict: bool) -> RowsOfKeys:
    """The rows that reference keys of the referenced table. Without `restrict`, a key that another row has now does not
    count."""
    if key.period:
        return _left_bare(session, key, values)
    wanted, numbers = converted(values, converters(session, key, to_referenced=False))
    used = _rows_with(session, key.referencing, key.columns, wanted, numbers, newest_rows)
    if used and not restrict:
        asked = sorted(used)
        for number in present(session, key, [values[number] for number in asked], own=True):
            del used[asked[number]]
    return used


def has_rows(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """The numbers of the values that the referencing columns have."""
    numbers = range(len(values))
    return set(_rows_with(session, key.referencing, key.columns, values, numbers, rows_at_snapshot))


def _rows_with(
    session: Session, table: int, columns: Sequence[int], wanted: Sequence[Key], numbers: Sequence[int], look: Look
) -> RowsOfKeys:
    rows_of_keys: RowsOfKeys = {}
    for member in tables_of(session, table):
        if not wanted:
            break
        attnums = [member.numbers[number] for number in columns]
        for n, read in look(session, member.relation.oid, attnums, wanted, ()):
            rows_of_keys.setdefault(numbers[n], []).append(Standing(member.relation.oid, read[-1]))
    return rows_of_keys


# --- PERIOD -----------------------------------------------------------------------------------------------------------


PeriodsOfKeys = dict[Key, list[tuple[Period, Standing]]]


def _covered(session: Session, key: ForeignKey, values: Sequence[Key]) -> set[int]:
    """The numbers of the keys of the referencing table whose periods are covered (RI_FKey_check)."""
    covers = _covers(_referenced(session, key, values))
    return {number for number, (*others, period) in enumerate(values) if covers[tuple(others)].covers(period)}


def _left_bare(session: Session, key: ForeignKey, values: Sequence[Key]) -> RowsOfKeys:
    """The rows that reference keys of the referenced table for a time that no row covers now (ri_restrict)."""
    keys = _others(values)
    covers = _covers(_periods(session, key.referenced, key.referenced_columns, keys, None, newest_rows))
    convert = converters(session, key, to_referenced=False)[:-1]
    used = _periods(session, key.referencing, key.columns, keys, convert, newest_rows)
    bare = {
        plain_key: [row for row in rows if not covers[plain_key].covers(row[0])] for plain_key, rows in used.items()
    }
    rows_of_keys: RowsOfKeys = {}
    for number, (*others, period) in enumerate(values):
        cover = covers[tuple(others)]
        for one, row in bare[tuple(others)]:
            if overlaps(one, period) and not cover.covers(in_common(one, period)):
                rows_of_keys.setdefault(number, []).append(row)
    return rows_of_keys


def _lock_covering(session: Session, key: ForeignKey, values: Sequence[Key]) -> None:
    """Lock the rows whose periods cover parts of those of the keys."""
    wanted: dict[Key, list[Period]] = {}
    for *others, period in values:
        wanted.setdefault(tuple(others), []).append(period)
    there = _referenced(session, key, values, rows_at_snapshot)
    rows = []
    for plain_key, periods in wanted.items():
        asked = Cover(periods)
        rows += [row for period, row in there[plain_key] if asked.meets(period)]
    lock_key_share(session, key, rows, check_statement)


def _referenced(session: Session, key: ForeignKey, values: Sequence[Key], look: Look | None = None) -> PeriodsOfKeys:
    """The referenced rows, by keys of the referencing table."""
    partitioned = relation(session, key.referenced).kind == "p"
    look = look or (newest_rows if partitioned else rows_at_snapshot)
    convert = converters(session, key, to_referenced=True)[:-1]
    return _periods(session, key.referenced, key.referenced_columns, _others(values), convert, look)


def _others(values: Sequence[Key]) -> list[Key]:
    """The keys without their periods, each once."""
    return list(dict.fromkeys(key[:-1] for key in values))


def _covers(periods: PeriodsOfKeys) -> dict[Key, Cover]:
    return {key: Cover(period for period, _ in there) for key, there in periods.items()}


def _periods(
    session: Session,
    table: int,
    columns: Sequence[int],
    keys: Sequence[Key],
    convert: Sequence[EqualValues] | None,
    look: Look,
) -> PeriodsOfKeys:
    """The periods of the rows of one side, by the other columns of the key."""
    wanted, numbers = converted(keys, convert)
    periods_of_keys: PeriodsOfKeys = {key: [] for key in keys}
    for member in tables_of(session, table):
        *others, last = [member.numbers[number] for number in columns]
        for n, (period, place) in look(session, member.relation.oid, others, wanted, [last]):
            if period is not None:
                periods_of_keys[keys[numbers[n]]].append((period, Standing(member.relation.oid, place)))
    return periods_of_keys


# --- conversion between the types of the two sides ----------------------------------------------------------------


def converters(session: Session, key: ForeignKey, *, to_referenced: bool) -> list[EqualValues]:
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


def converted(values: Sequence[Key], convert: Sequence[EqualValues] | None) -> tuple[list[Key], list[int]]:
    """The keys in the other side's types, and their numbers: none, one or several for each key."""
    if convert is None:
        return list(values), list(range(len(values)))
    wanted, numbers = [], []
    for number, key in enumerate(values):
        for equal in product(*[one(value) for one, value in zip(convert, key, strict=True)]):
            wanted.append(equal)
            numbers.append(number)
    return wanted, numbers


def assigned(session: Session, source: int, target: int, typmod: int) -> Callable[[Any], Any]:
    """Converts a value to a column of another type, as assignment does."""
    if source == target:
        return lambda value: value
    var, form = Var(source, attnum=1), CoercionForm.IMPLICIT_CAST
    expr = coerce_to_target(Scope(session), var, source, target, typmod, CastContext.ASSIGNMENT, form, -1)
    assert expr is not None  # the foreign key could not have been made otherwise
    value_of = compile(expr, Context(session))
    return lambda value: value_of((value,))
