"""SELECT and VALUES as statements: privileges (ExecCheckPermissions), analysis, execution, rows as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pgrepl.catalog.facts import acl
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.roles import is_superuser
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_writable
from pgrepl.expr import tree
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.rewrite import folding
from pgrepl.expr.rewrite.views import expand_views, view_query, view_role
from pgrepl.expr.tree import Const, Query, RteKind, has_modifying_cte
from pgrepl.expr.walk import has_effects, query_exprs, subqueries, walk, walk_deep
from pgrepl.ground.errors import PgError
from pgrepl.query.reads import used_columns
from pgrepl.query.result import Result, ResultColumn, StreamedRows, ValueText, result_columns
from pgrepl.query.rowset import LocalRows, PassingRows, SparkRows, passing_rows
from pgrepl.query.shape import is_user_table, levels, locks_rows
from pgrepl.sql.nodes import SelectStmt
from pgrepl.types.builtin import Proc, proc_by_oid
from pgrepl.types.style import TextStyle
from pgrepl.types.text import writer

# the functions whose EXECUTE privilege initdb revokes from PUBLIC (system_functions.sql, system_views.sql), by prefix
_PRIVATE_FUNCTIONS = (
    "lo_export",
    "lo_import",
    "pg_backup_",
    "pg_config",
    "pg_create_restore_point",
    "pg_current_logfile",
    "pg_get_backend_memory_contexts",
    "pg_get_shmem_allocations",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_log_backend_memory_contexts",
    "pg_log_standby_snapshot",
    "pg_ls_",
    "pg_promote",
    "pg_read_binary_file",
    "pg_read_file",
    "pg_reload_conf",
    "pg_replication_origin_",
    "pg_rotate_logfile",
    "pg_show_all_file_settings",
    "pg_show_replication_origin_status",
    "pg_stat_file",
    "pg_stat_have_stats",
    "pg_stat_reset",
    "pg_switch_wal",
    "pg_wal_replay_",
)


def is_public(proc: Proc) -> bool:
    """Whether PUBLIC may execute a built-in function."""
    return not proc.name.startswith(_PRIVATE_FUNCTIONS)


def check_functions(session: Session, query: Query) -> None:
    """Check that the role may execute all functions that the query calls."""
    if is_superuser(session):
        return
    for node, _ in walk_deep(query):
        if not isinstance(node, tree.FuncExpr):
            continue
        called = proc_by_oid(node.func)
        if called is not None and not is_public(called):
            raise PgError("42501", f"permission denied for function {called.name}")


def check(session: Session, query: Query, role: int | None = None, *, reads: bool = True) -> None:
    """Check the query and all its subqueries. A view's own tables are read with its owner's privileges. `reads`: the
    query is carried out, so that its materialized views must have been populated."""
    who = session.role if role is None else role
    _check_level(session, query, who, reads)
    for nested in subqueries(query):
        check(session, nested, who, reads=reads)
    for expr in query_exprs(query):
        for node in walk(expr):
            if isinstance(node, tree.SubLink) and node.query is not None:
                check(session, node.query, who, reads=reads)


def _check_level(session: Session, query: Query, role: int, reads: bool) -> None:
    """Check first the relations that the query itself names, then those of its views."""
    named = [relation(session, rte.relid) for rte in query.rtable if rte.kind is RteKind.RELATION]
    views = [(v, view_query(session, v.oid)) for v in named if v.kind == "v" and not v.is_system]
    check_named(session, query, role)
    if reads:
        for rel in named:
            _check_populated(rel)
    for view, behind in views:
        check(session, behind, view_role(session, view), reads=reads)


def _check_populated(rel: Relation) -> None:
    """Raises for a materialized view that has not been populated (ExecOpenScanRelation)."""
    if not rel.populated:
        raise PgError(
            "55000",
            f'materialized view "{rel.name}" has not been populated',
            hint="Use the REFRESH MATERIALIZED VIEW command.",
        )


def check_named(session: Session, query: Query, role: int) -> None:
    """Check the relations in the query's own FROM."""
    used: dict[int, frozenset[int]] | None = None
    for varno, entry in enumerate(query.rtable, 1):
        if entry.kind is not RteKind.RELATION:
            continue
        rel = relation(session, entry.relid, entry.release)
        if not acl.has_table_privilege(session, rel, "SELECT", role):
            used = used_columns(query) if used is None else used
            if not _may_read(session, rel, used.get(varno, frozenset()), role):
                raise acl.permission_denied(rel)
        if any(mark.varno == varno for mark in query.row_marks):
            _check_may_lock(session, rel, role)
            if rel.kind == "m":  # as CheckValidRowMarkRel does
                raise PgError("42809", f'cannot lock rows in materialized view "{rel.name}"')


def _check_may_lock(session: Session, rel: Relation, role: int) -> None:
    """Locking clauses need the UPDATE privilege, at least on some column (ACL_SELECT_FOR_UPDATE)."""
    if acl.has_table_privilege(session, rel, "UPDATE", role):
        return
    if not any(acl.has_column_privilege(session, rel, a.num, "UPDATE", role) for a in rel.columns):
        raise acl.permission_denied(rel)


def _may_read(session: Session, rel: Relation, used: frozenset[int], role: int) -> bool:
    """Whether privileges on columns suffice: on each that is read; on any at all when none is (SELECT count(*))."""
    columns = [a.num for a in rel.columns]
    if not used:
        return any(acl.has_column_privilege(session, rel, number, "SELECT", role) for number in columns)
    wanted = {*used, *columns} - {0} if 0 in used else used
    return all(acl.has_column_privilege(session, rel, number, "SELECT", role) for number in wanted)


# --- run --------------------------------------------------------------------------------------------------------------


Found = tuple[Query, list[tuple[Any, ...]]]
TextRow = tuple["str | None", ...]


class KeptPlan:
    """What a query that runs again has come to (statements/prepared.py): it has been checked, and without parameters
    its views have been expanded. With parameters that waits for their values, which may be all that a function
    needs."""

    def __init__(self, *, has_parameters: bool, has_constants: bool) -> None:
        """`has_constants`: parts of it are constant once its parameters have values."""
        self._has_parameters = has_parameters
        self._has_constants = has_constants
        self._state: tuple[object, ...] = ()
        self._expanded: Query
        self._columns: tuple[ResultColumn, ...] = ()
        self._waits = False
        self._row: tuple[Any, ...] | None = None  # the only one, of constants

    def keep(self, session: Session, expanded: Query, columns: tuple[ResultColumn, ...], *, waits: bool) -> None:
        self._expanded, self._columns, self._waits = expanded, columns, waits
        self._row = None if self._has_parameters else _constant_row(expanded)
        self._state = _state(session)

    def select(self, stmt: SelectStmt, session: Session) -> Result | None:
        """The result; None: it has to be checked, as the role or a setting is another one."""
        if self._state != _state(session):
            return None
        expanded, waits = self._expanded, self._waits
        if self._row is not None and session.instruments is None:
            return _result(session, expanded, LocalRows(expanded.columns, [self._row]), self._columns, waits=False)
        if self._has_parameters:
            query = analyze_query(session, stmt)
            if self._has_constants:
                folding.check(session, query)
            expanded = expand_views(session, query)
            waits = not has_effects(expanded)
        rows = passing_rows(session, expanded, expanded=True)
        return _result(session, expanded, rows, self._columns, waits=waits)


def _constant_row(query: Query) -> tuple[Any, ...] | None:
    """The row of a query that is nothing but constants."""
    exprs = [target.expr for target in query.targets]
    if query != Query(query.targets) or not all(isinstance(expr, Const) for expr in exprs):
        return None
    return tuple([expr.value for expr in exprs if isinstance(expr, Const)])


def _state(session: Session) -> tuple[object, ...]:
    """What checks depend on beside the definitions."""
    return session.role, session.is_nested, session.settings.state


def select(stmt: SelectStmt, session: Session, modifying: Callable[[SelectStmt, Session], Found]) -> Result:
    """`modifying` executes a query with INSERT, UPDATE or DELETE in its WITH list."""
    if stmt.plan is not None:
        result: Result | None = stmt.plan.select(stmt, session)
        if result is not None:
            return result
    query = analyze_query(session, stmt)
    folding.check(session, query)
    marked = [query.rtable[mark.varno - 1].relid for mark in query.row_marks]
    if any(relid and relation(session, relid).persistence != "t" for relid in marked):
        require_writable(session, f"SELECT FOR {query.row_marks[0].strength}")
    locking = locks_rows(query)
    waits = not locking
    if locking:
        query = with_table_locks(session, stmt, query)
    if has_modifying_cte(query.ctes):
        query, changed = modifying(stmt, session)
        rows: LocalRows | PassingRows | SparkRows = LocalRows(query.columns, changed)
    else:
        check(session, query)
        check_functions(session, query)
        expanded = expand_views(session, query)
        rows = passing_rows(session, expanded, expanded=True)
        # functions with effects run within the statement: the rows cannot wait for the client
        waits = waits and not has_effects(expanded)
    columns = result_columns(session, query.targets)
    if stmt.plan is not None:
        stmt.plan.keep(session, expanded, columns, waits=waits)
    return _result(session, query, rows, columns, waits=waits)


def _result(
    session: Session,
    query: Query,
    rows: LocalRows | PassingRows | SparkRows,
    columns: tuple[ResultColumn, ...],
    *,
    waits: bool,
) -> Result:
    """`waits`: the rows may be computed when the client reads them."""
    if session.keeps_values:
        if isinstance(rows, SparkRows):
            return Result("SELECT", columns, values=rows)
        kept = LocalRows(query.columns, list(rows))
        return Result(f"SELECT {len(kept.rows)}", columns, values=kept)
    texts = map(texts_for(session, [c.type for c in query.columns]), rows.batches(whole=not session.streams))
    if session.streams and waits:
        return Result("SELECT", columns, StreamedRows(session, texts))
    rows_shown = [row for batch in texts for row in batch]
    return Result(f"SELECT {len(rows_shown)}", columns, rows_shown)


def with_table_locks(session: Session, stmt: SelectStmt, query: Query) -> Query:
    """Lock the tables of locking clauses first, so that the query sees all commits until then."""
    from pgrepl.rows.locking import lock_tables

    session.catalog.check_writable()
    transaction = session.transaction
    if not transaction.can_keep_pending:
        return query
    transaction.prefers_pending = True
    while True:
        tables = [
            level.rtable[mark.varno - 1].relid
            for level in levels(query)
            for mark in level.row_marks
            if is_user_table(level.rtable[mark.varno - 1])
        ]
        if not lock_tables(session, dict.fromkeys(tables), RelationMode.ROW_SHARE):
            return query
        query = analyze_query(session, stmt)


def play(session: Session, query: Query) -> list[tuple[Any, ...]]:
    """The rows of an analysed query."""
    return [row for batch in passing_rows(session, query).batches(whole=True) for row in batch]


def texts_for(session: Session, types: Sequence[int]) -> Callable[[Iterable[tuple[Any, ...]]], list[TextRow]]:
    """What makes the texts of rows, as the client is to get them. A value that is sent in binary format goes along."""
    formats, style = session.result_formats, session.text_style
    if 1 not in formats:
        return lambda rows: as_text(rows, types, style)
    if 0 not in formats:
        return as_values
    writers = [writer(t) for t in types]

    def both(rows: Iterable[tuple[Any, ...]]) -> list[TextRow]:
        return [
            tuple([None if v is None else ValueText(write(v, style), v) for write, v in zip(writers, row, strict=True)])
            for row in rows
        ]

    return both


def as_text(rows: Iterable[tuple[Any, ...]], types: Sequence[int], style: TextStyle) -> list[TextRow]:
    writers = [writer(t) for t in types]
    return [
        tuple([None if v is None else write(v, style) for write, v in zip(writers, row, strict=True)]) for row in rows
    ]


def as_values(rows: Iterable[tuple[Any, ...]]) -> list[TextRow]:
    """Rows that are sent in binary format only: nobody reads their text, unless it is the value."""
    return [tuple([None if v is None else ValueText(v if isinstance(v, str) else "", v) for v in row]) for row in rows]
