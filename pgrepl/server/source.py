"""The fields F, L and R of errors and notices (errfinish): a file and a line of pgrepl, and its function.

R is PostgreSQL's function where programs look for it (`RevalidateCachedQuery`, `_bt_check_unique`).
"""

from __future__ import annotations

import os
import re
import sys
from types import CodeType, FrameType
from typing import NamedTuple

from pgrepl.ground.errors import PgError, Report

# by SQLSTATE and how the message begins
_ROUTINES = (
    ("0A000", "cached plan must not change result type", "RevalidateCachedQuery"),
    ("22001", "value too long for type character varying", "varchar"),
    ("22P02", "invalid input syntax for type boolean", "boolin"),
    ("22P02", "invalid input syntax for type integer", "pg_strtoint32_safe"),
    ("22P02", "invalid input syntax for type numeric", "numeric_in"),
    ("22P02", "invalid input syntax for type uuid", "string_to_uuid"),
    ("22P02", "invalid input value for enum", "enum_in"),
    ("23502", "null value in column", "ExecConstraints"),
    ("23503", "", "ri_ReportViolation"),
    ("23505", "duplicate key value", "_bt_check_unique"),
    ("23514", "new row for relation", "ExecConstraints"),
    ("23514", "no partition of relation", "ExecFindPartition"),
    ("23514", "value for domain", "ExecEvalConstraintCheck"),
    ("26000", "prepared statement", "FetchPreparedStatement"),
    ("28P01", "password authentication failed", "auth_failed"),
    ("2BP01", "cannot drop", "reportDependentObjects"),
    ("40P01", "", "DeadLockReport"),
    ("42501", "", "aclcheck_error"),
    ("42601", "syntax error", "scanner_yyerror"),
    ("42702", "column reference", "colNameToVar"),
    ("42804", "column .* but expression is of type", "transformAssignedExpr"),
    ("42883", "function", "ParseFuncOrColumn"),
    ("42883", "operator does not exist", "op_error"),
    ("42P01", "missing FROM-clause entry", "errorMissingRTE"),
    ("42P02", "there is no parameter", "transformParamRef"),
    ("42P05", "prepared statement", "StorePreparedStatement"),
    ("42P06", "schema", "NamespaceCreate"),
    ("42P07", "relation", "heap_create_with_catalog"),
    ("57014", "canceling statement", "ProcessInterrupts"),
    ("57P01", "terminating connection", "ProcessInterrupts"),
    ("P0001", "", "exec_stmt_raise"),
)
# of names in a query, by the module that looks for them; definitions have other functions
_ROUTINES_OF_NAMES = {
    ("42P01", "expr/analyse/queries/query.py"): "parserOpenTable",
    ("42703", "expr/analyse/analyze.py"): "errorMissingColumn",
}
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_PASSING = frozenset(("notice", "of_notice", "on_report", "report"))  # functions that hand a report on


class Source(NamedTuple):
    file: str
    line: int
    routine: str


def of_error(error: PgError) -> Source:
    """The place where an error was raised; of one that is only told, the place where that is done."""
    places: list[tuple[CodeType, int]] = []
    step = error.__traceback__
    while step is not None:
        places.append((step.tb_frame.f_code, step.tb_lineno))
        step = step.tb_next
    found = _nearest(places[::-1]) if places else of_report(error.report)
    return found._replace(routine=_known(error.report, found.file) or found.routine)


def of_report(report: Report) -> Source:
    """The place where a report is made that is being sent."""
    places: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if places or (frame.f_code.co_name not in _PASSING and frame.f_code.co_filename != __file__):
            places.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return _nearest(places)


def _nearest(places: list[tuple[CodeType, int]]) -> Source:
    """The first of the places, outwards, with the name of the function: of what is nameless that around it."""
    code, line = places[0]
    named = (each.co_name for each, _ in places if each.co_name.isidentifier() and each.co_name != "_")
    return Source(os.path.relpath(code.co_filename, _PACKAGE), line, next(named, code.co_name))


def _known(report: Report, file: str) -> str | None:
    for sqlstate, begin, routine in _ROUTINES:
        if sqlstate == report.sqlstate and re.match(begin, report.message):
            return routine
    return _ROUTINES_OF_NAMES.get((report.sqlstate, file))
