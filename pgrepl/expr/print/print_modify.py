"""INSERT, UPDATE, DELETE and MERGE as text (get_insert_query_def and its siblings), as in the bodies of functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import constraint_row
from pgrepl.expr.dml_tree import TARGET, Assignment, Command, Conflict, Merge, MergeAction, MergeMatch, Modify
from pgrepl.expr.print.print_expr import print_expr, print_list, print_top
from pgrepl.expr.print.print_from import print_from, print_values
from pgrepl.expr.print.print_names import names_of_query, relation_text
from pgrepl.expr.print.print_query import print_subquery, print_targets, print_with
from pgrepl.expr.print.printer import STEP, Printer
from pgrepl.expr.rewrite.dml_queries import map_query
from pgrepl.expr.tree import (
    CoerceToDomain,
    CoerceViaIO,
    Expr,
    FieldSelect,
    FuncExpr,
    Query,
    RangeRef,
    RelabelType,
    SubLink,
)
from pgrepl.sql.keywords import quote_identifier


def print_modify(modify: Modify, around: Printer) -> None:
    others = tuple(item for item in modify.from_ if item != RangeRef(TARGET))
    query = Query(modify.returning, modify.rtable, others, modify.where, ctes=modify.ctes, recursive=modify.recursive)
    names = names_of_query(around.session, query, around.names)
    out = around.inside(names, query, prefix=True)
    print_with(query, out)
    if out.style.indent:
        out.indent += STEP
        out.put(" ")
    target = relation(out.session, modify.relid)
    if modify.command is Command.INSERT:
        _insert(modify, query, target, out)
    elif modify.command is Command.UPDATE:
        out.put("UPDATE " + _target_text(modify, out))
        out.put(" SET ")
        _assignments(modify.assigned, target, out)
        print_from(query, " FROM ", out, print_subquery)
    elif modify.merge is not None:
        _merge(modify, modify.merge, query, target, out)
    else:
        out.put("DELETE FROM " + _target_text(modify, out))
        print_from(query, " USING ", out, print_subquery)
    if modify.where is not None:
        out.keyword(" WHERE ", -STEP, STEP, 1)
        print_expr(modify.where, out, False)
    if modify.returning:
        out.keyword(" RETURNING", -STEP, STEP, 1)
        named = [f"{e.version.upper()} AS {quote_identifier(e.alias)}" for e in modify.rtable
                 if e.version and e.alias not in (None, e.version)]  # fmt: skip
        if named:
            out.put(f" WITH ({', '.join(named)})")
        print_targets(modify.returning, out, False)


def _target_text(modify: Modify, out: Printer, word: str = "") -> str:
    entry = modify.rtable[TARGET - 1]
    only = "" if entry.inh or modify.command is Command.INSERT else "ONLY "
    text = only + relation_text(out.session, modify.relid, out.names)
    name = out.names[0].relations[TARGET - 1] or ""
    if entry.alias is not None or name != relation(out.session, modify.relid).name:
        text += f" {word}{quote_identifier(name)}"
    return text


def _insert(modify: Modify, query: Query, target: Relation, out: Printer) -> None:
    out.put("INSERT INTO " + _target_text(modify, out, "AS ") + " ")
    if modify.assigned:
        listed = ", ".join(quote_identifier(_column(target, a.attnum)) for a in modify.assigned)
        out.put(f"({listed}) ")
    if modify.overriding is not None:
        out.put(f"OVERRIDING {modify.overriding.upper()} VALUE ")
    source = modify.from_[0] if modify.from_ else None
    if isinstance(source, RangeRef):
        entry = query.rtable[source.varno - 1]
        if entry.subquery is not None:
            print_subquery(entry.subquery, out, names_visible=False)
        else:
            print_values(entry, out)
    elif modify.assigned:
        out.keyword("VALUES (", -STEP, STEP, 2)
        for number, assignment in enumerate(modify.assigned):
            out.put(", " if number else "")
            print_top(assignment.expr, out, False)
        out.put(")")
    else:
        out.put("DEFAULT VALUES")
    if modify.conflict is not None:
        _conflict(modify.conflict, target, out)


def _merge(modify: Modify, merge: Merge, query: Query, target: Relation, out: Printer) -> None:
    """MERGE as text (get_merge_query_def)."""
    out.put("MERGE INTO " + _target_text(modify, out))
    print_from(query, " USING ", out, print_subquery)
    out.keyword(" ON ", -STEP, STEP, 2)
    print_expr(merge.condition, out, False)
    by_source = any(action.match is MergeMatch.NOT_MATCHED_BY_SOURCE for action in merge.actions)
    for action in merge.actions:
        out.keyword(" WHEN ", -STEP, STEP, 2)
        by_target = by_source and action.match is MergeMatch.NOT_MATCHED_BY_TARGET
        out.put(action.match.value + (" BY TARGET" if by_target else ""))
        if action.condition is not None:
            out.keyword(" AND ", -STEP, STEP, 3)
            print_expr(action.condition, out, False)
        out.keyword(" THEN ", -STEP, STEP, 3)
        _action(action, target, out)


def _action(action: MergeAction, target: Relation, out: Printer) -> None:
    if action.command is None:
        out.put("DO NOTHING")
    elif action.command is Command.DELETE:
        out.put("DELETE")
    elif action.command is Command.UPDATE:
        out.put("UPDATE SET ")
        _assignments(action.assigned, target, out)
    else:
        out.put("INSERT")
        if action.assigned:
            out.put(" (" + ", ".join(quote_identifier(_column(target, a.attnum)) for a in action.assigned) + ")")
        if action.overriding is not None:
            out.put(f" OVERRIDING {action.overriding.upper()} VALUE")
        if not action.assigned:
            out.put(" DEFAULT VALUES")
            return
        out.keyword(" VALUES (", -STEP, STEP, 4)
        for number, assignment in enumerate(action.assigned):
            out.put(", " if number else "")
            print_top(assignment.expr, out, False)
        out.put(")")


def _conflict(conflict: Conflict, target: Relation, out: Printer) -> None:
    out.put(" ON CONFLICT")
    prefix, out.prefix = out.prefix, False
    if conflict.elements:
        out.put("(")
        print_list([element.expr for element in conflict.elements], out, False)
        out.put(")")
        if conflict.arbiter_where is not None:
            out.keyword(" WHERE ", -STEP, STEP, 1)
            print_expr(conflict.arbiter_where, out, False)
    elif conflict.constraint:
        out.put(f" ON CONSTRAINT {quote_identifier(constraint_row(out.session, conflict.constraint).conname)}")
    out.prefix = prefix
    if conflict.assigned is None:
        out.put(" DO NOTHING")
        return
    out.put(" DO UPDATE SET ")
    _assignments(conflict.assigned, target, out)
    if conflict.where is not None:
        out.keyword(" WHERE ", -STEP, STEP, 1)
        print_expr(conflict.where, out, False)


def _assignments(assigned: Sequence[Assignment], target: Relation, out: Printer) -> None:
    """The assignments of UPDATE as text (get_update_query_targetlist_def)."""
    separator = ""
    for link, group in groupby(assigned, _subquery):
        listed = list(group)
        if link is not None and link.query is not None:
            names = ", ".join(quote_identifier(_column(target, each.attnum)) for each in listed)
            out.put(f"{separator}({names}) = ")
            print_expr(replace(link, query=_as_written(link.query)), out, False)
            separator = ", "
            continue
        for assignment in listed:
            out.put(f"{separator}{quote_identifier(_column(target, assignment.attnum))} = ")
            print_expr(assignment.expr, out, False)
            separator = ", "


def _subquery(assignment: Assignment) -> SubLink | None:
    """The subquery that assigns several columns, this one too (SetClause._subquery)."""
    expr = _without_casts(assignment.expr)
    if isinstance(expr, FieldSelect) and isinstance(expr.arg, SubLink):
        query = expr.arg.query
        if query is not None and len(query.rtable) == 1 and query.rtable[0].name == "*MULTIEXPR*":
            return expr.arg
    return None


def _as_written(query: Query) -> Query:
    inner = query.rtable[0].subquery
    assert inner is not None
    return map_query(inner, lambda var, depth: replace(var, levelsup=depth - 1), 2)


def _without_casts(expr: Expr | None) -> Expr | None:
    if isinstance(expr, FuncExpr) and expr.args:
        return _without_casts(expr.args[0])
    if isinstance(expr, (CoerceToDomain, CoerceViaIO, RelabelType)):
        return _without_casts(expr.arg)
    return expr


def _column(target: Relation, attnum: int) -> str:
    return target.attributes[attnum - 1].name
