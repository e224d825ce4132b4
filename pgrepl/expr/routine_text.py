"""Routines as text: their arguments, results and definitions (pg_get_functiondef and the like in ruleutils.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import parameters
from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.catalog.routines import LANGUAGE_NAMES, routine, routine_row
from pgrepl.errors import PgError
from pgrepl.expr.deparse import expression_text, load_forms
from pgrepl.expr.print_expr import print_expr
from pgrepl.expr.print_modify import print_modify
from pgrepl.expr.print_query import print_subquery
from pgrepl.expr.printer import INDENTED, STEP, Names, Printer, Style
from pgrepl.expr.routines import body_of, default_arguments
from pgrepl.expr.tree import Query
from pgrepl.expr.typefacts import type_text
from pgrepl.sql.quote import quote_identifier, quote_literal, quote_qualified
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.catalog.tables import pg_proc
    from pgrepl.expr.dml.plan import Modify

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
    return ", ".join(shown)


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
