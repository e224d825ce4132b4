"""The rules of one table for its rows: the partition (tuple routing), generated columns, NOT NULL, CHECK, bounds; and
what lists and structs cannot hold.

A column of arrays or composite values becomes text when the first value comes that is no list or struct
(pg_attribute.attndims above 1 says so of arrays); its rows are rewritten once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.relation_parts import constraints_of
from pgrepl.catalog.session.transaction import DimensionsNeeded
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_attribute
from pgrepl.expr import stored
from pgrepl.expr.analyse.lookup import TABLEOID
from pgrepl.expr.analyse.sorting import EQUAL, opclass_operator
from pgrepl.expr.catalog_trees import MINVALUE, PartitionKey, RangeDatum, default_of
from pgrepl.expr.evaluate.compiler import Compiled, operator_function
from pgrepl.expr.evaluate.evaluate import compile
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.partition_constraint import PartitionDesc, comparisons, partition_constraint, partition_desc
from pgrepl.expr.partition_hash import hash_function, row_hash
from pgrepl.expr.rewrite.dml_queries import column_of
from pgrepl.expr.rewrite.virtual import of_rows
from pgrepl.expr.tree import Const, Expr, Var
from pgrepl.expr.walk import rewrite, var_attnums
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake.table import lake_table
from pgrepl.rows.foreign.key import failing_partition_key, failing_row, table_error
from pgrepl.types import oids
from pgrepl.types.lake.structs import holder

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.types.lake.structs import Holds

SEVERAL = 2  # an attndims of text


def nested_columns(session: Session, rel: Relation) -> list[tuple[int, Holds]]:
    """The columns of a table that are lists or structs, by their place in rows; each with what tells whether it holds a
    value."""
    holders = [(a.num, holds) for a in rel.columns if (holds := holder(a.type)) is not None]
    if not holders or rel.kind != "r":
        return []
    table = lake_table(session, rel.oid)
    return [(number - 1, holds) for number, holds in holders if table.column(number).type != "varchar"]


def keep_dimensions(session: Session, rel: Relation, rows: Iterable[Sequence[Any]]) -> None:
    """Declare the columns text that get values that they cannot hold with these rows. The table's definition must not
    be in the lake yet."""
    left = {a.num - 1: holds for a in rel.columns if a.ndims < SEVERAL and (holds := holder(a.type)) is not None}
    for row in rows if left else ():
        for index in [n for n, holds in left.items() if row[n] is not None and not holds(row[n])]:
            declare_dimensions(session, rel.oid, index + 1)
            del left[index]


def declare_dimensions(session: Session, relid: int, attnum: int) -> None:
    store.update(session, pg_attribute, {"attrelid": relid, "attnum": attnum}, attndims=SEVERAL)


# --- routing ----------------------------------------------------------------------------------------------------------


Row = tuple[Any, ...]
Choose = Callable[[Sequence[Any]], int]  # values of the key → position in PartitionDesc, -1: none


class Router:
    """Routes rows of a partitioned table to its leaves (ExecFindPartition)."""

    def __init__(self, session: Session, root: Relation) -> None:
        self._session = session
        self._root = root
        self._levels: dict[int, _Level] = {}

    def route(self, row: Row) -> tuple[Relation, Row]:
        """The leaf of a row of the root, and the row in the leaf's layout."""
        rel = self._root
        while rel.kind == "p":
            level = self._levels.get(rel.oid)
            if level is None:
                level = self._levels[rel.oid] = _Level(self._session, rel)
            rel, row = level.step(row)
        return rel, row


class _Level:
    """One partitioned table on the way to the leaf."""

    def __init__(self, session: Session, rel: Relation) -> None:
        self._session = session
        self._rel = rel
        self._desc = partition_desc(session, rel.oid)
        self._values = key_values(session, self._desc.key)
        self._choose = chooser(self._desc)
        self._parts: dict[int, tuple[Relation, Callable[[Row], Row]]] = {}

    def step(self, row: Row) -> tuple[Relation, Row]:
        values = [value(row) for value in self._values]
        position = self._choose(values)
        if position < 0:
            detail = failing_partition_key(self._session, self._rel, self._desc.key, values)
            message = f'no partition of relation "{self._rel.name}" found for row'
            raise table_error(self._rel, "23514", message, detail=detail)
        entry = self._parts.get(position)
        if entry is None:
            part = relation(self._session, self._desc.oids[position])
            entry = self._parts[position] = (part, converter(self._rel, part))
        part, convert = entry
        return part, convert(row)


def key_values(session: Session, key: PartitionKey) -> list[Compiled]:
    """The functions that give the values of a partition key's columns for a row."""
    context = Context(session)

    def of_column(number: int) -> Compiled:
        return lambda row: row[number - 1]

    return [of_column(c.attnum) if c.expr is None else compile(c.expr, context) for c in key.columns]


def converter(source: Relation, target: Relation) -> Callable[[Row], Row]:
    """A function that puts rows of one relation into the layout of another with the same columns, by name."""
    if [(a.name, a.dropped) for a in source.attributes] == [(a.name, a.dropped) for a in target.attributes]:
        return lambda row: row
    take = column_places(source, target)
    return lambda row: tuple([None if place < 0 else row[place] for place in take])


def column_places(source: Relation, target: Relation) -> tuple[int, ...]:
    """The place, for each column of the target by number, in the rows of a source with the same columns; -1 for a
    dropped column."""
    places = {a.name: a.num - 1 for a in source.columns}
    return tuple([-1 if a.dropped else places.get(a.name, -1) for a in target.attributes])


# --- choosing (get_partition_for_tuple) -------------------------------------------------------------------------------


def chooser(desc: PartitionDesc) -> Choose:
    """A function that gives the partition for the values of the key."""
    default = next((n for n, bound in enumerate(desc.bounds) if bound.default), -1)
    kinds = {"h": _by_hash, "l": _by_list, "r": _by_range}
    return kinds[desc.key.strategy](desc, default)


def _by_hash(desc: PartitionDesc, default: int) -> Choose:
    functions = [hash_function(column) for column in desc.key.columns]
    bounds = [(bound.modulus, bound.remainder) for bound in desc.bounds]

    def choose(values: Sequence[Any]) -> int:
        number = row_hash(functions, values)
        return next((n for n, (modulus, remainder) in enumerate(bounds) if number % modulus == remainder), -1)

    return choose


def _by_list(desc: PartitionDesc, default: int) -> Choose:
    (column,) = desc.key.columns
    equal = operator_function(opclass_operator(column.opclass, EQUAL))
    listed = [(value.value, n) for n, bound in enumerate(desc.bounds) for value in bound.values]
    for_null = next((n for value, n in listed if value is None), default)
    present = [(value, n) for value, n in listed if value is not None]
    known: dict[Any, int] = {}

    def choose(values: Sequence[Any]) -> int:
        (value,) = values
        if value is None:
            return for_null
        chosen = known.get(value)
        if chosen is None:
            chosen = known[value] = next((n for other, n in present if equal(value, other)), default)
        return chosen

    return choose


def _by_range(desc: PartitionDesc, default: int) -> Choose:
    compare = comparisons(desc.key)
    bounds = [bound for bound in desc.bounds if not bound.default]
    upper_before = partial(_below, compare)

    def choose(values: Sequence[Any]) -> int:
        if None in values:
            return default
        low, high = 0, len(bounds)
        while low < high:  # the first whose upper bound is above the values
            middle = (low + high) // 2
            if upper_before(values, bounds[middle].upper):
                high = middle
            else:
                low = middle + 1
        if low < len(bounds) and not upper_before(values, bounds[low].lower):
            return low
        return default

    return choose


def _below(compare: Sequence[Callable[[Any, Any], int]], values: Sequence[Any], datums: Sequence[RangeDatum]) -> bool:
    """Whether values are below a bound; values equal to it are not."""
    for order, value, datum in zip(compare, values, datums, strict=True):
        if datum.value is None:
            return datum.kind != MINVALUE
        result = order(value, datum.value.value)
        if result:
            return result < 0
    return False


@frozen
class TableRules:
    """The rules of one table as the catalog has them: expressions over its own columns."""

    relation: Relation
    generated: tuple[tuple[int, Expr], ...]  # attnum, expression
    not_null: tuple[Attribute, ...]
    checks: tuple[tuple[str, Expr], ...]  # by name, which is the order PostgreSQL tries them in
    computed_not_null: tuple[tuple[Attribute, Expr], ...]  # virtual columns that may not be NULL
    bound: tuple[Expr, ...]  # of a partition: the constraints of its own bound and its ancestors'


def table_rules(session: Session, rel: Relation) -> TableRules:
    generated = []
    for attribute in rel.columns:
        if attribute.generated == "s":
            expr = default_of(session, rel.oid, attribute.num)
            assert expr is not None
            generated.append((attribute.num, own(expr, rel)))
    checks = [
        (row.conname, own(of_rows(session, stored.from_json(row.conbin, session), rel), rel))
        for row in constraints_of(session, rel.oid, "c")
        if row.conenforced
    ]
    bound = partition_constraint(session, rel.oid) if rel.is_partition else []
    needed = [a for a in rel.columns if a.notnull]
    computed = [(a, own(of_rows(session, column_of(rel, a.num, 0), rel), rel)) for a in needed if a.generated == "v"]
    stored_ = tuple([a for a in needed if a.generated != "v"])
    return TableRules(rel, tuple(generated), stored_, tuple(checks), tuple(computed), tuple(bound))


def own(expr: Expr, rel: Relation) -> Expr:
    """The expression over the rows of this table alone: tableoid becomes a constant."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Var) and node.attnum == TABLEOID:
            return Const(oids.OID, value=rel.oid)
        return None

    return rewrite(expr, visit)


class TableChecks:
    """The compiled rules of a table for one statement. Messages show rows in the layout of `named`, the relation that
    the statement names."""

    def __init__(
        self,
        session: Session,
        rel: Relation,
        named: Relation,
        modified: frozenset[int],
        changed: frozenset[int] | None = None,
    ) -> None:
        """`modified` are columns of the named relation, for messages. `changed` are columns of this table, if the
        others are known to be unchanged."""
        self.relation = rel
        self._session = session
        self._named = named
        self._modified = modified
        self._to_named: Callable[[Row], Row] = converter(rel, named)
        context = Context(session)
        rules = table_rules(session, rel)
        self._generated = [
            (number, compile(expr, context))
            for number, expr in rules.generated
            if changed is None or changed & var_attnums(expr)
        ]
        self._nested = nested_columns(session, rel)
        self._not_null = [(a.num - 1, a) for a in rules.not_null]
        self._computed = [(a, compile(expr, context)) for a, expr in rules.computed_not_null]
        self._checks = [(name, compile(expr, context)) for name, expr in rules.checks]
        self._bound: list[Compiled] = []
        if changed is None or any(changed & var_attnums(expr) for expr in rules.bound):
            self._bound = [compile(expr, context) for expr in rules.bound]

    def complete(self, row: Row) -> Row:
        """The row with its generated columns computed."""
        if not self._generated:
            return row
        values = list(row)
        for number, value in self._generated:
            values[number - 1] = value(row)
        return tuple(values)

    def constraints(self, row: Row) -> None:
        """Check NOT NULL and CHECK (ExecConstraints), and that columns of lists and structs hold what they get."""
        for index, holds in self._nested:
            if row[index] is not None and not holds(row[index]):
                raise DimensionsNeeded(self.relation.oid, index + 1)
        for index, attribute in self._not_null:
            if row[index] is None:
                raise self._null_value(attribute, row)
        for attribute, value in self._computed:
            if value(row) is None:
                raise self._null_value(attribute, row)
        for name, test in self._checks:
            if test(row) is False:
                message = f'new row for relation "{self.relation.name}" violates check constraint "{name}"'
                raise table_error(self.relation, "23514", message, detail=self._shown(row), constraint=name)

    def in_bound(self, row: Row) -> bool:
        """Whether the partition's bound admits the row (ExecPartitionCheck)."""
        return all(test(row) is not False for test in self._bound)

    def bound(self, row: Row) -> None:
        if not self.in_bound(row):
            raise self.out_of_bound(row)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _shown(self, row: Row) -> str | None:
        """The DETAIL that shows the row."""
        return failing_row(self._session, self._named, self._to_named(row), self._modified)

    def _null_value(self, attribute: Attribute, row: Row) -> PgError:
        rel, name = self.relation, attribute.name
        message = f'null value in column "{name}" of relation "{rel.name}" violates not-null constraint'
        return table_error(rel, "23502", message, detail=self._shown(row), column=name)

    def out_of_bound(self, row: Row) -> PgError:
        message = f'new row for relation "{self.relation.name}" violates partition constraint'
        return table_error(self.relation, "23514", message, detail=self._shown(row))
