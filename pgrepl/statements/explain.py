"""EXPLAIN: how a query, or that behind an INSERT, UPDATE or DELETE, would be carried out; with ANALYZE, how it was.

The options are PostgreSQL's, as far as there is something to show. The plan is pgrepl's own: which engine, what is
read of which files, how relations are joined; with VERBOSE also the physical plan that Spark makes of it. There are no
costs; `rows` is what a scan looks at.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from pgrepl.errors import PgError, unsupported
from pgrepl.expr.analyze import analyze_query
from pgrepl.query.result import Result, ResultColumn
from pgrepl.sql.nodes import (
    CreateTableAsStmt,
    DefElem,
    DeleteStmt,
    ExplainStmt,
    InsertStmt,
    SelectStmt,
    Statement,
    UpdateStmt,
)
from pgrepl.sql.options import get_boolean, get_string
from pgrepl.statements.base import execute
from pgrepl.statements.explain_plan import Explained, explain_modify, explain_query
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

_FORMATS = {"text": oids.TEXT, "xml": oids.XML, "json": oids.JSON, "yaml": oids.TEXT}
_SERIALIZATIONS = {"off": False, "none": False, "text": True, "binary": True}
_FLAGS = frozenset(("analyze", "verbose", "costs", "timing", "summary"))
_ABSENT = frozenset(("buffers", "wal", "settings", "generic_plan", "memory", "serialize"))  # may be false only


@dataclass
class Options:
    flags: dict[str, bool]
    format: str = "text"

    def flag(self, name: str, default: bool = False) -> bool:
        return self.flags.get(name, default)

    @property
    def analyze(self) -> bool:
        return self.flag("analyze")

    @property
    def timing(self) -> bool:
        return self.flag("timing", self.analyze)

    @property
    def summary(self) -> bool:
        return self.flag("summary", self.analyze)


def read_options(given: tuple[DefElem, ...]) -> Options:
    """As ExplainQuery reads them."""
    options = Options({})
    for option in given:
        if option.name in _FLAGS:
            options.flags[option.name] = get_boolean(option)
        elif option.name == "serialize":
            options.flags["serialize"] = option.value is None or _chosen(option, _SERIALIZATIONS)
        elif option.name in _ABSENT:
            options.flags[option.name] = get_boolean(option)
        elif option.name == "format":
            _chosen(option, _FORMATS)
            options.format = get_string(option)
        else:
            raise PgError("42601", f'unrecognized EXPLAIN option "{option.name}"', location=option.location)
    for name, wanted in (("wal", "WAL"), ("timing", "TIMING")):
        if options.flag(name) and not options.analyze:
            raise PgError("22023", f"EXPLAIN option {wanted} requires ANALYZE")
    if options.flag("serialize") and not options.analyze:
        raise PgError("22023", "EXPLAIN option SERIALIZE requires ANALYZE")
    if options.flag("generic_plan") and options.analyze:
        raise PgError("22023", "EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together")
    for name in sorted(_ABSENT):
        if options.flag(name):
            raise unsupported(f"EXPLAIN option {name.upper()}")
    return options


def _chosen(option: DefElem, values: dict[str, bool] | dict[str, int]) -> bool:
    text = get_string(option)
    if text not in values:
        message = f'unrecognized value for EXPLAIN option "{option.name}": "{text}"'
        raise PgError("22023", message, location=option.location)
    return bool(values[text])


def described_column(session: Session, stmt: ExplainStmt) -> ResultColumn:
    """What it will answer; the options are not judged yet (ExplainResultDesc)."""
    if isinstance(stmt.query, SelectStmt):
        analyze_query(session, stmt.query)
    formats = [get_string(option) for option in stmt.options if option.name == "format"]
    return _column(formats[-1] if formats else "text")


def _column(name: str) -> ResultColumn:
    return ResultColumn("QUERY PLAN", _FORMATS.get(name, oids.TEXT))


@execute.register(ExplainStmt)
def explain(stmt: ExplainStmt, session: Session) -> Result:
    options = read_options(stmt.options)
    begin = perf_counter()
    explained = _explained(session, stmt.query, options.flag("verbose"))
    planning = perf_counter() - begin
    execution = None
    if options.analyze:
        begin = perf_counter()
        explained.plan.actual_rows = _carry_out(session, stmt.query, explained)
        execution = perf_counter() - begin
        explained.plan.actual_time = execution if options.timing else None
    times = {"Planning Time": planning, "Execution Time": execution} if options.summary else {}
    from pgrepl.statements.explain_output import WRITERS

    lines = WRITERS[options.format](explained, {k: v for k, v in times.items() if v is not None}, options)
    return Result("EXPLAIN", (_column(options.format),), [(line,) for line in lines])


def _explained(session: Session, stmt: Statement, verbose: bool) -> Explained:
    if isinstance(stmt, CreateTableAsStmt):
        if not isinstance(stmt.query, SelectStmt):
            raise unsupported("CREATE TABLE AS EXECUTE")
        stmt = stmt.query
    if isinstance(stmt, SelectStmt):
        from pgrepl.query import permissions

        query = analyze_query(session, stmt)
        if any(cte.modify is not None for cte in query.ctes):
            raise unsupported("EXPLAIN of data-modifying statements in WITH")
        permissions.check(session, query)
        permissions.check_functions(session, query)
        return explain_query(session, query, verbose)
    if isinstance(stmt, (InsertStmt, UpdateStmt, DeleteStmt)):
        return explain_modify(session, stmt, verbose)
    from pgrepl.sql.tags import command_tag

    raise unsupported(f"EXPLAIN {command_tag(stmt)}")


def _carry_out(session: Session, stmt: Statement, explained: Explained) -> int:
    """How many rows came out of it."""
    if isinstance(stmt, SelectStmt) and stmt.into is None:
        return sum(len(batch) for batch in explained.rows().batches())
    from pgrepl.catalog.transaction import require_writable
    from pgrepl.sql.tags import command_tag

    if not isinstance(stmt, (InsertStmt, UpdateStmt, DeleteStmt)):
        require_writable(session, command_tag(stmt))
        session.transaction.require_write()
    result = execute(stmt, session)
    return len(result.rows) if result.columns is not None else 0
