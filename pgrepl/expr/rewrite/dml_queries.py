"""The queries that a data-modifying statement runs: one for the rows it writes, one for RETURNING.

INSERT INTO t (a) SELECT …      →  SELECT a, default of b … FROM (SELECT …)
UPDATE t SET a = e FROM u …     →  SELECT place, tableoid, t.a, t.b …, e, FROM t, u …
RETURNING a, u.x                →  SELECT a, x FROM written
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count as count_from
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.expr import tree
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.lookup import SYSTEM_COLUMN_NAMES, TABLEOID, XMAX, relation_rte, var_of
from pgrepl.expr.analyse.queries.insert import rows_rte
from pgrepl.expr.catalog_trees import null_of
from pgrepl.expr.dml_tree import TARGET, Assignment, CheckOption, Command, Conflict, Modify
from pgrepl.expr.walk import map_children, map_parts, returns_set, walk_deep
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.frozen import frozen
from pgrepl.sql.nodes import NullTestType
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

# gives the replacement of a Var, which is used in a subquery that many levels down
Substitute = Callable[[tree.Var, int], tree.Expr | None]


def map_level(expr: tree.Expr, substitute: Substitute, depth: int = 0) -> tree.Expr:
    """The expression with the columns of its own query level replaced; a column for which the function returns None is
    kept."""

    def visit(node: tree.Expr) -> tree.Expr:
        if isinstance(node, tree.Var):
            if node.levelsup == depth:
                other = substitute(node, depth)
                return node if other is None else other
            return node
        node = map_children(node, visit)
        if isinstance(node, tree.SubLink) and node.query is not None:
            return replace(node, query=map_query(node.query, substitute, depth + 1))
        return node

    return visit(expr)


def map_query(query: tree.Query, substitute: Substitute, depth: int) -> tree.Query:
    """The query, nested `depth` levels below the columns' own query level, with these columns replaced."""

    return map_parts(
        query, lambda expr: map_level(expr, substitute, depth), lambda nested: map_query(nested, substitute, depth + 1)
    )


# --- queries ----------------------------------------------------------------------------------------------------------


WRITTEN = "*WRITTEN*"
CONFLICTING = "*CONFLICTING*"


def insert_query(session: Session, modify: Modify) -> tree.Query:
    """The query for the rows to insert: the table's columns by attnum, with NULL for dropped and generated columns."""
    target = relation(session, modify.relid)
    values = {a.attnum: a.expr for a in modify.assigned}
    if modify.from_:
        source = modify.from_[0]
        assert isinstance(source, tree.RangeRef)
        rtable: tuple[tree.Rte, ...] = (modify.rtable[source.varno - 1],)
        values = {n: _renumbered(expr, source.varno, 1) for n, expr in values.items()}
        from_: tuple[tree.RangeRef, ...] = (tree.RangeRef(1),)
    else:
        rtable, from_ = (), ()
    targets = []
    for column in target.attributes:
        value = values.get(column.num)
        if value is None:
            value = tree.Const(oids.INT4) if column.dropped else null_of(column)
        targets.append(tree.Target(value, column.name, column.num))
    query = tree.Query(
        tuple(targets),
        rtable,
        from_,
        ctes=modify.ctes,
        recursive=modify.recursive,
        has_sublinks=any(isinstance(n, tree.SubLink) for v in values.values() for n, _ in walk_deep(v)),
        has_target_srfs=any(returns_set(v) for v in values.values()),
    )
    return within(query, modify)


def within(query: tree.Query, modify: Modify) -> tree.Query:
    """The query of a statement in WITH, nested in a query that has the WITH queries before the statement."""
    if not modify.around:
        return query
    rte = tree.Rte(tree.RteKind.SUBQUERY, "*WITH*", query.columns, alias="*WITH*", subquery=query)
    targets = tuple(tree.Target(var_of(c, n), c.name, n) for n, c in enumerate(query.columns, 1))
    return tree.Query(targets, (rte,), (tree.RangeRef(1),), ctes=modify.around)


def _renumbered(expr: tree.Expr, old: int, new: int) -> tree.Expr:
    def other(var: tree.Var, depth: int) -> tree.Expr | None:
        return replace(var, varno=new) if var.varno == old else None

    return map_level(expr, other)


# --- UPDATE and DELETE ----------------------------------------------------------------------------------------------


@frozen
class TargetRowsQuery:
    """The query of an UPDATE or DELETE, and the positions of its columns."""

    query: tree.Query
    columns: tuple[int, ...]  # the old row: attnums, from position 2
    assigned: tuple[int, ...]  # the new values, which follow the old row: attnums. `carried_columns` come last


def target_rows_query(
    session: Session, modify: Modify, member: Relation | None = None, columns: frozenset[int] | None = None
) -> TargetRowsQuery:
    """The query for the rows to change: place, tableoid, old row, new values. `member` restricts it to one table below
    the target, in that table's own column layout; `columns` limits the old row to the columns needed."""
    target = relation(session, modify.relid)
    assigned = modify.assigned
    rtable, where, from_ = modify.rtable, modify.where, modify.from_
    layout = target
    carried = carried_columns(modify)
    if member is not None:
        modify = in_layout(session, modify, target, member)
        assigned, rtable, where, from_ = modify.assigned, modify.rtable, modify.where, modify.from_
        layout = member
    live = [a for a in layout.kept if columns is None or a.num in columns]
    exprs: list[tree.Expr] = [
        tree.Var(oids.TID, varno=TARGET, attnum=tree.PLACE),
        tree.Var(oids.OID, varno=TARGET, attnum=TABLEOID),
    ]
    if layout.kind == "v":  # its rows have no places; INSTEAD OF triggers change them
        exprs = [tree.Const(oids.TID), tree.Const(oids.OID, value=layout.oid)]
    exprs += [tree.Var(a.type, typmod=a.typmod, collation=a.collation, varno=TARGET, attnum=a.num) for a in live]
    exprs += [a.expr for a in assigned]
    exprs += carried
    query = tree.Query(
        tuple(tree.Target(expr, f"c{n}", n) for n, expr in enumerate(exprs, 1)),
        rtable,
        from_,
        where,
        ctes=modify.ctes,
        recursive=modify.recursive,
        has_sublinks=True,
    )
    query = within(_computed_once(query, modify.multi), modify)
    return TargetRowsQuery(query, tuple(a.num for a in live), tuple(a.attnum for a in assigned))


def pinned(query: tree.Query, row: tree.PinnedRow) -> tree.Query:
    """The query of `target_rows_query`, limited to one row of the target."""
    first = query.rtable[0]
    if first.kind is tree.RteKind.SUBQUERY and first.name in ("*WITH*", "*FOUND*"):
        assert first.subquery is not None
        return replace(query, rtable=(replace(first, subquery=pinned(first.subquery, row)), *query.rtable[1:]))
    return replace(query, rtable=(replace(first, pinned=(row,)), *query.rtable[1:]))


def in_layout(session: Session, modify: Modify, target: Relation, member: Relation) -> Modify:
    """The statement over one table of the inheritance tree, with that table's column numbers."""
    numbers = {a.num: own.num for a in target.columns if (own := member.attribute(a.name)) is not None}

    def other(var: tree.Var, depth: int) -> tree.Expr | None:
        if var.varno != TARGET:
            return None
        if var.attnum > 0:
            return replace(var, attnum=numbers[var.attnum])
        if var.attnum == 0:
            return whole_row(session, target, lambda n: replace(column_of(target, n, depth), attnum=numbers[n]))
        return None

    def moved(expr: tree.Expr) -> tree.Expr:
        return map_level(expr, other)

    entry = replace(relation_rte(member, modify.rtable[0].alias, inh=False), name=modify.rtable[0].name)
    # the subqueries of FROM cannot see the target
    return replace(
        modify,
        rtable=(entry, *modify.rtable[1:]),
        where=moved(modify.where) if modify.where is not None else None,
        assigned=tuple(Assignment(numbers[a.attnum], moved(a.expr)) for a in modify.assigned),
        multi=tuple(_link(moved(link)) for link in modify.multi),
    )


def _link(expr: tree.Expr) -> tree.SubLink:
    assert isinstance(expr, tree.SubLink)
    return expr


def _computed_once(query: tree.Query, multi: tuple[tree.SubLink, ...]) -> tree.Query:
    """Move each subquery that assigns several columns into an inner query, as one more column, so that it runs once."""
    if not multi:
        return query
    inner = list(query.targets)
    count = len(inner)
    outer: list[tree.Target] = []
    for number, target in enumerate(query.targets, 1):
        used = [link for link in multi if _uses(target.expr, link)]
        if not used:
            expr = target.expr
            var: tree.Expr = tree.Var(expr.type, typmod=expr.typmod, collation=expr.collation, varno=1, attnum=number)
            outer.append(replace(target, expr=var))
            continue
        outer.append(replace(target, expr=_over_links(target.expr, multi, count, query)))
        inner[number - 1] = replace(target, expr=tree.Const(oids.INT4))
    for link in multi:
        inner.append(tree.Target(link, f"m{len(inner) + 1}", len(inner) + 1))
    below = replace(query, targets=tuple(inner))
    rte = tree.Rte(tree.RteKind.SUBQUERY, "*FOUND*", below.columns, alias="*FOUND*", subquery=below)
    return tree.Query(tuple(outer), (rte,), (tree.RangeRef(1),))


def _uses(expr: tree.Expr, link: tree.SubLink) -> bool:
    return any(isinstance(n, tree.FieldSelect) and n.arg == link for n, _ in walk_deep(expr))


def _over_links(expr: tree.Expr, multi: tuple[tree.SubLink, ...], count: int, query: tree.Query) -> tree.Expr:
    """Replace the subqueries, and the old columns, by the inner query's columns that hold their values."""
    places = {t.expr: n for n, t in enumerate(query.targets, 1) if isinstance(t.expr, tree.Var)}

    def visit(node: tree.Expr) -> tree.Expr:
        if isinstance(node, tree.SubLink) and node in multi:
            return tree.Var(oids.RECORD, varno=1, attnum=count + 1 + multi.index(node))
        if isinstance(node, tree.Var) and node.levelsup == 0:
            number = places.get(node)
            if number is None:
                raise unsupported("this assignment from a subquery of several columns")
            return replace(node, varno=1, attnum=number)
        return map_children(node, visit)

    return visit(expr)


# --- RETURNING ------------------------------------------------------------------------------------------------------


def if_there(expr: tree.Expr, tableoid: tree.Var) -> tree.Expr:
    """The expression over a row that may be missing, where its tableoid is NULL: then it is NULL."""
    test = tree.NullTest(oids.BOOL, arg=tableoid, kind=NullTestType.IS_NOT_NULL)
    nothing = tree.Const(expr.type, typmod=expr.typmod, collation=expr.collation)
    return tree.CaseExpr(
        expr.type, typmod=expr.typmod, collation=expr.collation, whens=((test, expr),), default=nothing
    )


def carried_columns(modify: Modify) -> list[tree.Var]:
    """The columns of other relations that RETURNING uses."""
    return columns_beside((target.expr for target in modify.returning), row_versions(modify))


def row_versions(modify: Modify) -> dict[int, str]:
    """The entries of the range table that stand for the target's rows before and after: old or new, by number."""
    return {varno: rte.version for varno, rte in enumerate(modify.rtable, 1) if rte.version}


def columns_beside(exprs: Iterable[tree.Expr], versions: Collection[int]) -> list[tree.Var]:
    """The columns of relations other than the target, and its row's `versions`, that expressions use."""
    columns: dict[tuple[int, int], tree.Var] = {}
    for expr in exprs:
        for node, depth in walk_deep(expr):
            if isinstance(node, tree.Var) and node.levelsup == depth and node.varno not in (TARGET, *versions):
                columns.setdefault((node.varno, node.attnum), replace(node, levelsup=0))
    return list(columns.values())


def row_columns(target: Relation) -> list[tree.Column]:
    """The columns of a row that has all attributes, the dropped ones too."""
    return [tree.Column(a.name, a.type, a.typmod, a.collation, a.dropped) for a in target.attributes]


def shown_columns(target: Relation, carried: Sequence[tree.Var]) -> list[tree.Column]:
    """The columns of a row that RETURNING or a WHEN clause looks at: the target's by attnum, tableoid, the carried
    ones."""
    behind = [tree.Column(f"c{n}", v.type, v.typmod, v.collation) for n, v in enumerate(carried)]
    return [*row_columns(target), tree.Column("tableoid", oids.OID), *behind]


def returning_query(
    session: Session, modify: Modify, rows: Sequence[tuple[Any, ...]], carried: Sequence[tree.Var] | None = None
) -> tree.Query:
    """RETURNING as a query over the rows WRITTEN: the target's columns by attnum, tableoid, then the carried columns;
    of a MERGE the action comes last, of an INSERT xmax. `carried`: those of `carried_columns` if they are not given."""
    target = relation(session, modify.relid)
    carried = carried_columns(modify) if carried is None else carried
    count = len(target.attributes)
    columns = shown_columns(target, carried)
    last = ("xmax", oids.XID) if modify.command is Command.INSERT else ("merge_action", oids.TEXT)
    columns.append(tree.Column(*last))
    places = {(v.varno, v.attnum): count + 2 + n for n, v in enumerate(carried)}
    places[TARGET, XMAX if modify.command is Command.INSERT else tree.MERGE_ACTION] = len(columns)
    starts = dict.fromkeys(row_versions(modify), 0)
    for varno, start in zip(starts, count_from(len(columns), count + 1), strict=False):
        columns += [*row_columns(target), tree.Column("tableoid", oids.OID)]
        starts[varno] = start

    def version(var: tree.Var, depth: int) -> tree.Expr:
        """A column of the row before or after; there is no such row where its tableoid is NULL."""
        start = starts[var.varno]
        there = tree.Var(oids.OID, varno=1, attnum=start + count + 1, levelsup=depth)
        if var.attnum > 0:
            return replace(var, varno=1, attnum=start + var.attnum)
        if var.attnum == TABLEOID:
            return there
        if var.attnum < 0:
            raise unsupported(f'system column "{SYSTEM_COLUMN_NAMES[var.attnum]}" in RETURNING', location=var.location)
        row = whole_row(session, target, lambda n: replace(column_of(target, n, depth), attnum=start + n))
        return if_there(row, there)

    def other(var: tree.Var, depth: int) -> tree.Expr | None:
        if var.varno in starts:
            return version(var, depth)
        if (var.varno, var.attnum) == (TARGET, XMAX) and target.kind == "p":
            raise PgError("0A000", "cannot retrieve a system column in this context")  # of a row that was routed
        if (var.varno, var.attnum) in places:
            return replace(var, varno=1, attnum=places[var.varno, var.attnum])
        if var.attnum > 0:
            return replace(var, varno=1)
        if var.attnum == 0:
            return whole_row(session, target, lambda n: column_of(target, n, depth))
        if var.attnum == TABLEOID:
            return replace(var, varno=1, attnum=count + 1)
        raise unsupported(f'system column "{SYSTEM_COLUMN_NAMES[var.attnum]}" in RETURNING', location=var.location)

    query = tree.Query(
        tuple(replace(t, expr=map_level(t.expr, other)) for t in modify.returning),
        (rows_rte(WRITTEN, tuple(columns), rows),),
        (tree.RangeRef(1),),
        ctes=modify.ctes,
        recursive=modify.recursive,
        has_sublinks=True,
    )
    return within(query, modify)


def column_of(target: Relation, attnum: int, levelsup: int) -> tree.Var:
    column = target.attributes[attnum - 1]
    return tree.Var(
        column.type, typmod=column.typmod, collation=column.collation, varno=1, attnum=attnum, levelsup=levelsup
    )


def whole_row(session: Session, target: Relation, column: Callable[[int], tree.Expr]) -> tree.Expr:
    """A row of the target as one value, made of its columns."""
    args = tuple(tree.Const(oids.INT4) if a.dropped else column(a.num) for a in target.attributes)
    return tree.RowExpr(lookup.row_type(session, target.oid), args=args)


def conflict_query(session: Session, modify: Modify, conflict: Conflict, rows: Sequence[tuple[Any, ...]]) -> tree.Query:
    """The query for the new values of DO UPDATE. It reads a row of CONFLICTING: the existing row's columns, the
    proposed row's, then tableoid. It returns no row when WHERE is not true."""
    assert conflict.assigned is not None and modify.command is Command.INSERT
    target = relation(session, modify.relid)
    count = len(target.attributes)
    columns = row_columns(target)

    def other(var: tree.Var, depth: int) -> tree.Expr | None:
        shift = count if var.varno == conflict.excluded else 0
        if var.attnum > 0:
            return replace(var, varno=1, attnum=var.attnum + shift)
        if var.attnum == 0:
            return whole_row(session, target, lambda n: replace(column_of(target, n, depth), attnum=n + shift))
        if var.attnum == TABLEOID and not shift:
            return replace(var, varno=1, attnum=2 * count + 1)
        raise unsupported(f'system column "{SYSTEM_COLUMN_NAMES[var.attnum]}" here', location=var.location)

    query = tree.Query(
        tuple(
            tree.Target(map_level(a.expr, other), target.attributes[a.attnum - 1].name, n)
            for n, a in enumerate(conflict.assigned, 1)
        ),
        (rows_rte(CONFLICTING, (*columns, *columns, tree.Column("tableoid", oids.OID)), rows),),
        (tree.RangeRef(1),),
        map_level(conflict.where, other) if conflict.where is not None else None,
        ctes=modify.ctes,
        recursive=modify.recursive,
        has_sublinks=True,
    )
    links = tuple(_link(map_level(link, other)) for link in conflict.multi)
    return within(_computed_once(query, links), modify)


def check_query(session: Session, modify: Modify, option: CheckOption, rows: Sequence[tuple[Any, ...]]) -> tree.Query:
    """The query that tests WITH CHECK OPTION: it returns a row if the view would show the written row. It reads the
    row's columns, then tableoid."""
    target = relation(session, modify.relid)
    columns = row_columns(target)

    def other(var: tree.Var, depth: int) -> tree.Expr | None:
        if var.attnum > 0:
            return replace(var, varno=1)
        if var.attnum == 0:
            return whole_row(session, target, lambda n: column_of(target, n, depth))
        return replace(var, varno=1, attnum=len(columns) + 1)

    return tree.Query(
        (tree.Target(tree.Const(oids.BOOL, value=True), "shown", 1),),
        (rows_rte(WRITTEN, (*columns, tree.Column("tableoid", oids.OID)), rows),),
        (tree.RangeRef(1),),
        map_level(option.expr, other),
        has_sublinks=True,
    )
