"""What a query reads: bounds of columns from its conditions, the columns of each relation, and the reads of a
SERIALIZABLE transaction.

A bound is only a hint, from `column op value`, `= ANY`, `IS [NOT] NULL` and the parts of an AND. SERIALIZABLE fails
where another transaction has changed rows that it has read; PostgreSQL fails if such dependencies form a dangerous
structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import relation
from pgrepl.expr import tree
from pgrepl.expr.evaluate.evaluate import evaluate
from pgrepl.expr.tree import Expr, Join, Query, RangeRef, Rte, RteKind
from pgrepl.expr.walk import contains_mutable_functions, functions_used, walk, walk_deep
from pgrepl.ground.errors import PgError
from pgrepl.rows.changes import Member
from pgrepl.sql.nodes import BoolOp, BoolTestType, JoinType, NullTestType
from pgrepl.types import oids
from pgrepl.types.builtin import operator_by_oid, proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.functions.registry import Context
    from pgrepl.lake.read.bounds import Bound
    from pgrepl.lake.read.data_file import RowPlace

Bounds = dict[int, tuple["Bound", ...]]

_COMPARABLE = oids.INTEGERS | {
    oids.OID, oids.NUMERIC, oids.FLOAT4, oids.FLOAT8, oids.DATE, oids.TIME, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    oids.TEXT, oids.VARCHAR, oids.UUID, oids.BYTEA,
}  # fmt: skip
_COUNTS_NULLS = _COMPARABLE | {oids.BOOL, oids.BPCHAR, oids.INTERVAL, oids.JSON, oids.JSONB, oids.TIMETZ}
_NONE = frozenset[int]()
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def bounds_of(query: Query, context: Context) -> Bounds:
    """The bounds of a relation's columns by WHERE and the join conditions, by number in the range table.

    A row that fails a condition of WHERE cannot be in the result, and the NULL row that an outer join puts in its place
    fails it, too: so WHERE bounds every relation. A join condition bounds only the sides whose rows the join can drop.
    But the NULL row satisfies IS NULL, which bounds only relations whose rows no join below replaces.
    """
    bounds_found: dict[int, list[Bound]] = {}
    everything = frozenset(n for n, entry in enumerate(query.rtable, 1) if entry.kind is RteKind.RELATION)
    replaced = _NONE.union(*[_join_bounds(query, item, bounds_found, context)[1] for item in query.from_])
    _take(query, query.where, everything, replaced, bounds_found, context)
    return {varno: tuple(bounds) for varno, bounds in bounds_found.items()}


def filter_bounds(condition: Expr, context: Context) -> tuple[Bound, ...]:
    """The bounds of a row filter on one table; none if a skipped row could raise an error."""
    if isinstance(condition, tree.BooleanTest) and condition.kind is BoolTestType.IS_TRUE and condition.arg is not None:
        condition = condition.arg
    if not all(map(_raises_nothing, walk(condition))):
        return ()
    query = Query((), (tree.Rte(RteKind.RELATION, "", ()),))
    return tuple([b for part in conjuncts(condition) for _, b in bounds_in(query, part, context)])


_HARMLESS = (tree.Var, tree.Const, tree.BoolExpr, tree.BooleanTest, tree.NullTest, tree.RelabelType, tree.ArrayExpr)


def _raises_nothing(node: Expr) -> bool:
    if isinstance(node, (tree.OpExpr, tree.DistinctExpr, tree.ScalarArrayOpExpr)):
        operator = operator_by_oid(node.op)
        return operator is not None and (operator.name in _TURNED or operator.name == "<>")
    return isinstance(node, _HARMLESS)


def _join_bounds(
    query: Query, item: RangeRef | Join, bounds: dict[int, list[Bound]], context: Context
) -> tuple[frozenset[int], frozenset[int]]:
    """The relations of the item, and those whose rows its joins replace by NULLs."""
    if isinstance(item, RangeRef):
        return frozenset((item.varno,)), _NONE
    left, left_replaced = _join_bounds(query, item.left, bounds, context)
    right, right_replaced = _join_bounds(query, item.right, bounds, context)
    droppable = {
        JoinType.INNER: left | right,
        JoinType.CROSS: left | right,
        JoinType.LEFT: right,
        JoinType.RIGHT: left,
    }.get(item.kind, _NONE)
    replaced = left_replaced | right_replaced
    _take(query, item.quals, droppable, replaced, bounds, context)
    return left | right, replaced | {JoinType.LEFT: right, JoinType.RIGHT: left, JoinType.FULL: left | right}.get(
        item.kind, _NONE
    )


def _take(
    query: Query,
    quals: Expr | None,
    relations: frozenset[int],
    replaced: frozenset[int],
    bounds: dict[int, list[Bound]],
    context: Context,
) -> None:
    for condition in conjuncts(quals):
        for varno, bound in bounds_in(query, condition, context):
            if varno in relations and not (bound.is_null and varno in replaced):
                bounds.setdefault(varno, []).append(bound)


def conjuncts(expr: Expr | None) -> list[Expr]:
    if expr is None:
        return []
    if isinstance(expr, tree.BoolExpr) and expr.op is BoolOp.AND:
        return [part for arg in expr.args for part in conjuncts(arg)]
    return [expr]


def bounds_in(query: Query, condition: Expr, context: Context) -> Iterator[tuple[int, Bound]]:
    if isinstance(condition, tree.OpExpr) and len(condition.args) == 2:
        name = _comparison(condition.op)
        for (one, other), operator in ((condition.args, name), (condition.args[::-1], _TURNED.get(name, ""))):
            var = _column(query, one)
            if var is not None and operator:
                value = value_of(other, context)
                if value is not None:
                    yield var.varno, _bound(var.attnum, operator, value)
    elif isinstance(condition, tree.ScalarArrayOpExpr) and condition.use_or and _comparison(condition.op) == "=":
        var = _column(query, condition.args[0])
        array = value_of(condition.args[1], context) if var is not None else None
        if var is not None and array is not None:
            from pgrepl.lake.read.bounds import Bound

            values = tuple([item for item in array.items if item is not None])
            yield var.varno, Bound(var.attnum, None, None, True, True, values)
    elif isinstance(condition, tree.NullTest) and not condition.argisrow and condition.arg is not None:
        var = _column(query, condition.arg, _COUNTS_NULLS)
        if var is not None:
            from pgrepl.lake.read.bounds import Bound

            yield var.varno, Bound(var.attnum, is_null=condition.kind is NullTestType.IS_NULL)


def unequal_in(query: Query, condition: Expr, context: Context) -> Iterator[tuple[int, int, Any]]:
    """The `column <> value` parts of a condition: number in the range table, column, value."""
    if not isinstance(condition, tree.OpExpr) or len(condition.args) != 2:
        return
    operator = operator_by_oid(condition.op)
    if operator is None or operator.name != "<>" or not _are_alike(operator.left, operator.right):
        return
    for one, other in (condition.args, condition.args[::-1]):
        var = _column(query, one)
        value = value_of(other, context) if var is not None else None
        if var is not None and value is not None:
            yield var.varno, var.attnum, value


def _bound(attnum: int, operator: str, value: Any) -> Bound:
    from pgrepl.lake.read.bounds import Bound

    low = value if operator in ("=", ">", ">=") else None
    high = value if operator in ("=", "<", "<=") else None
    return Bound(attnum, low, high, operator != ">", operator != "<")


def _comparison(oid: int) -> str:
    """The name of a btree comparison of two equal types that files keep statistics of; empty for any other operator."""
    operator = operator_by_oid(oid)
    if operator is None or operator.name not in _TURNED:
        return ""
    return operator.name if _are_alike(operator.left, operator.right) else ""


def _are_alike(left: int, right: int) -> bool:
    return left in _COMPARABLE and (left == right or {left, right} <= oids.INTEGERS)


def _column(query: Query, expr: Expr, types: frozenset[int] = _COMPARABLE) -> tree.Var | None:
    """The table column that the expression stands for, through join columns and the relabelling of varchar as text."""
    while isinstance(expr, tree.RelabelType) and expr.arg is not None:
        expr = expr.arg
    if not isinstance(expr, tree.Var) or expr.levelsup or expr.attnum <= 0 or expr.type not in types:
        return None
    entry = query.rtable[expr.varno - 1]
    if entry.kind is RteKind.JOIN:
        behind = entry.join_vars[expr.attnum - 1]
        return _column(query, behind, types) if behind is not None else None
    return expr if entry.kind is RteKind.RELATION else None


_NOT_NOW = (tree.Var, tree.SubLink, tree.Param, tree.Aggref, tree.WindowFunc, tree.GroupingFunc, tree.NextValueExpr)


def value_of(expr: Expr, context: Context) -> Any:
    """The value of an expression without columns; None: NULL, or not known before the query runs."""
    if isinstance(expr, tree.Const):
        return expr.value
    if not all(_is_known(node) for node in walk(expr)):
        return None
    try:
        return evaluate(expr, (), context)
    except PgError:  # it is raised when a row asks for it
        return None


def is_never_true(expr: Expr, context: Context) -> bool:
    """Whether a condition is known, before the query runs, to be true for no row (eval_const_expressions)."""
    if contains_mutable_functions(expr) or not all(_is_known(node) for node in walk(expr)):
        return False
    try:
        return evaluate(expr, (), context) is not True
    except PgError:
        return False


def _is_known(node: Expr) -> bool:
    if isinstance(node, _NOT_NOW) or getattr(node, "retset", False):
        return False
    return all(_volatility(oid) != "v" for oid in functions_used(node))


def _volatility(oid: int) -> str:
    proc = proc_by_oid(oid)
    return "v" if proc is None else proc.volatile


# --- columns ----------------------------------------------------------------------------------------------------------


def used_columns(query: Query) -> dict[int, frozenset[int]]:
    """The columns that the query and its subqueries read, by number in the range table: 0 is the whole row, system
    columns are negative. A column of a join that no expression uses does not count."""
    entries = query.rtable
    bare = replace(query, rtable=tuple(replace(entry, join_vars=()) for entry in entries))
    used: dict[int, set[int]] = {}
    pending = [(n.varno, n.attnum) for n, level in walk_deep(bare) if isinstance(n, tree.Var) and n.levelsup == level]
    seen = set(pending)
    while pending:
        varno, attnum = pending.pop()
        entry = entries[varno - 1]
        if entry.kind is RteKind.JOIN:
            behind = entry.join_vars if attnum == 0 else entry.join_vars[attnum - 1 : attnum]
            for part in behind:
                for var in walk(part) if part is not None else ():
                    if isinstance(var, tree.Var) and (var.varno, var.attnum) not in seen:
                        seen.add((var.varno, var.attnum))
                        pending.append((var.varno, var.attnum))
        else:
            used.setdefault(varno, set()).add(attnum)
    return {varno: frozenset(attnums) for varno, attnums in used.items()}


def fetched(entry: Rte, used: Iterable[int]) -> tuple[int, ...]:
    """The columns that a scan of a table returns, in order; system columns come last."""
    wanted = set(used)
    if 0 in wanted:
        wanted |= {number for number, column in enumerate(entry.columns, 1) if not column.dropped}
    return (*sorted(n for n in wanted if n > 0), *sorted((n for n in wanted if n < 0), reverse=True))


# --- serializable -----------------------------------------------------------------------------------------------------


_MOST_KEYS = 1000


class Reads:
    """The reads of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables: set[int] = set()
        self._keys: dict[int, set[tuple[int, Any]]] = {}  # by table: columns and values

    def add(self, member: Member, bounds: Sequence[Bound]) -> None:
        oid = member.relation.oid
        if oid in self._tables:
            return
        unique = _unique_columns(self._session, oid)
        for bound in member.bounds(bounds):
            known = self._keys.setdefault(oid, set())
            values = bound.counted
            if bound.attnum in unique and values is not None and len(known) + len(values) <= _MOST_KEYS:
                known.update((bound.attnum, value) for value in values if value is not None)
                return
        self._tables.add(oid)

    def check(self, snapshot: int) -> None:
        """Check before the commit, holding the catalog's write lock."""
        from pgrepl.lake.prepared import tables_of_serializable
        from pgrepl.lake.table import lake_table

        read = {*self._tables, *self._keys}
        if not read.isdisjoint(tables_of_serializable(self._session)):
            raise _dangerous()  # a prepared transaction cannot fail any more
        changed = self._changed(snapshot)
        for oid in read:
            table = lake_table(self._session, oid).table_id
            if table in changed and (oid in self._tables or self._is_changed(oid, snapshot)):
                raise _dangerous()

    def _changed(self, snapshot: int) -> set[int]:
        """The tables whose rows other transactions have changed since the snapshot."""
        from pgrepl.lake.changes.history import ROW_CHANGES, changes_after

        return {table for word, table in changes_after(self._session, snapshot) if word in ROW_CHANGES}

    def _is_changed(self, oid: int, snapshot: int) -> bool:
        from pgrepl.lake.read.data_file import own_rows
        from pgrepl.lake.read.files import last_snapshot
        from pgrepl.lake.read.local import begun_after
        from pgrepl.lake.table import lake_table

        session = self._session
        table = lake_table(session, oid)
        mine = own_rows(session, table.table_id)
        for attnum, value in self._keys[oid]:
            before, now = (
                {row: place for row, place in self._places(oid, attnum, value, at).items() if row not in mine}
                for at in (snapshot, last_snapshot(session))
            )
            if before != now or begun_after(session, table, list(now.values()), snapshot):
                return True
        return False

    def _places(self, oid: int, attnum: int, value: Any, snapshot: int) -> dict[int, RowPlace]:
        from pgrepl.lake.read import local
        from pgrepl.lake.table import lake_table

        table = lake_table(self._session, oid)
        held = local.lookup(self._session, table, [attnum], [(value,)], snapshot=snapshot)
        return {row[-1].row: row[-1] for _, row in held}


def _dangerous() -> PgError:
    return PgError(
        "40001",
        "could not serialize access due to read/write dependencies among transactions",
        detail="Reason code: Canceled on identification as a pivot, during commit attempt.",
        hint="The transaction might succeed if retried.",
    )


def _unique_columns(session: Session, oid: int) -> frozenset[int]:
    """The columns with a unique index of their own."""
    if not relation(session, oid).has_index:
        return frozenset()
    from pgrepl.expr.catalog_trees import index_infos

    infos = index_infos(session, oid)
    return frozenset(
        info.columns[0]
        for info in infos
        if info.unique and info.key_count == 1 and not info.exprs and info.predicate is None
    )


def note_reads(session: Session, scanned: Sequence[Member], bounds: Sequence[Bound]) -> None:
    """Note the tables that a query is going to read."""
    transaction = session.transaction
    if not session.in_block or session.settings.get("transaction_isolation") != "serializable":
        return
    if transaction.reads is None:
        transaction.reads = Reads(session)
    reads = transaction.reads
    assert isinstance(reads, Reads)
    for member in scanned:
        reads.add(member, bounds)
