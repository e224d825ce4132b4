"""Rows of the system tables: read, insert, update, delete, by equality of columns.

A session remembers the rows that it has read until the table is written. In versioned tables only current rows are
seen; an update ends one version and begins another. A session of the past (`session.as_of`) sees the versions of
then, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pgrepl.catalog.store import declarative
from pgrepl.catalog.store.declarative import AS_OF, WATCHED, Statement, SystemRow, SystemTable, VersionedRow, Where
from pgrepl.ground.errors import PgError

if TYPE_CHECKING:
    from pgrepl.catalog.session.context import CatalogSession

NOT_NULL: Any = object()  # in a condition: any value but NULL
_REMEMBERED = 4096  # answers a session keeps
_BEATING = frozenset({"pgrepl_worker", "pgrepl_copy"})  # changed by heartbeats, which PostgreSQL does not count
_Row = TypeVar("_Row", bound=SystemRow)


def new_oid(session: CatalogSession) -> int:
    """The next object identifier of the instance; none is ever given twice."""
    return session.transaction.numbering.next_oid()


def rows(session: CatalogSession, table: type[_Row], **eq: Any) -> list[_Row]:
    """The rows whose columns equal the given values; a tuple, list or set stands for any of its members."""
    return list(_remembered(session, table, eq))


def one(session: CatalogSession, table: type[_Row], **eq: Any) -> _Row | None:
    """The first such row, or None."""
    listed = _remembered(session, table, eq)
    return listed[0] if listed else None


def _remembered(session: CatalogSession, table: type[_Row], eq: dict[str, Any]) -> list[_Row]:
    """The rows that the session remembers, or reads now."""
    session.transaction.require_read()
    if table.__name__ in _BEATING and not session.link.is_sqlite:
        return _read(session, table, eq)
    memory = session.memory.get(table.__name__)
    if memory is None:
        memory = session.memory[table.__name__] = {}
    key = tuple(eq.items())
    try:
        known = memory.get(key)
    except TypeError:  # a list or a set among the values
        return _read(session, table, eq)
    if known is not None:
        return cast("list[_Row]", known)  # each table has a memory of its own
    if len(memory) >= _REMEMBERED:
        memory.clear()
    listed = _read(session, table, eq)
    memory[key] = [*listed]
    return listed


def remember(session: CatalogSession, table: type[_Row], row: _Row, **eq: Any) -> None:
    """Remember the only row whose columns equal the given values; the caller has just written it."""
    session.memory.setdefault(table.__name__, {})[tuple(eq.items())] = [row]


def insert(session: CatalogSession, table: type[SystemRow], **values: Any) -> None:
    insert_many(session, table, [values])


def insert_many(session: CatalogSession, table: type[SystemRow], values: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns; a column that is not named is NULL."""
    if not values:
        return
    session.transaction.require_write()
    if table.__name__ in WATCHED:
        session.transaction.numbering.definition_changes.note(table.__name__, values)
    versioned = table.__table__.versioned
    names = tuple(values[0])
    if versioned:
        snapshot = {"begin_snapshot": session.snapshot()}
        values = [{**v, **snapshot} for v in values]
        names = (*names, "begin_snapshot")
    statement = _statement(session, "insert", table, names, ())
    link = session.link
    bound = [statement.bind(v) for v in values]
    if len(bound) == 1:
        link.execute(statement.sql, bound[0])
    else:
        link.execute_many(statement.sql, bound)
    if link.is_sqlite and declarative.is_summed(table.__table__):
        declarative.add(link, table.__table__, [statement.summed((*row, None)) for row in bound])
    session.forget(table)


def update(session: CatalogSession, table: type[SystemRow], where: Mapping[str, Any], **values: Any) -> int:
    """Update the matching rows; returns their number."""
    session.transaction.require_write()
    if not table.__table__.versioned:
        if table.__name__ in WATCHED:
            _watch(session, table, _read(session, table, where))
        return _write(session, "update", table, values, where)
    snapshot = session.snapshot()
    current = _read(session, table, where)
    if table.__name__ in WATCHED:
        _watch(session, table, current)
    for row in current:
        assert isinstance(row, VersionedRow)
        if row.begin_snapshot == snapshot:
            _write(session, "update", table, values, {"row_version": row.row_version})
            continue
        _write(session, "update", table, {"end_snapshot": snapshot}, {"row_version": row.row_version})
        fresh = row._asdict()
        del fresh["row_version"], fresh["begin_snapshot"], fresh["end_snapshot"]
        insert_many(session, table, [{**fresh, **values}])
    session.forget(table)
    return len(current)


def amend(session: CatalogSession, table: type[SystemRow], where: Mapping[str, Any], **values: Any) -> None:
    """Update current rows without new versions, such as with the ids that they have in the lake."""
    session.transaction.require_write()
    _write(session, "update", table, values, where)


def delete(session: CatalogSession, table: type[SystemRow], **eq: Any) -> int:
    """Delete the matching rows; returns their number."""
    session.transaction.require_write()
    if table.__name__ in WATCHED:
        _watch(session, table, _read(session, table, eq))
    if not table.__table__.versioned:
        return _write(session, "delete", table, {}, eq)
    snapshot = session.snapshot()
    # versions that began at this snapshot leave no trace
    removed = _write(session, "delete", table, {}, {**eq, "begin_snapshot": snapshot})
    return removed + _write(session, "update", table, {"end_snapshot": snapshot}, eq)


def _watch(session: CatalogSession, table: type[SystemRow], changing: Sequence[SystemRow]) -> None:
    """Note rows that are about to change, for DuckLake's definitions to follow."""
    session.transaction.numbering.definition_changes.note(table.__name__, [row._asdict() for row in changing])


def count(session: CatalogSession, table: type[SystemRow], **eq: Any) -> int:
    return len(rows(session, table, **eq))


def _statement(
    session: CatalogSession, action: str, table: type[SystemRow], names: tuple[str, ...], where: Where
) -> Statement:
    key = (action, table.__name__, names, where)
    known: Statement | None = session.catalog.statements.get(key)
    if known is None:
        known = Statement(action, table.__table__, names, where, is_sqlite=session.link.is_sqlite)
        session.catalog.statements[key] = known
    return known


def _where(eq: Mapping[str, Any]) -> tuple[Where, dict[str, Any]] | None:
    shape: list[tuple[str, int]] = []
    values: dict[str, Any] = {}
    for name, value in eq.items():
        if value is None:
            shape.append((name, 0))
        elif value is NOT_NULL:
            shape.append((name, -1))
        elif isinstance(value, (tuple, list, set, frozenset)):
            members = list(value)
            if not members:
                return None
            while len(members) & (len(members) - 1):  # pad to a power of two: fewer different statements
                members.append(members[-1])
            if len(members) == 1:
                shape.append((name, 1))
                values[f"w_{name}"] = members[0]
                continue
            shape.append((name, len(members)))
            values.update({f"w_{name}_{i}": m for i, m in enumerate(members)})
        else:
            shape.append((name, 1))
            values[f"w_{name}"] = value
    return tuple(shape), values


_MOST_MEMBERS = 8192


def _read(session: CatalogSession, table: type[_Row], eq: Mapping[str, Any]) -> list[_Row]:
    for name, value in eq.items():
        if isinstance(value, (tuple, list, set, frozenset)) and len(value) > _MOST_MEMBERS:
            members = list(value)
            parts = (members[i : i + _MOST_MEMBERS] for i in range(0, len(members), _MOST_MEMBERS))
            return [row for part in parts for row in _read(session, table, {**eq, name: part})]
    session.transaction.require_read()
    where = _where(eq)
    if where is None:
        return []
    shape, values = where
    names: tuple[str, ...] = ()
    if session.as_of is not None and table.__table__.versioned:
        names, values = (AS_OF,), {**values, AS_OF: session.as_of}
    statement = _statement(session, "select", table, names, shape)
    stored = session.link.execute(statement.sql, statement.bind(values))
    try:
        return _as_rows(table, stored, statement.readers)
    except ValueError as problem:
        what = f'catalog "{session.catalog.name}" is damaged: {table.__name__}: {problem}'
        raise PgError("XX001", what) from problem


def _as_rows(
    table: type[_Row], stored: Iterable[tuple[Any, ...]], readers: list[tuple[int, Callable[[Any], Any]]]
) -> list[_Row]:
    if not readers:
        return [table(row) for row in stored]
    out = []
    for row in stored:
        values = list(row)
        for position, reader in readers:
            if values[position] is not None:
                values[position] = reader(values[position])
        out.append(table(values))
    return out


def _write(
    session: CatalogSession, action: str, table: type[SystemRow], values: Mapping[str, Any], eq: Mapping[str, Any]
) -> int:
    where = _where(eq)
    if where is None:
        return 0
    shape, bound = where
    link = session.link
    before = _raw(session, table, shape, bound) if link.is_sqlite and declarative.is_summed(table.__table__) else []
    statement = _statement(session, action, table, tuple(values), shape)
    parameters = statement.bind({**values, **bound})
    link.execute(statement.sql, parameters)
    changed = link.changed_rows
    if before:
        declarative.add(link, table.__table__, before, -1)
        if action == "update":
            names = declarative.checksum_columns(table.__table__)
            after = [list(row) for row in before]
            for place, value in zip(map(names.index, values), parameters, strict=False):
                for row in after:
                    row[place] = value
            declarative.add(link, table.__table__, after)
    session.forget(table)
    return changed


def _raw(
    session: CatalogSession, table: type[SystemRow], shape: Where, bound: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """The stored values of the rows that a statement is about to change."""
    statement = _statement(session, "select", table, (), shape)
    stored = session.link.execute(statement.sql, statement.bind(bound))
    return [row[1:] for row in stored] if table.__table__.versioned else stored


def expire(session: CatalogSession, table: SystemTable, oldest: int) -> None:
    """Delete the versions that ended before a snapshot."""
    link = session.link
    condition = "WHERE end_snapshot <= ?"
    if link.is_sqlite:
        declarative.add(link, table, declarative.rows(link, table, condition, (oldest,)), -1)
    link.execute(f"DELETE FROM {table.name} {condition}", (oldest,))
