"""INSERT, UPDATE and DELETE as text (get_insert_query_def and its siblings), as in the bodies of functions."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.constraint import constraint_row
from pgrepl.catalog.relation import Relation, relation
from pgrepl.expr.dml.plan import TARGET, Assignment, Command, Conflict, Modify
from pgrepl.expr.print_expr import print_expr, print_list, print_top
from pgrepl.expr.print_from import print_from, print_values
from pgrepl.expr.print_names import names_of_query, relation_text
from pgrepl.expr.print_query import print_subquery, print_targets, print_with
from pgrepl.expr.printer import STEP, Printer
from pgrepl.expr.tree import Query, RangeRef
from pgrepl.sql.quote import quote_identifier


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
    else:
        out.put("DELETE FROM " + _target_text(modify, out))
        print_from(query, " USING ", out, print_subquery)
    if modify.where is not None:
        out.keyword(" WHERE ", -STEP, STEP, 1)
        print_expr(modify.where, out, False)
    if modify.returning:
        out.keyword(" RETURNING", -STEP, STEP, 1)
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
    for number, assignment in enumerate(assigned):
        out.put(", " if number else "")
        out.put(f"{quote_identifier(_column(target, assignment.attnum))} = ")
        print_expr(assignment.expr, out, False)


def _column(target: Relation, attnum: int) -> str:
    return target.attributes[attnum - 1].name
