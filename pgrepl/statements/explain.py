"""EXPLAIN (explain.c): how a query, or that of an INSERT, UPDATE or DELETE, would be carried out; with ANALYZE, how it
was. The plan as text, JSON, YAML or XML, laid out as PostgreSQL lays out its own.

The options are PostgreSQL's, as far as there is something to show. The plan is pgrepl's own: the engine, how much of
which files is read, how relations are joined; with VERBOSE also Spark's physical plan. There are no costs; `rows` is
the number of rows that a scan reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

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
from pgrepl.statements.explain_options import (
    FORMATS,
    ExplainOptions,
    Serialization,
    changed_settings,
    kilobytes,
    read_options,
    tracing,
)
from pgrepl.statements.explain_plan import Actual, Explained, attach, explain_modify, explain_query, spark_nodes, spread
from pgrepl.statements.prepared import binding, without_values
from pgrepl.statements.rows import select
from pgrepl.types import oids
from pgrepl.types.json import escape_json

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.ground.memory import TriggerCalls
    from pgrepl.statements.explain_plan import PlanNode

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
    tables = list(dict.fromkeys([*first, *(trigger.relid for trigger in called)]))
    explained.names_tables = len(tables) > 1
    explained.triggers = sorted(called, key=lambda trigger: (tables.index(trigger.relid), trigger.name.encode()))


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


# there are no buffers and no WAL: PostgreSQL's text leaves out what is 0, the other formats show it
_BLOCKS = ("Hit", "Read", "Dirtied", "Written")
_NO_BUFFERS = {
    f"{kind} {what} Blocks": 0
    for kind, counted in (("Shared", _BLOCKS), ("Local", _BLOCKS), ("Temp", ("Read", "Written")))
    for what in counted
}
_NO_WAL = {"WAL Records": 0, "WAL FPI": 0, "WAL Bytes": 0}

Times = dict[str, float]
_PLANNING = "Planning Time"


def _text(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    lines = list(_node_lines(explained.plan, options, None))
    lines += [line for block in explained.appendix for line in block.splitlines()]
    if explained.settings:
        lines.append("Settings: " + ", ".join(f"{name} = '{value}'" for name, value in explained.settings.items()))
    if explained.memory is not None:
        used, allocated = kilobytes(explained.memory.used), kilobytes(explained.memory.allocated)
        lines += ["Planning:", f"  Memory: used={used}kB  allocated={allocated}kB"]
    said = {name: f"{name}: {seconds * 1000:.3f} ms" for name, seconds in times.items()}
    planning = [said.pop(_PLANNING)] if _PLANNING in said else []
    serialized = _serialization_lines(explained, options)
    return [*lines, *planning, *_trigger_lines(explained, options), *serialized, *said.values()]


def _serialization_lines(explained: Explained, options: ExplainOptions) -> Iterator[str]:
    """What EXPLAIN says of SERIALIZE (ExplainPrintSerialize)."""
    serialization = explained.serialization
    if serialization is not None:
        time = f"time={serialization.seconds * 1000:.3f} ms  " if options.timing else ""
        yield f"Serialization: {time}output={kilobytes(serialization.size)}kB  format={serialization.format}"


def _trigger_lines(explained: Explained, options: ExplainOptions) -> Iterator[str]:
    """The lines of EXPLAIN ANALYZE about triggers (report_triggers)."""
    verbose = options.flag("verbose")
    for trigger in explained.triggers:
        name = f" {trigger.name}" if verbose or not trigger.is_constraint else ""
        constraint = f" for constraint {trigger.name}" if trigger.is_constraint else ""
        table = f" on {trigger.relation}" if explained.names_tables else ""
        time = f"time={trigger.total * 1000:.3f} " if options.timing else ""
        yield f"Trigger{name}{constraint}{table}: {time}calls={trigger.calls}"


def _node_lines(node: PlanNode, options: ExplainOptions, arrow: int | None) -> Iterator[str]:
    """`arrow`: how far its arrow is from the margin; the top node has none."""
    yield f"{'' if arrow is None else ' ' * arrow + '->  '}{node.title}{_measured(node, options)}"
    inner = 2 if arrow is None else arrow + 6
    if node.engine is not None:
        yield f"{' ' * inner}Engine: {node.engine}"
    for name, value in node.details.items():
        yield f"{' ' * inner}{name}: {', '.join(value) if isinstance(value, list) else value}"
        removed, any_at_all = _removed(node, name)
        if any_at_all:
            yield f"{' ' * inner}Rows Removed by {name}: {removed}"
    for child in node.children:
        if child.label:
            yield f"{' ' * inner}{child.label}"
        yield from _node_lines(child, options, inner + 2 if child.label else inner)


def _measured(node: PlanNode, options: ExplainOptions) -> str:
    text = ""
    if node.rows is not None and options.flag("costs", True):
        text += f"  (rows={node.rows})"
    actual = node.actual
    if actual is None:
        return text
    if not actual.loops:
        return f"{text} (never executed)"
    time = ""
    if actual.startup is not None and actual.total is not None:
        time = f"time={actual.startup * 1000:.3f}..{actual.total * 1000:.3f} "
    return f"{text} (actual {time}rows={actual.rows} loops={actual.loops})"


def _removed(node: PlanNode, name: str) -> tuple[int, bool]:
    """The rows that a filter has removed, and whether it has removed any."""
    return node.actual.removed.get(name, (0, False)) if node.actual is not None else (0, False)


def _as_data(explained: Explained, times: Times, options: ExplainOptions) -> dict[str, Any]:
    data: dict[str, Any] = {"Plan": _node_data(explained.plan, options)}
    if explained.appendix:
        data["Physical Plan"] = list(explained.appendix)
    if explained.settings:
        data["Settings"] = explained.settings
    planning: dict[str, Any] = dict(_NO_BUFFERS) if options.flag("buffers") else {}
    if explained.memory is not None:
        planning["Memory Used"] = kilobytes(explained.memory.used)
        planning["Memory Allocated"] = kilobytes(explained.memory.allocated)
    if planning:
        data["Planning"] = planning
    said = {name: round(seconds * 1000, 3) for name, seconds in times.items()}
    if _PLANNING in said:
        data[_PLANNING] = said.pop(_PLANNING)
    if options.analyze:
        data["Triggers"] = [_trigger_data(trigger, options) for trigger in explained.triggers]
    serialization = explained.serialization
    if serialization is not None:
        time = {"Time": round(serialization.seconds * 1000, 3)} if options.timing else {}
        volume = {"Output Volume": kilobytes(serialization.size), "Format": serialization.format}
        data["Serialization"] = time | volume | (_NO_BUFFERS if options.flag("buffers") else {})
    return data | said


def _trigger_data(trigger: TriggerCalls, options: ExplainOptions) -> dict[str, Any]:
    data: dict[str, Any] = {"Trigger Name": trigger.name}
    if trigger.is_constraint:
        data["Constraint Name"] = trigger.name
    data["Relation"] = trigger.relation
    if options.timing:
        data["Time"] = round(trigger.total * 1000, 3)
    return data | {"Calls": trigger.calls}


def _node_data(node: PlanNode, options: ExplainOptions, relationship: str = "") -> dict[str, Any]:
    kind, *named = (node.named or {"Node Type": node.title}).items()
    data: dict[str, Any] = dict([kind])
    if relationship:
        data["Parent Relationship"] = relationship
    if node.label:
        data["Subplan Name"] = node.label
    data |= named
    if node.rows is not None and options.flag("costs", True):
        data["Plan Rows"] = node.rows
    actual = node.actual
    if actual is not None and actual.startup is not None and actual.total is not None:
        data["Actual Startup Time"] = round(actual.startup * 1000, 3)
        data["Actual Total Time"] = round(actual.total * 1000, 3)
    if actual is not None:
        data |= {"Actual Rows": actual.rows, "Actual Loops": actual.loops}
    if node.engine is not None:
        data |= {"Engine": node.engine.engine.value, "Engine Reason": node.engine.reason}
        if node.engine.rows:
            data |= {"Rows to Read": node.engine.rows, "Bytes to Read": node.engine.bytes}
    for name, value in node.details.items():
        data[name] = value
        if _removed(node, name)[1]:
            data[f"Rows Removed by {name}"] = _removed(node, name)[0]
    if options.flag("buffers"):
        data |= _NO_BUFFERS
    if options.flag("wal"):
        data |= _NO_WAL
    if node.children:
        data["Plans"] = [_node_data(child, options, how) for child, how in _related(node)]
    return data


def _related(node: PlanNode) -> Iterator[tuple[PlanNode, str]]:
    """The nodes below one, each with what it is to it."""
    kind = node.named.get("Node Type", node.title)
    sides = iter(("Outer", "Inner"))
    for child in node.children:
        if child.label:
            yield child, "InitPlan" if child.label.startswith("CTE ") else "SubPlan"
        elif kind in ("Append", "SetOp"):
            yield child, "Member"
        else:
            yield child, "Subquery" if kind == "Subquery Scan" else next(sides)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    return ["\n".join(_json_lines([_as_data(explained, times, options)], 0))]


def _json_lines(value: Any, depth: int) -> list[str]:
    inner = "  " * (depth + 1)
    if isinstance(value, dict):
        parts = [[f"{inner}{escape_json(key)}: ", _json_lines(item, depth + 1)] for key, item in value.items()]
        return ["{", *_joined(parts), "  " * depth + "}"]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ["[", *_joined([[inner, _json_lines(item, depth + 1)] for item in value]), "  " * depth + "]"]
    if value == []:
        return ["[", "  " * depth + "]"]
    if isinstance(value, list):
        return ["[" + ", ".join(escape_json(item) for item in value) + "]"]
    return [_scalar(value)]


def _joined(parts: list[list[Any]]) -> list[str]:
    lines: list[str] = []
    for number, (head, rest) in enumerate(parts, 1):
        lines += [head + rest[0], *rest[1:]]
        if number < len(parts):
            lines[-1] += ","
    return lines


def _scalar(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value) if isinstance(value, int) else escape_json(value)


# --- YAML, XML --------------------------------------------------------------------------------------------------------


def _yaml(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    lines = _yaml_lines(_as_data(explained, times, options), 2)
    return ["\n".join(["- " + lines[0][2:], *lines[1:]])]


def _yaml_lines(data: dict[str, Any], indent: int) -> list[str]:
    lines = []
    for key, value in data.items():
        head = " " * indent + key + ": "
        if isinstance(value, dict):
            lines += [head, *_yaml_lines(value, indent + 2)]
        elif isinstance(value, list):
            lines.append(head)
            for item in value:
                if isinstance(item, dict):
                    inner = _yaml_lines(item, indent + 4)
                    lines += [" " * (indent + 2) + "- " + inner[0].lstrip(), *inner[1:]]
                else:
                    lines.append(" " * (indent + 2) + "- " + escape_json(item))
        else:
            lines.append(f"{head}{_scalar(value)}")
    return lines


def _xml(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    lines = ['<explain xmlns="http://www.postgresql.org/2009/explain">', "  <Query>"]
    lines += _xml_lines(_as_data(explained, times, options), 2)
    return ["\n".join([*lines, "  </Query>", "</explain>"])]


def _xml_lines(data: dict[str, Any], depth: int) -> list[str]:
    lines = []
    indent = "  " * depth
    for key, value in data.items():
        tag = key.replace(" ", "-")
        if isinstance(value, dict):
            lines += [f"{indent}<{tag}>", *_xml_lines(value, depth + 1), f"{indent}</{tag}>"]
        elif isinstance(value, list):
            lines.append(f"{indent}<{tag}>")
            for item in value:
                if isinstance(item, dict):
                    one = tag.removesuffix("s")
                    lines += [f"{indent}  <{one}>", *_xml_lines(item, depth + 2), f"{indent}  </{one}>"]
                else:
                    lines.append(f"{indent}  <Item>{escape(item)}</Item>")
            lines.append(f"{indent}</{tag}>")
        else:
            text = f"{value:.3f}" if isinstance(value, float) else escape(str(value))
            lines.append(f"{indent}<{tag}>{text}</{tag}>")
    return lines


WRITERS: dict[str, Callable[[Explained, Times, ExplainOptions], list[str]]] = {
    "text": _text,
    "json": _json,
    "yaml": _yaml,
    "xml": _xml,
}
