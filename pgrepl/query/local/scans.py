"""The rows of one range table entry, and TABLESAMPLE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import SystemRelation
from pgrepl.catalog.store.tables import pg_sequence
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.analyse.casts import is_binary_coercible
from pgrepl.expr.tree import Column, Rte, RteKind
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.ground.memory import counted
from pgrepl.query import system
from pgrepl.query.local.env import Env, LazyRows, Row, Run
from pgrepl.query.local.evaluator import Evaluator
from pgrepl.query.local.pull_up import pulled_up
from pgrepl.query.reads import note_reads
from pgrepl.query.shape import is_user_table, pinned_row, table_rows
from pgrepl.rows.changes import members
from pgrepl.sql.nodes import SelectStmt
from pgrepl.types.names import format_type
from pgrepl.types.style import Record

if TYPE_CHECKING:
    from pgrepl.expr.tree import TableSample


Item = TypeVar("Item")


class Sampling:
    """TABLESAMPLE of one entry of FROM. Its arguments may depend on rows of outer queries."""

    def __init__(self, sample: TableSample, evaluator: Evaluator) -> None:
        self._percent = evaluator.compile(sample.args[0])
        self._repeatable = evaluator.compile_optional(sample.repeatable)
        self._repeats = sample.repeatable is not None
        self._seed = Random().getrandbits(31)  # another one for each statement (ExecInitSampleScan)

    def parameters(self, env: Env) -> tuple[float, int]:
        """The fraction of rows, and the seed."""
        percent = self._percent(env)
        if percent is None:
            raise PgError("2202H", "TABLESAMPLE parameter cannot be null")
        seed = self._seed
        if self._repeats:
            given = self._repeatable(env)
            if given is None:
                raise PgError("2202G", "TABLESAMPLE REPEATABLE parameter cannot be null")
            seed = hash(float(given)) & 0x7FFFFFFF
        if not 0 <= percent <= 100:
            raise PgError("2202H", "sample percentage must be between 0 and 100")
        return float(percent) / 100, seed

    def of(self, rows: Iterable[Item], env: Env) -> Iterator[Item]:
        """Each row with the same probability."""
        fraction, seed = self.parameters(env)
        choose = Random(seed).random
        return (row for row in rows if choose() < fraction)


# --- scans ------------------------------------------------------------------------------------------------------------


FEW = 256  # OIDs by which a part of a system catalog is read
READS = 64  # of parts of it: for more questions all of it is read
FunctionRows = Callable[[Env], Iterable[Row | None]]  # None: a row that is NULL as a whole


def scan(varno: int, evaluator: Evaluator) -> Run:
    entry = evaluator.query.rtable[varno - 1]
    if is_user_table(entry):
        return _table(varno, evaluator)
    if entry.kind is RteKind.RELATION:
        return _relation(varno, evaluator)
    if entry.kind is RteKind.SUBQUERY:
        assert entry.subquery is not None
        return evaluator.subquery(entry.subquery, is_repeated=entry.lateral)
    if entry.kind is RteKind.CTE:
        assert entry.cte is not None
        return _at_level(evaluator.ctes.find(entry.cte, entry.cte_levelsup), entry.cte_levelsup)
    if entry.rows is not None:
        known = entry.rows
        return lambda env: known
    if entry.kind is RteKind.VALUES:
        lists = [[evaluator.compile(value) for value in row] for row in entry.values]
        return lambda env: [tuple([value(env) for value in row]) for row in lists]
    return _functions(entry, evaluator)


def _at_level(run: Run, up: int) -> Run:
    """Run a WITH query in the environment of the query that has the WITH list."""

    def rows(env: Env) -> Iterable[Row]:
        for _ in range(up):
            assert env.outer is not None
            env = env.outer
        return run(env)

    return rows


def _table(varno: int, evaluator: Evaluator) -> Run:
    """A user table: the columns that the query uses, of the rows within its bounds."""
    session, entry = evaluator.context.session, evaluator.query.rtable[varno - 1]
    scanned = members(session, entry.relid, entry.inh)
    attnums, bounds = evaluator.fetched(varno), evaluator.bounds.get(varno, ())
    if entry.pinned is not None:
        pinned = [pinned_row(row, attnums) for row in entry.pinned]
        return lambda env: pinned

    note_reads(session, scanned, bounds)
    if entry.sample is not None:
        sampling = Sampling(entry.sample, evaluator)
        return lambda env: sampling.of(table_rows(session, scanned, attnums), env)

    def read() -> Iterator[Row]:
        if session.instruments is None or (len(scanned) == 1 and scanned[0].relation.oid == entry.relid):
            return table_rows(session, scanned, attnums, bounds)
        nodes = [(evaluator.node((varno, member.relation.oid)), member) for member in scanned]
        return chain.from_iterable(
            counted(node, partial(table_rows, session, (member,), attnums, bounds)) for node, member in nodes
        )

    if evaluator.around is None:
        return lambda env: read()
    known: list[LazyRows[Row]] = []

    def remembered(env: Env) -> Iterable[Row]:
        """The rows, kept: a subquery may run for each row of the outer query."""
        if not known:
            known.append(LazyRows(read()))
        return known[0]

    return remembered


def _relation(varno: int, evaluator: Evaluator) -> Run:
    """A system catalog or view, or the state of a sequence."""
    session, entry = evaluator.context.session, evaluator.query.rtable[varno - 1]
    rel = relation(session, entry.relid, entry.release)
    known = rel.system
    if rel.kind == "S":
        return lambda env: _state(session, rel.oid)
    if known is None:
        raise unsupported(f'reading table "{rel.name}"')
    text = system.definition(known.schema, known.name, known.release)
    if text is not None:
        return _read_once(lambda: _view(evaluator, text))
    if not known.key:
        return _read_once(lambda: _catalog(evaluator, known, None))
    listed = [bound.counted for bound in evaluator.bounds.get(varno, ()) if bound.attnum == known.key]
    wanted = [frozenset(values) for values in listed if values is not None and len(values) <= FEW]
    return KeyedRows(evaluator, known, frozenset.intersection(*wanted) if wanted else None)


def _catalog(evaluator: Evaluator, relation: SystemRelation, oids: frozenset[int] | None) -> list[Row]:
    """Rows of a system catalog, read once for all of a statement: it does not change while the statement runs."""
    session, kept = evaluator.context.session, evaluator.catalog_rows
    place = relation.oid, relation.release, oids
    if place not in kept:
        kept[place] = list(session.hooks.system_rows(session, relation, oids))
    return kept[place]


class KeyedRows:
    """The rows of a system catalog, or those with some OIDs in its key. `only`: no others are wanted at all."""

    def __init__(self, evaluator: Evaluator, relation: SystemRelation, only: frozenset[int] | None) -> None:
        self.relation = relation
        self.is_whole = only is None
        self._evaluator = evaluator
        self._only = only
        self._asked: set[frozenset[int] | None] = set()

    def __call__(self, env: Env) -> list[Row]:
        return self._read(self._only)

    def of(self, oids: frozenset[int]) -> list[Row]:
        """The rows with these OIDs, and perhaps others: all are read for many questions."""
        many = len(oids) > FEW or None in self._asked or len(self._asked) > READS
        return self._read(None if many else oids)

    def _read(self, oids: frozenset[int] | None) -> list[Row]:
        self._asked.add(oids)
        return _catalog(self._evaluator, self.relation, oids)


def _view(evaluator: Evaluator, text: SelectStmt) -> list[Row]:
    """The rows of a system view, read with the rights of the system."""
    session = evaluator.context.session
    query = pulled_up(session, analyze_query(session, text, apart=True))
    return list(evaluator.apart(query).play()(Env([], None)))


def _read_once(read: Callable[[], list[Row]]) -> Run:
    """The rows, read once: the catalog does not change during a statement."""
    known: list[list[Row]] = []

    def rows(env: Env) -> list[Row]:
        if not known:
            known.append(read())
        return known[0]

    return rows


def _state(session: Session, sequence: int) -> list[Row]:
    return [(row.last_value, 0, row.is_called) for row in store.rows(session, pg_sequence, seqrelid=sequence)]


def _functions(entry: Rte, evaluator: Evaluator) -> Run:
    """Functions in FROM run side by side (ROWS FROM); one that returns a row gives its columns."""
    sets: list[FunctionRows] = []
    counts = entry.function_columns
    first = 0
    for number, (function, count) in enumerate(zip(entry.functions, counts, strict=True)):
        has_list = bool(entry.function_coldefs) and entry.function_coldefs[number]
        defined = entry.columns[first : first + count] if has_list else None
        rows_of = evaluator.compile_rows(function, defined)
        sets.append(rows_of if defined is None else _checked(rows_of, defined))
        first += count

    def rows(env: Env) -> Iterator[Row]:
        for number, parts in enumerate(zip_longest(*[one(env) for one in sets]), 1):
            row: list[Any] = []
            for part, count in zip(parts, counts, strict=True):
                row += [None] * count if part is None else part
            if entry.ordinality:
                row.append(number)
            yield tuple(row)

    return rows


def _checked(rows: FunctionRows, columns: Sequence[Column]) -> FunctionRows:
    """The rows of a function, checked against the column definition list (tupledesc_match)."""

    def checked(env: Env) -> Iterator[Row | None]:
        for row in rows(env):
            if isinstance(row, Record):
                _match(row, columns)
            yield row

    return checked


def _match(row: Record, columns: Sequence[Column]) -> None:
    message = "function return row and query-specified return row do not match"
    if len(row) != len(columns):
        attributes = "attribute" if len(row) == 1 else "attributes"
        detail = f"Returned row contains {len(row)} {attributes}, but query expects {len(columns)}."
        raise PgError("42804", message, detail=detail)
    for number, (given, column) in enumerate(zip(row.types, columns, strict=True), 1):
        if not is_binary_coercible(given, column.type):
            raise PgError(
                "42804",
                message,
                detail=f"Returned type {format_type(given)} at ordinal position {number}, "
                f"but query expects {format_type(column.type)}.",
            )
