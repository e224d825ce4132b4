"""EXPLAIN: how a query, or that of an INSERT, UPDATE or DELETE, would be carried out; with ANALYZE, how it was.

The options are PostgreSQL's, as far as there is something to show. The plan is pgrepl's own: the engine, how much of
which files is read, how relations are joined; with VERBOSE also Spark's physical plan. There are no costs; `rows` is
the number of rows that a scan reads.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import find_relation
from pgrepl.catalog.session.transaction import require_writable
from pgrepl.expr.analyse.analyze import analyze_modifying, analyze_query
from pgrepl.expr.rewrite import folding
from pgrepl.expr.tree import has_modifying_cte
from pgrepl.ground.errors import unsupported
from pgrepl.ground.memory import Instruments
from pgrepl.query import run
from pgrepl.query.result import Result, ResultColumn
from pgrepl.query.rowset import SparkRows
from pgrepl.sql.location import get_string
from pgrepl.sql.nodes import (
    MODIFYING,
    AnalyzedStmt,
    CreateTableAsStmt,
    DeclareCursorStmt,
    DeleteStmt,
    ExecuteStmt,
    ExplainStmt,
    InsertStmt,
    MergeStmt,
    RefreshMatViewStmt,
    SelectStmt,
    Statement,
    UpdateStmt,
)
from pgrepl.sql.statements import command_tag
from pgrepl.statements.explaining.options import (
    FORMATS,
    ExplainOptions,
    Serialization,
    changed_settings,
    read_options,
    tracing,
)
from pgrepl.statements.explaining.output import WRITERS
from pgrepl.statements.explaining.plan import (
    Actual,
    Explained,
    attach,
    explain_modify,
    explain_query,
    spark_nodes,
    spread,
)
from pgrepl.statements.prepared import binding, without_values
from pgrepl.statements.rows import select
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_MODIFYING = (AnalyzedStmt, *MODIFYING)


def described_column(session: Session, stmt: ExplainStmt) -> ResultColumn:
    """The column that EXPLAIN will return; its options are not checked yet (ExplainResultDesc)."""
    if isinstance(stmt.query, SelectStmt):
        analyze_query(session, stmt.query)
    elif isinstance(stmt.query, _MODIFYING):
        analyze_modifying(session, stmt.query)
    formats = [get_string(option) for option in stmt.options if option.name == "format"]
    return _column(formats[-1] if formats else "text")


def _column(name: str) -> ResultColumn:
    return ResultColumn("QUERY PLAN", FORMATS.get(name, oids.TEXT))


def explain(stmt: ExplainStmt, session: Session) -> Result:
    if isinstance(stmt.query, ExecuteStmt):
        with binding(session, stmt.query) as prepared:
            return explain(replace(stmt, query=prepared), session)
    options = read_options(stmt.options)
    if isinstance(stmt.query, RefreshMatViewStmt):  # as ExplainOneUtility does
        if options.format != "text":
            raise unsupported("EXPLAIN REFRESH MATERIALIZED VIEW in another format than text")
        return Result("EXPLAIN", (_column("text"),), [("Utility statements have no plan structure",)])
    with tracing() if options.flag("memory") else nullcontext() as memory:
        begin = perf_counter()
        explained = _planned(session, stmt.query, options)
        planning = perf_counter() - begin
    explained.memory = memory
    if options.flag("settings"):
        explained.settings = changed_settings(session)
    execution = None
    if options.analyze:
        begin = perf_counter()
        session.instruments = instruments = Instruments(timing=options.timing)
        try:
            if options.serialize:
                explained.serialization = Serialization(session, options.serialize)
            rows = _carry_out(session, stmt.query, explained, instruments)
        finally:
            session.instruments = None
        execution = perf_counter() - begin
        attach(explained.plan, instruments)
        _attach_triggers(session, stmt.query, explained, instruments)
        top = explained.plan.actual = explained.plan.actual or Actual(rows)
        top.rows = rows
        if options.timing and top.total is None:
            top.startup, top.total = 0.0, execution
        if explained.choice is not None and explained.choice.on_spark:
            spread(explained.plan)
    times = {"Planning Time": planning, "Execution Time": execution} if options.summary else {}
    lines = WRITERS[options.format](explained, {k: v for k, v in times.items() if v is not None}, options)
    return Result("EXPLAIN", (_column(options.format),), [(line,) for line in lines])


def _attach_triggers(session: Session, stmt: Statement, explained: Explained, instruments: Instruments) -> None:
    """The triggers of the named table first, those of a table by their names (ExplainPrintTriggers)."""
    called = list(instruments.triggers.values())
    if not called:
        return
    first: list[int] = []
    if isinstance(stmt, AnalyzedStmt):
        first = [stmt.modify.relid]
    elif isinstance(stmt, (InsertStmt, UpdateStmt, DeleteStmt, MergeStmt)):
        first = [find_relation(session, stmt.relation).oid]
    tables = list(dict.fromkeys([*first, *(each.relid for each in called)]))
    explained.names_tables = len(tables) > 1
    explained.triggers = sorted(called, key=lambda each: (tables.index(each.relid), each.name.encode()))


def _planned(session: Session, stmt: Statement, options: ExplainOptions) -> Explained:
    if not options.flag("generic_plan"):
        return _explained(session, stmt, options.flag("verbose"))
    with without_values(session, stmt):
        return _explained(session, stmt, options.flag("verbose"))


def _explained(session: Session, stmt: Statement, verbose: bool) -> Explained:
    if isinstance(stmt, CreateTableAsStmt):
        stmt = stmt.query
        if isinstance(stmt, ExecuteStmt):
            with binding(session, stmt) as prepared:
                return _explained(session, prepared, verbose)
    if isinstance(stmt, DeclareCursorStmt):
        stmt = stmt.query
    if isinstance(stmt, SelectStmt):
        query = analyze_query(session, stmt)
        folding.check(session, query)
        run.check(session, query, reads=False)
        run.check_functions(session, query)
        return explain_query(session, query, verbose)
    if isinstance(stmt, _MODIFYING):
        return explain_modify(session, analyze_modifying(session, stmt), verbose)
    raise unsupported(f"EXPLAIN {command_tag(stmt)}")


def _run(stmt: Statement, session: Session) -> Result:
    if isinstance(stmt, SelectStmt):
        return select(stmt, session)
    if isinstance(stmt, CreateTableAsStmt):
        from pgrepl.statements.view import create_table_as

        return create_table_as(stmt, session)
    assert isinstance(stmt, _MODIFYING)
    from pgrepl.writing.run import modify_rows

    return modify_rows(stmt, session)


def _carry_out(session: Session, stmt: Statement, explained: Explained, instruments: Instruments) -> int:
    """Run the statement; returns its number of rows."""
    query = explained.query
    if isinstance(stmt, SelectStmt) and stmt.into is None and query is not None and not has_modifying_cte(query.ctes):
        rows = explained.rows()
        if isinstance(rows, SparkRows):
            from pgrepl.engine.spark import is_remote
            from pgrepl.query.spark.statement import carry_out

            if not is_remote() and explained.serialization is None:
                return carry_out(rows.frame, list(spark_nodes(explained.plan)), instruments)
        count = 0
        for batch in rows.batches():
            count += len(batch)
            if explained.serialization is not None:
                explained.serialization.add(batch, [column.type for column in query.columns])
        return count
    if not isinstance(stmt, _MODIFYING) and (not isinstance(stmt, SelectStmt) or stmt.into is not None):
        require_writable(session, command_tag(stmt))
        session.transaction.require_write()
    formats = session.result_formats
    session.result_formats = (1,) if explained.serialization is not None and explained.serialization.is_binary else ()
    try:
        result = _run(stmt, session)
    finally:
        session.result_formats = formats
    if result.columns is None:
        return 0
    if explained.serialization is not None:
        explained.serialization.add_result(result)
    return len(result.rows if result.values is None else list(result.values))
