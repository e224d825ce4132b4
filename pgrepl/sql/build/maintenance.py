"""EXPLAIN, VACUUM, ANALYZE, CHECKPOINT."""

from __future__ import annotations

from pgrepl.sql.build import build
from pgrepl.sql.nodes import CheckPointStmt, DefElem, ExplainStmt, RangeVar, Statement, VacuumStmt

_Relations = list[tuple[RangeVar, tuple[str, ...]]]


@build
def explain(location: int, query: Statement) -> ExplainStmt:
    return ExplainStmt(query)


@build
def explain_analyze(location: int, analyze: DefElem, verbose: DefElem | None, query: Statement) -> ExplainStmt:
    return ExplainStmt(query, (analyze,) if verbose is None else (analyze, verbose))


@build
def explain_verbose(location: int, verbose: DefElem, query: Statement) -> ExplainStmt:
    return ExplainStmt(query, (verbose,))


@build
def explain_options(location: int, options: list[DefElem], query: Statement) -> ExplainStmt:
    return ExplainStmt(query, tuple(options))


@build
def checkpoint(location: int) -> CheckPointStmt:
    return CheckPointStmt()


@build
def vacuum_relation(location: int, relation: RangeVar, columns: list[str] | None) -> tuple[RangeVar, tuple[str, ...]]:
    return relation, tuple(columns or ())


@build
def vacuum(
    location: int,
    full: DefElem | None,
    freeze: DefElem | None,
    verbose: DefElem | None,
    analyze: DefElem | None,
    relations: _Relations,
) -> VacuumStmt:
    options = tuple(option for option in (full, freeze, verbose, analyze) if option is not None)
    return VacuumStmt(True, options, tuple(relations))


@build
def vacuum_options(location: int, options: list[DefElem], relations: _Relations) -> VacuumStmt:
    return VacuumStmt(True, tuple(options), tuple(relations))


@build
def analyze(location: int, _: str, verbose: DefElem | None, relations: _Relations) -> VacuumStmt:
    return VacuumStmt(False, () if verbose is None else (verbose,), tuple(relations))


@build
def analyze_options(location: int, _: str, options: list[DefElem], relations: _Relations) -> VacuumStmt:
    return VacuumStmt(False, tuple(options), tuple(relations))
