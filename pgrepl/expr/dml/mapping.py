"""A data-modifying statement as a whole: its expressions mapped, and the query that has the same parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgrepl.expr.dml.plan import Assignment, Merge, Modify
from pgrepl.expr.tree import Const, Expr, Query, SubLink, Target
from pgrepl.expr.walk import map_parts


def map_modify(modify: Modify, expression: Callable[[Expr], Expr], nested: Callable[[Query], Query]) -> Modify:
    """The statement with its expressions mapped, and the queries one level down. The functions get whole expressions
    and descend themselves."""

    def assignments(assigned: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        return tuple(Assignment(a.attnum, expression(a.expr)) for a in assigned)

    def optional(expr: Expr | None) -> Expr | None:
        return None if expr is None else expression(expr)

    def links(found: tuple[SubLink, ...]) -> tuple[SubLink, ...]:
        mapped = tuple(expression(link) for link in found)
        return tuple(link for link in mapped if isinstance(link, SubLink))

    query = map_parts(
        Query(modify.returning, modify.rtable, modify.from_, modify.where, ctes=modify.ctes), expression, nested
    )
    conflict = modify.conflict
    if conflict is not None:
        conflict = replace(
            conflict,
            elements=tuple(replace(element, expr=expression(element.expr)) for element in conflict.elements),
            arbiter_where=optional(conflict.arbiter_where),
            assigned=None if conflict.assigned is None else assignments(conflict.assigned),
            where=optional(conflict.where),
            multi=links(conflict.multi),
        )
    merge = modify.merge
    if merge is not None:
        actions = tuple(
            replace(
                action,
                condition=optional(action.condition),
                assigned=assignments(action.assigned),
                multi=links(action.multi),
            )
            for action in merge.actions
        )
        merge = Merge(expression(merge.condition), actions)
    return replace(
        modify,
        rtable=query.rtable,
        from_=query.from_,
        where=query.where,
        assigned=assignments(modify.assigned),
        conflict=conflict,
        returning=query.targets,
        multi=links(modify.multi),
        ctes=query.ctes,
        merge=merge,
    )


def query_of(modify: Modify) -> Query:
    """A query with the statement's range table and all its expressions, to look them over."""
    exprs = [target.expr for target in modify.returning] + [a.expr for a in modify.assigned] + list(modify.multi)
    conflict = modify.conflict
    if conflict is not None:
        exprs += [element.expr for element in conflict.elements] + [a.expr for a in conflict.assigned or ()]
        exprs += [expr for expr in (conflict.arbiter_where, conflict.where) if expr is not None] + list(conflict.multi)
    exprs += modify.merge.exprs if modify.merge is not None else ()
    targets = tuple(Target(expr, "", number) for number, expr in enumerate(exprs, 1))
    return Query(targets, modify.rtable, modify.from_, modify.where, ctes=modify.ctes)


def with_literals(modify: Modify) -> Modify:
    """The statement with rows that have been computed already as constants, so that it can be stored."""
    entries = []
    for entry in modify.rtable:
        if entry.rows is not None:
            values = tuple(
                tuple(
                    Const(column.type, typmod=column.typmod, collation=column.collation, value=value)
                    for column, value in zip(entry.columns, row, strict=True)
                )
                for row in entry.rows
            )
            entry = replace(entry, rows=None, values=values)
        entries.append(entry)
    return replace(modify, rtable=tuple(entries))
