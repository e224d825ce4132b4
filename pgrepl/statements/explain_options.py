"""The options of EXPLAIN (ExplainQuery), what it says beside the plan, and expressions as the deparser prints them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.session.parameters import find
from pgrepl.expr import tree
from pgrepl.expr.print.deparse import load_forms
from pgrepl.expr.print.print_expr import Printed, print_expr
from pgrepl.expr.print.print_from import names_of_query, relation_text
from pgrepl.expr.print.printer import Names, Printer, Style
from pgrepl.expr.tree import Expr, Query, Rte, RteKind, SortGroup
from pgrepl.expr.walk import rewrite
from pgrepl.ground.errors import PgError
from pgrepl.query.run import as_text
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.location import get_boolean, get_string
from pgrepl.sql.nodes import DefElem, SubLinkType
from pgrepl.types import oids
from pgrepl.types.binary import sender
from pgrepl.types.builtin import proc_by_oid

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.query.result import Result

# beside those of query tuning (GUC_EXPLAIN)
_EXPLAINED = frozenset(
    (
        "debug_parallel_query", "effective_io_concurrency", "hash_mem_multiplier", "maintenance_io_concurrency",
        "max_parallel_workers", "max_parallel_workers_per_gather", "parallel_leader_participation", "search_path",
        "temp_buffers", "work_mem", "pgrepl.engine", "pgrepl.local_rows", "pgrepl.spark_rows", "pgrepl.memory_limit",
    )
)  # fmt: skip
_NOT_EXPLAINED = "default_statistics_target"


@dataclass
class Memory:
    """Bytes that were in use after planning, and the most at once."""

    used: int = 0
    allocated: int = 0


@contextmanager
def tracing() -> Iterator[Memory]:
    """Measure the memory that is taken meanwhile."""
    import tracemalloc

    memory, started = Memory(), not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield memory
        now, most = tracemalloc.get_traced_memory()
        memory.used, memory.allocated = max(now - before, 0), max(most - before, 0)
    finally:
        if started:
            tracemalloc.stop()


def changed_settings(session: Session) -> dict[str, str]:
    """The settings that plans depend on and that are not at their defaults (get_explain_guc_options)."""
    changed = {}
    for name in session.settings.set_names():
        parameter = find(name)
        if parameter is None or parameter.name == _NOT_EXPLAINED:
            continue
        if parameter.category.startswith("Query Tuning") or parameter.name in _EXPLAINED:
            if session.settings.value(name) != parameter.default:
                changed[parameter.name] = session.settings.get(name)
    return changed


# --- explain options --------------------------------------------------------------------------------------------------


FORMATS = {"text": oids.TEXT, "xml": oids.XML, "json": oids.JSON, "yaml": oids.TEXT}
_SERIALIZATIONS = {"off": "", "none": "", "text": "text", "binary": "binary"}
_FLAGS = frozenset(
    ("analyze", "verbose", "costs", "timing", "summary", "buffers", "wal", "settings", "generic_plan", "memory")
)


@dataclass
class ExplainOptions:
    flags: dict[str, bool]
    format: str = "text"
    serialize: str = ""  # text or binary

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


def read_options(given: tuple[DefElem, ...]) -> ExplainOptions:
    options = ExplainOptions({})
    for option in given:
        if option.name in _FLAGS:
            options.flags[option.name] = get_boolean(option)
        elif option.name == "serialize":
            options.serialize = "text" if option.value is None else _SERIALIZATIONS[_chosen(option, _SERIALIZATIONS)]
        elif option.name == "format":
            options.format = _chosen(option, FORMATS)
        else:
            raise PgError("42601", f'unrecognized EXPLAIN option "{option.name}"', location=option.location)
    for name, wanted in (("wal", "WAL"), ("timing", "TIMING")):
        if options.flag(name) and not options.analyze:
            raise PgError("22023", f"EXPLAIN option {wanted} requires ANALYZE")
    if options.serialize and not options.analyze:
        raise PgError("22023", "EXPLAIN option SERIALIZE requires ANALYZE")
    if options.flag("generic_plan") and options.analyze:
        raise PgError("22023", "EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together")
    return options


def _chosen(option: DefElem, values: Collection[str]) -> str:
    text = get_string(option)
    if text not in values:
        message = f'unrecognized value for EXPLAIN option "{option.name}": "{text}"'
        raise PgError("22023", message, location=option.location)
    return text


_HEAD, _LENGTH = 2, 4  # bytes: the number of a row's values, the length of each


@dataclass
class Serialization:
    """What the rows of a statement are as DataRow messages (serializeAnalyzeReceive). `format`: text or binary."""

    session: Session
    format: str
    size: int = 0
    seconds: float = 0.0

    @property
    def is_binary(self) -> bool:
        return self.format == "binary"

    def add(self, rows: Iterable[Sequence[Any]], types: Sequence[int]) -> None:
        """Rows of values."""
        began = perf_counter()
        if not self.is_binary:
            self._add_texts(as_text(map(tuple, rows), types, self.session.text_style))
        else:
            send = [sender(self.session.type_of(typoid), self.session.text_style.encoding) for typoid in types]
            for row in rows:
                self._count([None if v is None else make(v) for make, v in zip(send, row, strict=True)])
        self.seconds += perf_counter() - began

    def add_result(self, result: Result) -> None:
        """The rows that a statement returned."""
        types = [column.type for column in result.columns or ()]
        if result.values is not None:
            self.add(result.values, types)
        elif self.is_binary:
            self.add([[getattr(item, "value", item) for item in row] for row in result.rows], types)
        else:
            began = perf_counter()
            self._add_texts(result.rows)
            self.seconds += perf_counter() - began

    def _add_texts(self, rows: Iterable[Sequence[str | None]]) -> None:
        for row in rows:
            self._count([None if text is None else text.encode() for text in row])

    def _count(self, values: Sequence[bytes | None]) -> None:
        self.size += _HEAD + sum(_LENGTH + len(value or b"") for value in values)


# --- explain text -----------------------------------------------------------------------------------------------------


class Texts:
    """The texts of the expressions of one query level."""

    def __init__(self, session: Session, query: Query, parent: Texts | None) -> None:
        self.session = session
        self.query = query
        outside: list[Names] = [] if parent is None else parent.names
        self.names: list[Names] = [names_of_query(session, query, outside), *outside]
        self.subplans: list[tree.SubLink] = []

    def name(self, varno: int) -> str:
        return quote_identifier(self.alias(varno))

    def alias(self, varno: int) -> str:
        return self.names[0].relations[varno - 1] or "unnamed"

    def relation(self, relid: int) -> str:
        return relation_text(self.session, relid, ())

    def functions(self, entry: Rte) -> str:
        names = []
        for function in entry.functions:
            proc = proc_by_oid(function.func) if isinstance(function, tree.FuncExpr) else None
            names.append(proc.name if proc is not None else entry.name)
        return ", ".join(names)

    def text(self, expr: Expr) -> str:
        out = Printer(self.session, Style(), self.names, prefix=len(self.names) > 1 or len(self.query.rtable) > 1)
        load_forms()
        print_expr(self._without_subqueries(self.flat(expr)), out, True)
        return out.text()

    def sort_key(self, expr: Expr, key: SortGroup) -> str:
        from pgrepl.expr.print.print_query import print_direction

        out = Printer(self.session, Style(), self.names)
        print_direction(expr.type, key.sortop, key.nulls_first, out)
        return self.text(expr) + out.text()

    def flat(self, expr: Any) -> Any:
        """The expression with the columns of joins replaced by those of the joined relations."""

        def stands_for(node: Expr) -> Expr | None:
            if isinstance(node, tree.Var) and node.levelsup == 0 and node.attnum > 0:
                entry = self.query.rtable[node.varno - 1]
                if entry.kind is RteKind.JOIN:
                    meant = entry.join_vars[node.attnum - 1]
                    return rewrite(meant, stands_for) if meant is not None else None
                return replace(node, varno_written=0, attnum_written=0)
            return None

        return rewrite(expr, stands_for)

    def _without_subqueries(self, expr: Expr) -> Expr:
        def said(node: Expr) -> Expr | None:
            if not isinstance(node, tree.SubLink):
                return None
            if node not in self.subplans:
                self.subplans.append(node)
            name = f"SubPlan {self.subplans.index(node) + 1}"
            if node.kind in (SubLinkType.ANY, SubLinkType.ALL, SubLinkType.EXISTS):
                name = f"{node.kind.value.upper()} {name}"
            return Printed(node.type, typmod=node.typmod, collation=node.collation, text=f"({name})")

        return rewrite(expr, said)


def kilobytes(size: int) -> int:
    """Bytes as EXPLAIN shows them, rounded up (BYTES_TO_KILOBYTES)."""
    return (size + 1023) // 1024
