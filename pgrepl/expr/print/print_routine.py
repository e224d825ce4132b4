"""Routines, triggers and operators as text (pg_get_functiondef, pg_get_triggerdef), and the columns that a routine
returns; and, as in the bodies of functions, INSERT, UPDATE, DELETE and MERGE (get_insert_query_def and its siblings).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from pgrepl.catalog.facts import triggers
from pgrepl.catalog.facts.namespace import LANGUAGE_NAMES, as_proc, operator, operator_text, routine, routine_row
from pgrepl.catalog.facts.relation import Relation, display_name, relation
from pgrepl.catalog.facts.relation_parts import constraint_row
from pgrepl.catalog.facts.triggers import Trigger, trigger_by_oid
from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.parameters import split_identifiers
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.calls import name_finds
from pgrepl.expr.analyse.lookup import relation_rte, row_attributes, type_text
from pgrepl.expr.analyse.polymorphic import resolve
from pgrepl.expr.analyse.targets import body_of, default_arguments
from pgrepl.expr.dml_tree import TARGET, Assignment, Command, Conflict, Merge, MergeAction, MergeMatch, Modify
from pgrepl.expr.evaluate.compiler import out_columns
from pgrepl.expr.print.deparse import expression_text, load_forms
from pgrepl.expr.print.print_expr import print_expr, print_list, print_top
from pgrepl.expr.print.print_from import names_of_query, print_from, print_values, relation_text
from pgrepl.expr.print.print_query import print_subquery, print_targets, print_with
from pgrepl.expr.print.printer import INDENTED, PRETTY, STEP, Names, Printer, Style
from pgrepl.expr.rewrite.dml_queries import map_query
from pgrepl.expr.tree import (
    CoerceToDomain,
    CoerceViaIO,
    Column,
    Expr,
    FieldSelect,
    FuncExpr,
    Query,
    RangeRef,
    RelabelType,
    SubLink,
)
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_literal, quote_qualified
from pgrepl.types import oids
from pgrepl.types.builtin import Proc, aggregate_by_oid
from pgrepl.types.oids import REGPROC

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.catalog.store.tables import pg_operator, pg_proc


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
            names = ", ".join(quote_identifier(_column(target, assignment.attnum)) for assignment in listed)
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


_MODES = {"i": "", "b": "INOUT ", "o": "OUT ", "v": "VARIADIC ", "t": ""}
_INTERNAL_LANGUAGES = ("internal", "c")


def arguments_text(session: Session, proc: Proc, *, table: bool = False, defaults: bool = False) -> str:
    """The parameters, without the columns of RETURNS TABLE; with `table` only these (print_function_arguments)."""
    types = proc.argtypes if proc.allargtypes is None else proc.allargtypes
    modes = proc.argmodes or "i" * len(types)
    names = proc.argnames or ("",) * len(types)
    values = _defaults(session, proc) if defaults else []
    shown = []
    inputs = 0
    for typoid, mode, name in zip(types, modes, names, strict=True):
        is_input = mode in "ibv"
        inputs += is_input
        if table is not (mode == "t"):
            continue
        text = "IN " if mode == "i" and proc.kind == "p" else _MODES[mode]
        text += f"{quote_identifier(name)} " if name else ""
        text += type_text(session, typoid)
        if is_input and values and inputs > proc.nargs - len(values):
            text += f" DEFAULT {values[inputs - 1 - (proc.nargs - len(values))]}"
        shown.append(text)
    direct = None if table or proc.kind != "a" else _direct_arguments(proc)
    if direct is None:
        return ", ".join(shown)
    sorted_by = shown[direct:] or shown[-1:]  # a VARIADIC parameter stands for both
    return " ".join([*([", ".join(shown[:direct])] if direct else []), "ORDER BY " + ", ".join(sorted_by)])


def _direct_arguments(proc: Proc) -> int | None:
    """How many parameters of an aggregate stand before WITHIN GROUP; None: it is no ordered-set aggregate."""
    aggregate = aggregate_by_oid(proc.oid)
    return aggregate.numdirectargs if aggregate is not None and aggregate.kind != "n" else None


def _defaults(session: Session, proc: Proc) -> list[str]:
    if proc.defaults:
        return list(proc.defaults)
    return [expression_text(session, expr) for expr in default_arguments(session, proc.oid)]


def default_text(session: Session, proc: Proc, number: int) -> str | None:
    """The default of a parameter, of all counted from 1 (pg_get_function_arg_default)."""
    modes = proc.argmodes or "i" * proc.nargs
    if not 0 < number <= len(modes) or modes[number - 1] not in "ibv":
        return None
    values = _defaults(session, proc)
    place = sum(mode in "ibv" for mode in modes[:number]) - 1 - (proc.nargs - len(values))
    return values[place] if place >= 0 else None


def result_text(session: Session, proc: Proc) -> str | None:
    """The result as RETURNS names it; None for a procedure (pg_get_function_result)."""
    if proc.kind == "p":
        return None
    columns = arguments_text(session, proc, table=True) if proc.retset else ""
    if columns:
        return f"TABLE({columns})"
    return f"{'SETOF ' if proc.retset else ''}{type_text(session, proc.rettype)}"


def signature_text(session: Session, proc: Proc) -> str:
    """schema.name(types), as DROP and GRANT take it."""
    return f"{quote_qualified(proc.schema, proc.name)}({arguments_text(session, proc)})"


def definition(session: Session, oid: int) -> str | None:
    """CREATE OR REPLACE … of a routine (pg_get_functiondef)."""
    proc = routine(session, oid)
    if proc is None:
        return None
    if proc.kind == "a":
        raise PgError("42809", f'"{proc.name}" is an aggregate function')
    word = "PROCEDURE" if proc.kind == "p" else "FUNCTION"
    lines = [
        f"CREATE OR REPLACE {word} {quote_qualified(proc.schema, proc.name)}"
        f"({arguments_text(session, proc, defaults=True)})"
    ]
    result = result_text(session, proc)
    if result is not None:
        lines.append(f" RETURNS {result}")
    lines.append(f" LANGUAGE {quote_identifier(LANGUAGE_NAMES[proc.lang])}")
    options = _options(session, proc)
    if options:
        lines.append(options)
    row = routine_row(session, oid)
    if row is not None:
        lines += [f" SET {_setting(item)}" for item in row.proconfig or ()]
    body = body_text(session, oid)
    lines.append(_quoted(proc.src, word.lower()) if body is None else body)
    return "\n".join(lines) + "\n"


def body_text(session: Session, oid: int) -> str | None:
    """A body that is no string (pg_get_function_sqlbody); None: it is one."""
    row = routine_row(session, oid)
    if row is None or row.prosqlbody is None:
        return None
    stored = row.prosqlbody
    texts = []
    for number, statement in enumerate(body_of(session, stored)):
        style = Style() if stored["return"] else INDENTED
        texts.append(statement_text(session, statement, row, style, is_return=number in stored["returns"]))
    if stored["return"]:
        return texts[0].removeprefix(" ")
    return "BEGIN ATOMIC\n" + "".join(f"{text};\n" for text in texts) + "END"


def statement_text(session: Session, statement: Query | Modify, row: pg_proc, style: Style, *, is_return: bool) -> str:
    """A statement of a standard body (print_function_sqlbody)."""
    out = Printer(session, style, [Names((), [], [])], routine=(row.proname, row.proargnames or ()))
    load_forms()
    out.indent = int(style.indent)
    if isinstance(statement, Query) and is_return:
        out.put(" RETURN ")
        out.indent += STEP if style.indent else 0
        print_expr(statement.targets[0].expr, out, True)
    elif isinstance(statement, Query):
        print_subquery(statement, out, names_visible=False)
    else:
        print_modify(statement, out)
    return out.text()


def _options(session: Session, proc: Proc) -> str:
    row = routine_row(session, proc.oid)
    usual = 1 if LANGUAGE_NAMES[proc.lang] in _INTERNAL_LANGUAGES else 100
    words = [
        (proc.kind == "w", "WINDOW"),
        (proc.volatile == "i", "IMMUTABLE"),
        (proc.volatile == "s", "STABLE"),
        (proc.parallel == "s", "PARALLEL SAFE"),
        (proc.parallel == "r", "PARALLEL RESTRICTED"),
        (proc.strict, "STRICT"),
        (row is not None and row.prosecdef, "SECURITY DEFINER"),
        (proc.leakproof, "LEAKPROOF"),
        (proc.cost != usual, f"COST {proc.cost:g}"),
        (proc.rows > 0 and proc.rows != 1000, f"ROWS {proc.rows:g}"),
    ]
    return "".join(f" {word}" for given, word in words if given)


def _setting(item: str) -> str:
    name, _, value = item.partition("=")
    if name.lower() in parameters.LIST_QUOTE:
        listed = split_identifiers(value)
        text = ", ".join(map(quote_literal, listed)) if listed else "''"
    else:
        text = quote_literal(value)
    return f"{quote_identifier(name)} TO {text}"


def _quoted(source: str, word: str) -> str:
    delimiter = f"${word}"
    while delimiter in source:
        delimiter += "x"
    return f"AS {delimiter}${source}{delimiter}$"


def row_of(session: Session, routine: pg_proc, argtypes: Sequence[int]) -> tuple[Column, ...] | None:
    """The columns that the result has as a row; None: it is a scalar, or a record of unknown columns."""
    if routine.prorettype == oids.RECORD:
        columns = out_columns(as_proc(session, routine))
        if columns is None:
            return None
        types, names = columns
        actual = [resolve(session, argtypes, routine.proargtypes, typoid)[1] for typoid in types]
        return tuple(
            Column(name or f"column{number}", typoid, -1, lookup.collation(typoid))
            for number, (name, typoid) in enumerate(zip(names, actual, strict=True), 1)
        )
    if lookup.is_complex(routine.prorettype):
        base = lookup.base(routine.prorettype)
        return tuple(Column(a.name, a.type, a.typmod, a.collation, a.dropped) for a in row_attributes(session, base))
    return None


# --- trigger definition -----------------------------------------------------------------------------------------------


_EVENTS = (
    (triggers.INSERT, "INSERT"), (triggers.DELETE, "DELETE"), (triggers.UPDATE, "UPDATE"),
    (triggers.TRUNCATE, "TRUNCATE"),
)  # fmt: skip


def trigger_definition(session: Session, oid: int, pretty: bool = False) -> str | None:
    trigger = trigger_by_oid(session, oid)
    if trigger is None:
        return None
    table = relation(session, trigger.relid)
    name = display_name(session, table) if pretty else quote_qualified(table.schema, table.name)
    text = f"CREATE {'CONSTRAINT ' if trigger.constraint else ''}TRIGGER {quote_identifier(trigger.name)}"
    text += f" {_timing(trigger)} {_events(trigger, table)} ON {name} {_constraint(session, trigger)}"
    if trigger.old_table is not None or trigger.new_table is not None:
        text += "REFERENCING "
        for word, transition in (("OLD", trigger.old_table), ("NEW", trigger.new_table)):
            if transition is not None:
                text += f"{word} TABLE AS {quote_identifier(transition)} "
    text += f"FOR EACH {'ROW' if trigger.is_row else 'STATEMENT'} "
    if trigger.when is not None:
        text += f"WHEN ({_condition(session, stored.from_json(trigger.when, session), table, pretty)}) "
    args = ", ".join(quote_literal(arg) for arg in trigger.args)
    return f"{text}EXECUTE FUNCTION {_function(session, trigger.function)}({args})"


def _timing(trigger: Trigger) -> str:
    if trigger.type & triggers.INSTEAD:
        return "INSTEAD OF"
    return "BEFORE" if trigger.type & triggers.BEFORE else "AFTER"


def _events(trigger: Trigger, table: Relation) -> str:
    words = [word for bit, word in _EVENTS if trigger.type & bit]
    columns = ", ".join(quote_identifier(table.attributes[number - 1].name) for number in trigger.columns)
    return " OR ".join(f"{word} OF {columns}" if word == "UPDATE" and columns else word for word in words)


def _constraint(session: Session, trigger: Trigger) -> str:
    if not trigger.constraint:
        return ""
    text = f"FROM {display_name(session, relation(session, trigger.referenced))} " if trigger.referenced else ""
    text += "DEFERRABLE" if trigger.deferrable else "NOT DEFERRABLE"
    return f"{text} INITIALLY {'DEFERRED' if trigger.initially_deferred else 'IMMEDIATE'} "


def _condition(session: Session, when: Expr, table: Relation, pretty: bool) -> str:
    rtes = [relation_rte(table, name) for name in ("old", "new")]
    columns: list[list[str | None]] = [[None if c.dropped else c.name for c in rte.columns] for rte in rtes]
    load_forms()
    out = Printer(session, PRETTY if pretty else INDENTED, [Names(rtes, ["old", "new"], columns)], prefix=True)
    print_list((when,), out, False)
    return out.text()


def _function(session: Session, oid: int) -> str:
    proc = routine(session, oid)
    assert proc is not None
    is_enough = name_finds(session, proc, (), (), expand_variadic=True)
    return quote_qualified(None if is_enough else proc.schema, proc.name)


# --- operator definition ----------------------------------------------------------------------------------------------


def create_operator(session: Session, row: pg_operator) -> str:
    """A commutator or negator that is not there yet becomes a shell, which its own statement fills in."""
    parts = [f"FUNCTION = {session.object_name(REGPROC, row.oprcode)}"]
    for word, typoid in (("LEFTARG", row.oprleft), ("RIGHTARG", row.oprright)):
        if typoid:
            parts.append(f"{word} = {type_text(session, session.type_of(typoid))}")
    for word, other in (("COMMUTATOR", row.oprcom), ("NEGATOR", row.oprnegate)):
        if other and operator(session, other) is not None:
            parts.append(f"{word} = OPERATOR({operator_text(session, other)})")
    parts += [word for word, flag in (("MERGES", row.oprcanmerge), ("HASHES", row.oprcanhash)) if flag]
    for word, function in (("RESTRICT", row.oprrest), ("JOIN", row.oprjoin)):
        if function:
            parts.append(f"{word} = {session.object_name(REGPROC, function)}")
    listed = ",\n    ".join(parts)
    return f"CREATE OPERATOR {operator_text(session, row.oid)} (\n    {listed}\n);"


def signature(session: Session, row: pg_operator) -> str:
    """The name with the types of its operands, as ALTER and DROP take it."""
    operands = [type_text(session, session.type_of(t)) if t else "NONE" for t in (row.oprleft, row.oprright)]
    return f"{operator_text(session, row.oid)} ({', '.join(operands)})"
