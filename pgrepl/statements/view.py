"""CREATE VIEW, materialized views, CREATE TABLE AS and SELECT INTO: relations with the columns, and the rows, of a
query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.acl import check_relation_owner, check_table_privilege
from pgrepl.catalog.facts.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.facts.relation import Relation, find_relation, oid_in_schema, relation, without_transition_tables
from pgrepl.catalog.facts.relation_parts import indexes
from pgrepl.catalog.locks.lock_table import RelationMode
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import PG_CLASS, PG_REWRITE, ObjectAddress
from pgrepl.catalog.store.tables import pg_class, pg_index, pg_rewrite
from pgrepl.expr import stored
from pgrepl.expr.analyse import lookup
from pgrepl.expr.analyse.analyze import analyze_query
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.rewrite.views import require_updatable, view_query
from pgrepl.expr.tree import Query, SubLink, has_modifying_cte
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.ground.errors import PgError
from pgrepl.query import run
from pgrepl.query.result import Result
from pgrepl.query.rowset import LocalRows, rows_of
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.requirements import Indexed, Unique
from pgrepl.sql.keywords import quote_qualified
from pgrepl.sql.nodes import (
    CreateTableAsStmt,
    DefElem,
    ExecuteStmt,
    ObjectType,
    RefreshMatViewStmt,
    SelectStmt,
    Statement,
    ViewStmt,
)
from pgrepl.statements.deletion import temporary_name
from pgrepl.statements.dependencies import record_query_dependencies
from pgrepl.statements.index.define import maintaining
from pgrepl.statements.prepared import binding
from pgrepl.statements.table import storage
from pgrepl.statements.table.columns import NewColumn, column_of_type, finish, refuse_duplicates
from pgrepl.statements.table.create import define_columns
from pgrepl.statements.table.heap import create_relation
from pgrepl.statements.table.names import creation_schema
from pgrepl.writing.phase3 import require
from pgrepl.writing.tables import append, empty, merge_rows, replace_rows

if TYPE_CHECKING:
    from pgrepl.query.rowset import SparkRows


def columns_of(session: Session, query: Query, names: tuple[str, ...]) -> list[NewColumn]:
    """The columns that the query gives, under the names of the column list."""
    if len(names) > len(query.columns):
        raise PgError("42601", "too many column names were specified")
    columns = []
    for number, column in enumerate(query.columns):
        name = names[number] if number < len(names) else column.name
        if not column.collation and lookup.is_collatable(column.type):
            type_ = lookup.type_text(session, column.type)
            raise PgError(
                "42P22",
                f'no collation was derived for column "{name}" with collatable type {type_}',
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
        columns.append(column_of_type(name, column.type, column.typmod, column.collation))
    return columns


def query_rows(session: Session, query: Query) -> LocalRows | SparkRows:
    """The rows of the query, which the current role may read."""
    run.check(session, query)
    run.check_functions(session, query)
    if has_modifying_cte(query.ctes):
        from pgrepl.writing.run import modifying_rows

        return LocalRows(query.columns, modifying_rows(session, query))
    return rows_of(session, query)


# --- view -------------------------------------------------------------------------------------------------------------


def create_view(stmt: ViewStmt, session: Session) -> Result:
    """CREATE VIEW (DefineView)."""
    if stmt.query.into is not None:
        raise PgError("0A000", "views must not contain SELECT INTO")
    with without_transition_tables(session):
        query = analyze_query(session, stmt.query)
    if has_modifying_cte(query.ctes):
        raise PgError("0A000", "views must not contain data-modifying statements in WITH")
    options = stmt.options
    if stmt.check_option is not None:
        options = (*options, DefElem("check_option", stmt.check_option.lower()))
    if any(option.name == "check_option" for option in options):
        require_updatable(query)
    query = with_names(query, stmt.columns)
    if stmt.relation.persistence == "u":
        raise PgError("42601", "views cannot be unlogged because they do not have storage")
    columns = _columns(query)
    view = replace(stmt.relation, location=-1)
    if view.persistence == "p" and uses_temporary(session, query):
        session.notice("NOTICE", f'view "{view.name}" will be a temporary view')
        view = replace(view, persistence="t")
    namespace, persistence = creation_schema(session, view)
    existing = oid_in_schema(session, namespace, view.name)
    if existing is not None and stmt.replace:
        _replace(session, relation(session, existing), query, columns, options)
        return Result("CREATE VIEW")
    texts = storage.transform(None, options)
    storage.validate(texts, storage.VIEW)
    refuse_duplicates(columns)
    finish(session, columns)
    oid = create_relation(session, view.name, namespace, "v", columns, persistence=persistence, options=texts)
    store_rule(session, oid, query)
    return Result("CREATE VIEW")


def with_names(query: Query, names: tuple[str, ...]) -> Query:
    """The query with the column names of the view's column list."""
    targets = list(query.targets)
    visible = [number for number, target in enumerate(targets) if not target.junk]
    if len(names) > len(visible):
        raise PgError("42601", "CREATE VIEW specifies more column names than columns")
    for number, name in zip(visible, names, strict=False):
        targets[number] = replace(targets[number], name=name)
    return replace(query, targets=tuple(targets))


def uses_temporary(session: Session, query: Query) -> bool:
    """Whether the query, or one inside it, reads a temporary relation (isQueryUsingTempRelation)."""
    for rte in query.rtable:
        if rte.relid and relation(session, rte.relid).persistence == "t":
            return True
    inner = [node.query for expr in query_exprs(query) for node in walk(expr) if isinstance(node, SubLink)]
    return any(uses_temporary(session, below) for below in (*subqueries(query), *inner) if below is not None)


def _columns(query: Query) -> list[NewColumn]:
    columns = []
    for column in query.columns:
        if lookup.is_collatable(column.type) and not column.collation:
            raise PgError(
                "42P22",
                f'could not determine which collation to use for view column "{column.name}"',
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
        columns.append(column_of_type(column.name, column.type, column.typmod, column.collation))
    return columns


def store_rule(session: Session, view: int, query: Query) -> None:
    """The rule "_RETURN" of a view (InsertRule)."""
    oid = store.new_oid(session)
    store.insert(session, pg_rewrite, oid=oid, rulename="_RETURN", ev_class=view, ev_action=stored.to_json(query))
    self = ObjectAddress(PG_REWRITE, oid)
    record_dependency(session, self, ObjectAddress(PG_CLASS, view), Dependency.INTERNAL)
    record_query_dependencies(session, self, query)


# --- OR REPLACE ------------------------------------------------------------------------------------------------------


def _replace(
    session: Session, view: Relation, query: Query, columns: list[NewColumn], options: tuple[DefElem, ...]
) -> None:
    """As DefineVirtualRelation does for an existing view: its columns stay, further ones may be added."""
    from pgrepl.statements.table.alter.add import add_view_column
    from pgrepl.statements.table.alter.options import set_storage_parameters
    from pgrepl.statements.table.alter.run import finish as finish_work
    from pgrepl.statements.table.alter.work import WorkQueue

    if view.kind != "v":
        raise PgError("42809", f'"{view.name}" is not a view')
    finish(session, columns)
    _check_columns(session, view, columns)
    for column in columns[len(view.attributes) :]:
        work = WorkQueue(session)
        add_view_column(work, relation(session, view.oid), column)
        finish_work(work)
    _replace_rule(session, view, query)
    set_storage_parameters(session, relation(session, view.oid), options, replace=True)


def _replace_rule(session: Session, view: Relation, query: Query) -> None:
    check_relation_owner(session, view)
    row = store.one(session, pg_rewrite, ev_class=view.oid)
    assert row is not None
    store.update(session, pg_rewrite, {"oid": row.oid}, ev_action=stored.to_json(query))
    self = ObjectAddress(PG_REWRITE, row.oid)
    forget_dependencies(session, self)
    record_dependency(session, self, ObjectAddress(PG_CLASS, view.oid), Dependency.INTERNAL)
    record_query_dependencies(session, self, query)


def _check_columns(session: Session, view: Relation, columns: list[NewColumn]) -> None:
    """Raises for columns that CREATE OR REPLACE VIEW would take away or change (checkViewColumns)."""
    if len(columns) < len(view.attributes):
        raise PgError("42P16", "cannot drop columns from view")
    for old, new in zip(view.attributes, columns, strict=False):
        if old.name != new.name:
            raise PgError(
                "42P16",
                f'cannot change name of view column "{old.name}" to "{new.name}"',
                hint="Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
            )
        if (old.type, old.typmod) != (new.type, new.typmod):
            before = lookup.type_text(session, old.type, old.typmod)
            after = lookup.type_text(session, new.type, new.typmod)
            raise PgError("42P16", f'cannot change data type of view column "{old.name}" from {before} to {after}')
        if old.collation != new.collation:
            raise PgError(
                "42P16",
                f'cannot change collation of view column "{old.name}" from "{collation_name(old.collation)}" to '
                f'"{collation_name(new.collation)}"',
            )


# --- materialized view ------------------------------------------------------------------------------------------------


_BTREE = 403  # pg_am


def create_materialized_view(stmt: CreateTableAsStmt, session: Session, *, fill: bool = True) -> Result:
    """CREATE TABLE AS and CREATE MATERIALIZED VIEW (ExecCreateTableAs). `fill`: a rehearsal leaves the rows out."""
    assert isinstance(stmt.query, SelectStmt)
    query = _analyzed(session, stmt)
    namespace, persistence = creation_schema(session, replace(stmt.relation, location=-1))
    name = stmt.relation.name
    if oid_in_schema(session, namespace, name) is not None:
        if not stmt.if_not_exists:
            raise PgError("42P07", f'relation "{name}" already exists')
        session.notice("NOTICE", f'relation "{name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE MATERIALIZED VIEW")
    columns = columns_of(session, query, stmt.columns)
    oid = define_columns(session, stmt, namespace, persistence, columns)
    store_rule(session, oid, with_names(query, stmt.columns))
    if not stmt.with_data:
        _set_populated(session, oid, False)
        return Result("CREATE MATERIALIZED VIEW")
    if not fill:
        return Result("SELECT 0")
    return Result(f"SELECT {_fill(session, relation(session, oid), concurrently=False)}")


def _analyzed(session: Session, stmt: CreateTableAsStmt) -> Query:
    """The query of CREATE TABLE AS, analysed (transformCreateTableAsStmt)."""
    assert isinstance(stmt.query, SelectStmt)
    with without_transition_tables(session):
        query = analyze_query(session, stmt.query)
    if has_modifying_cte(query.ctes):
        raise PgError("0A000", "materialized views must not use data-modifying statements in WITH")
    if uses_temporary(session, query):
        raise PgError("0A000", "materialized views must not use temporary tables or views")
    if session.parameters:
        raise PgError("0A000", "materialized views may not be defined using bound parameters")
    if stmt.relation.persistence == "u":
        raise PgError("0A000", "materialized views cannot be unlogged")
    return query


def refresh_materialized_view(stmt: RefreshMatViewStmt, session: Session, *, fill: bool = True) -> Result:
    """REFRESH MATERIALIZED VIEW (ExecRefreshMatView). `fill`: a rehearsal leaves the rows out."""
    rel = find_relation(session, replace(stmt.relation, location=-1))
    if rel.kind not in "rmpt":
        raise PgError("42809", f'"{rel.name}" is not a table or materialized view')
    check_table_privilege(session, rel, "MAINTAIN")
    if rel.kind != "m":
        raise PgError("0A000", f'"{rel.name}" is not a materialized view')
    if stmt.concurrently and not rel.populated:
        raise PgError("55000", "CONCURRENTLY cannot be used when the materialized view is not populated")
    if stmt.concurrently and not stmt.with_data:
        raise PgError("42601", "CONCURRENTLY and WITH NO DATA options cannot be used together")
    mode = RelationMode.EXCLUSIVE if stmt.concurrently else RelationMode.ACCESS_EXCLUSIVE
    check_not_in_use(session, rel, "REFRESH MATERIALIZED VIEW", mode)
    if stmt.concurrently and not any(_is_usable(session, index) for index in indexes(session, rel.oid)):
        raise PgError(
            "55000",
            f'cannot refresh materialized view "{quote_qualified(rel.schema, rel.name)}" concurrently',
            hint="Create a unique index with no WHERE clause on one or more columns of the materialized view.",
        )
    _set_populated(session, rel.oid, stmt.with_data)
    if stmt.with_data and fill:
        _fill(session, relation(session, rel.oid), concurrently=stmt.concurrently)
    elif fill:
        empty(session, [rel])
    return Result("REFRESH MATERIALIZED VIEW")


def _is_usable(session: Session, index: pg_index) -> bool:
    """Does the index identify rows for CONCURRENTLY? (is_usable_unique_index)"""
    method = relation(session, index.indexrelid).access_method
    return bool(
        index.indisunique
        and index.indimmediate
        and method == _BTREE
        and index.indisvalid
        and index.indpred is None
        and all(number > 0 for number in index.indkey)
    )


def _set_populated(session: Session, oid: int, populated: bool) -> None:
    """Notes whether a materialized view has its rows (SetMatViewPopulatedState)."""
    if relation(session, oid).populated != populated:
        store.update(session, pg_class, {"oid": oid}, relispopulated=populated)


def _fill(session: Session, rel: Relation, *, concurrently: bool) -> int:
    """Replace the rows by those that the query gives now, with the rights of the view's owner; returns their number."""
    with maintaining(session, rel.owner):
        rows = query_rows(session, view_query(session, rel.oid))
    if concurrently and isinstance(rows, LocalRows):
        merge_rows(session, rel, rows)
        count = len(rows.rows)
    else:  # no reader waits here, and many rows are not compared
        count = replace_rows(session, rel, rows)
    for index in indexes(session, rel.oid):
        try:
            condition = Unique if index.indisunique else Indexed
            require(session, condition(rel.oid, index.indexrelid))
        except PgError as problem:
            raise _as_of_insert(session, rel, problem) if concurrently else problem from None
    return count


def _as_of_insert(session: Session, view: Relation, problem: PgError) -> PgError:
    """The error for a duplicate key, which CONCURRENTLY finds when it inserts a row by a statement of its own."""
    report = problem.report
    if problem.sqlstate != "23505" or report.detail is None:
        return problem
    message = f'duplicate key value violates unique constraint "{report.constraint}"'
    detail = report.detail.replace(" is duplicated.", " already exists.")
    problem.report = replace(report, message=message, detail=detail)
    name, schema = quote_qualified(view.schema, view.name), temporary_name(session)
    differences = f"{schema}.pg_temp_{view.oid}_2"
    statement = f"INSERT INTO {name} SELECT (diff.newdata).* FROM {differences} diff WHERE tid IS NULL"
    return problem.with_context(f'SQL statement "{statement}"')


# --- create as --------------------------------------------------------------------------------------------------------


def create_table_as(stmt: CreateTableAsStmt, session: Session) -> Result:
    """CREATE TABLE AS and CREATE MATERIALIZED VIEW (ExecCreateTableAs)."""
    if stmt.kind is ObjectType.MATVIEW:
        return create_materialized_view(stmt, session)
    query = _create_as_analyzed(session, stmt.query)
    name = replace(stmt.relation, location=-1)
    namespace, persistence = creation_schema(session, name)
    if oid_in_schema(session, namespace, name.name) is not None:
        if not stmt.if_not_exists:
            raise PgError("42P07", f'relation "{name.name}" already exists')
        session.notice("NOTICE", f'relation "{name.name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE TABLE AS")
    rows = query_rows(session, query) if stmt.with_data else None
    table = define_columns(session, stmt, namespace, persistence, columns_of(session, query, stmt.columns))
    if rows is None:
        return Result("CREATE TABLE AS" if isinstance(stmt.query, SelectStmt) else "SELECT 0")
    return Result(f"SELECT {append(session, relation(session, table), rows)}")


def _create_as_analyzed(session: Session, stmt: Statement) -> Query:
    if isinstance(stmt, SelectStmt):
        return analyze_query(session, stmt)
    assert isinstance(stmt, ExecuteStmt)
    with binding(session, stmt) as prepared:
        if not isinstance(prepared, SelectStmt):
            raise PgError("42809", "prepared statement is not a SELECT")
        return analyze_query(session, prepared)
