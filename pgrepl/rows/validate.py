"""Checks of the existing rows for a change of definition: ALTER TABLE, CREATE INDEX, partitions attached and
detached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import inheritors, unproven
from pgrepl.catalog.session.context import LOCAL_USERID_CHANGE
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER
from pgrepl.catalog.store.tables import pg_class
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.analyse.sorting import LESS, equality_operator, opclass_operator
from pgrepl.expr.catalog_trees import IndexInfo, PartitionBound, attnum_map, index_info, partition_key
from pgrepl.expr.partition_constraint import bound_constraint, partition_constraint
from pgrepl.expr.tree import Expr
from pgrepl.expr.walk import map_attnums
from pgrepl.ground.errors import PgError
from pgrepl.lake.table import lake_table
from pgrepl.rows.after_triggers import Queue
from pgrepl.rows.changes import define_now
from pgrepl.rows.checks_table import own
from pgrepl.rows.foreign.key import (
    ForeignKey,
    foreign_key,
    index_key,
    key_values,
    mixed_nulls,
    not_present,
    table_error,
)
from pgrepl.rows.requirements import (
    Asking,
    CheckHolds,
    DefaultPartition,
    DomainHolds,
    Indexed,
    InPartition,
    KeysExist,
    NotNull,
    NotReferenced,
    Requirement,
    Run,
    Unique,
    column,
    every,
    is_false,
    is_not_null,
    is_null,
    some,
)
from pgrepl.rows.unwritten import Event, EventKind
from pgrepl.sql.keywords import quote_always
from pgrepl.sql.nodes import SelectStmt
from pgrepl.sql.parser import parse
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


def validate(session: Session, requirement: Requirement, run: Run) -> None:
    """Raise PostgreSQL's error unless all rows of a table, and of its children where the requirement is inherited,
    satisfy it. `run` runs a query."""
    tables = [relation(session, oid) for oid in inheritors(session, requirement.table)]
    below = isinstance(requirement, (InPartition, DefaultPartition, NotReferenced))
    for rel in tables if below else tables[:1]:
        if rel.kind in "rm" and _has_rows(session, rel):
            _CHECKS[type(requirement)](Asking(session, rel, run), rel, requirement)


def _has_rows(session: Session, rel: Relation) -> bool:
    """Whether the table has rows. The statement's changes of definitions are brought into the lake first."""
    row = one(session, pg_class, oid=rel.oid)
    if row is None or row.table_id is None:
        return False
    define_now(session)
    from pgrepl.lake.read.files import estimate

    return estimate(session, lake_table(session, rel.oid)) > 0


# --- what must hold ---------------------------------------------------------------------------------------------------


def _not_null(asking: Asking, rel: Relation, requirement: NotNull) -> None:
    unknown = unproven(asking.session, rel.oid)
    columns = [a for a in rel.columns if a.notnull and a.num not in unknown]
    if not columns:
        return
    exprs = [column(rel, a.num) for a in columns]
    row = asking.first(exprs, some([is_null(expr) for expr in exprs]))
    if row is not None:
        name = next(a.name for a, value in zip(columns, row, strict=True) if value is None)
        message = f'column "{name}" of relation "{rel.name}" contains null values'
        raise table_error(rel, "23502", message, column=name)


def _check(asking: Asking, rel: Relation, requirement: CheckHolds) -> None:
    if asking.first([], is_false(own(requirement.expr, rel))) is not None:
        message = f'check constraint "{requirement.name}" of relation "{rel.name}" is violated by some row'
        raise table_error(rel, "23514", message, constraint=requirement.name)


def _domain(asking: Asking, rel: Relation, requirement: DomainHolds) -> None:
    """As validateDomainCheckConstraint and validateDomainNotNullConstraint: the first such row, and its first such
    column."""
    faults = [
        is_null(column(rel, attnum)) if expr is None else is_false(own(expr, rel))
        for attnum, expr in requirement.columns
    ]
    row = asking.first(faults, some(faults))
    if row is None:
        return
    attnum, expr = next(pair for pair, value in zip(requirement.columns, row, strict=True) if value)
    name = rel.attributes[attnum - 1].name
    fault = "null values" if expr is None else "values that violate the new constraint"
    message = f'column "{name}" of table "{rel.name}" contains {fault}'
    raise table_error(rel, "23502" if expr is None else "23514", message, column=name)


def _unique(asking: Asking, rel: Relation, requirement: Unique) -> None:
    """Raises as the sort does that builds a unique index (comparetup_index_btree)."""
    session = asking.session
    info = index_info(session, requirement.index)
    if info.is_temporal:
        _without_overlaps(session, rel, info)
        return
    exprs = iter(info.exprs)
    count = info.key_count
    keys = [own(column(rel, attnum) if attnum else next(exprs), rel) for attnum in info.columns[:count]]
    operators = [(equality_operator(oid), opclass_operator(oid, LESS)) for oid in info.opclasses[:count]]
    conditions = [] if info.predicate is None else [own(info.predicate, rel)]
    present = [] if info.nulls_not_distinct else [is_not_null(key) for key in keys]
    if not info.exprs:
        conditions += present
        present = []  # an expression is computed once for each row: its groups are asked
    duplicate = asking.duplicate(keys, operators, every(conditions), present)
    if duplicate is not None:
        shown = index_key(session, info, duplicate)
        detail = "Duplicate keys exist." if shown is None else f"{shown} is duplicated."
        message = f'could not create unique index "{info.name}"'
        raise table_error(rel, "23505", message, detail=detail, constraint=info.name)


def _without_overlaps(session: Session, rel: Relation, info: IndexInfo) -> None:
    """Rows that agree in the other columns, in the order of their periods: each is compared with those that begin
    before it ends."""
    from pgrepl.rows.unique import TemporalIndex, first_clash

    index = TemporalIndex(session, rel, info)
    periods: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in _rows(session, rel, sorted(index.attnums)):
        index.refuse(row)
        values = index.values(row)
        if values is not None:
            periods.setdefault(index.key(values), []).append(values)
    for same_key in periods.values():
        clash = first_clash(same_key)
        if clash is not None:
            one, other = (index_key(session, info, values) for values in clash)
            detail = None if one is None or other is None else f"{one} conflicts with k{other[1:]}."
            message = f'could not create exclusion constraint "{info.name}"'
            raise table_error(rel, "23P01", message, detail=detail or "Key conflicts exist.", constraint=info.name)


def _rows(session: Session, rel: Relation, columns: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, with NULL for all other columns."""
    from pgrepl.lake.read import local

    for read in local.rows(session, lake_table(session, rel.oid), columns, places=True):
        row: list[Any] = [None] * len(rel.attributes)
        for number, value in zip(columns, read, strict=False):
            row[number - 1] = value
        yield tuple(row)


def _indexed(asking: Asking, rel: Relation, requirement: Indexed) -> None:
    """Compute the expressions, as index_build does."""
    session = asking.session
    info = index_info(session, requirement.index)
    predicate = None if info.predicate is None else own(info.predicate, rel)
    asking.compute([own(expr, rel) for expr in info.exprs], predicate)


def _bound(session: Session, parent: int, bound: PartitionBound, rel: Relation) -> list[Expr]:
    """The bound's condition, and those of the parent, over the columns of a table below."""
    key = partition_key(session, parent)
    assert key is not None
    parts = [*partition_constraint(session, parent), *bound_constraint(session, parent, key, bound)]
    numbers = attnum_map(rel, relation(session, parent))
    return [map_attnums(part, numbers) for part in parts]


def _in_partition(asking: Asking, rel: Relation, requirement: InPartition) -> None:
    session = asking.session
    parts = _bound(session, requirement.parent, requirement.bound, rel)
    if parts and asking.first([], some([is_false(part) for part in parts])) is not None:
        raise table_error(rel, "23514", f'partition constraint of relation "{rel.name}" is violated by some row')


def _default_partition(asking: Asking, rel: Relation, requirement: DefaultPartition) -> None:
    session = asking.session
    parts = _bound(session, requirement.parent, requirement.bound, rel)
    if asking.first([], every(parts)) is not None:
        default = relation(session, requirement.table)
        would = f'updated partition constraint for default partition "{default.name}" would be violated by some row'
        raise table_error(default, "23514", would)


# --- foreign keys -----------------------------------------------------------------------------------------------------


def _keys_exist(asking: Asking, rel: Relation, requirement: KeysExist) -> None:
    """Raises for a row whose key is not referenced anywhere (RI_Initial_Check)."""
    session = asking.session
    key = foreign_key(session, requirement.constraint)
    if key.period:
        _periods_exist(session, rel, key)
        return
    other = relation(session, key.referenced)
    own_names, other_names = _names(rel, key.columns), _names(other, key.referenced_columns)
    pairs = " AND ".join(f"pk.{theirs} = fk.{ours}" for ours, theirs in zip(own_names, other_names, strict=True))
    present = (" OR " if key.match_full else " AND ").join(f"fk.{name} IS NOT NULL" for name in own_names)
    missing = _answer(
        asking,
        f"SELECT {', '.join(f'fk.{name}' for name in own_names)} FROM {_from(rel)} fk"
        f" LEFT JOIN {_from(other)} pk ON {pairs} WHERE pk.{other_names[0]} IS NULL AND ({present}) LIMIT 1",
    )
    if missing is None:
        return
    if None in missing:
        raise mixed_nulls(key, rel)
    row: list[Any] = [None] * len(rel.attributes)
    for number, value in zip(key.columns, missing, strict=True):
        row[number - 1] = value
    raise not_present(session, key, rel, tuple(row))


def _periods_exist(session: Session, rel: Relation, key: ForeignKey) -> None:
    """Check row by row, as validateForeignKeyConstraint does."""
    queue = Queue(session, at_commit=True)
    for row in _rows(session, rel, key.columns):
        if key.concerns(key_values(row, key.columns)):
            queue.events.append(Event(key, EventKind.CHECK, rel.oid, row))
    queue.run()


def _not_referenced(asking: Asking, rel: Relation, requirement: NotReferenced) -> None:
    """Raises for a key that is still referenced (RI_PartitionRemove_Check)."""
    session = asking.session
    key = foreign_key(session, requirement.constraint)
    other = relation(session, key.referencing)
    numbers = attnum_map(rel, relation(session, key.referenced))
    theirs = _names(other, key.columns)
    ours = _names(rel, [numbers[number] for number in key.referenced_columns])
    signs = ["="] * len(ours)
    if key.period:
        signs[-1] = "&&"
    pairs = " AND ".join(f"pk.{one} {sign} fk.{two}" for one, sign, two in zip(ours, signs, theirs, strict=True))
    referenced = _answer(
        asking,
        f"SELECT {', '.join(f'fk.{name}' for name in theirs)} FROM {_from(other)} fk JOIN {_from(rel)} pk ON {pairs}"
        " LIMIT 1",
    )
    if referenced is not None:
        raise _partition_referenced(session, rel, key, other, referenced)


def _partition_referenced(
    session: Session, rel: Relation, key: ForeignKey, other: Relation, values: Sequence[Any]
) -> PgError:
    attributes = [other.attributes[number - 1] for number in key.columns]
    names = ", ".join(a.name for a in attributes)
    texts = ", ".join(
        write_text(value, a.type, session.text_style) for a, value in zip(attributes, values, strict=True)
    )
    message = f'removing partition "{rel.name}" violates foreign key constraint "{key.name}"'
    detail = f'Key ({names})=({texts}) is still referenced from table "{other.name}".'
    return table_error(other, "23503", message, detail=detail, constraint=key.name)


def _names(rel: Relation, columns: Sequence[int]) -> list[str]:
    return [quote_always(rel.attributes[number - 1].name) for number in columns]


def _from(rel: Relation) -> str:
    name = f"{quote_always(rel.schema)}.{quote_always(rel.name)}"
    return name if rel.kind == "p" else f"ONLY {name}"


def _answer(asking: Asking, text: str) -> tuple[Any, ...] | None:
    """The first row of a query that runs as the bootstrap superuser."""
    session = asking.session
    (raw,) = parse(text, rules=session.settings.string_rules)
    assert isinstance(raw.stmt, SelectStmt)
    with session.acting_as(BOOTSTRAP_SUPERUSER, LOCAL_USERID_CHANGE):
        return asking.first_row(analyze_query(session, raw.stmt, apart=True))


_CHECKS: dict[type, Callable[[Asking, Relation, Any], None]] = {
    NotNull: _not_null,
    CheckHolds: _check,
    DomainHolds: _domain,
    KeysExist: _keys_exist,
    Unique: _unique,
    Indexed: _indexed,
    InPartition: _in_partition,
    DefaultPartition: _default_partition,
    NotReferenced: _not_referenced,
}
