"""A body becomes code: parsed by the grammar, and its statements compiled to closures (pl_comp.c: do_compile)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pgrepl.errors import PgError
from pgrepl.plpgsql import (
    build,
    build_declarations,
    build_loops,
    build_sql,
    exec_control,
    exec_cursors,
    exec_errors,
    exec_sql,
    exec_transactions,
)
from pgrepl.plpgsql.builders import builder
from pgrepl.plpgsql.compilation import Compilation, FirstCompilation, Function, compiling
from pgrepl.plpgsql.data_types import data_type
from pgrepl.plpgsql.exec import compile_stmts
from pgrepl.plpgsql.frame import Code
from pgrepl.sql.parser import Parser
from pgrepl.sql.tables import PLPGSQL, load
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

# importing them registers builders and statements
FORMS = (
    build, build_declarations, build_loops, build_sql, exec_control, exec_cursors, exec_errors, exec_sql,
    exec_transactions,
)  # fmt: skip


@cache
def _parser() -> Parser:
    return Parser(load(PLPGSQL), builder)


def new_compilation(
    session: Session, function: Function, first: FirstCompilation, *, checks_syntax: bool = True
) -> Compilation:
    """A compilation with the level of the function's own names, to which the caller adds the parameters."""
    compilation = Compilation(session, function, first, checks_syntax=checks_syntax)
    compilation.push(function.name)
    return compilation


def compiled(compilation: Compilation, *, is_call: bool = False) -> Code:
    """The code of the body. An error has a place in the body, or a line of CONTEXT; of a call it has both
    (plpgsql_compile_error_callback)."""
    function, session = compilation.function, compilation.session
    try:
        found = compilation.variable("found", 0, data_type(session, oids.BOOL))
        function.found = found.number
        with compiling(compilation):
            tables = _parser()
            function.block = tables.run(
                tables.tables.starts["parse_function"], function.source, iter(compilation.scanner)
            )
    except PgError as error:
        if is_call:
            error.inside(function.source)
        if error.report.position is None:
            line = compilation.scanner.latest_line
            error.with_context(f'compilation of PL/pgSQL function "{function.name}" near line {line}')
        raise
    code = Code(session, function)
    assert function.block is not None
    code.run = compile_stmts([function.block], code)
    return code
