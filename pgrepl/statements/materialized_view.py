"""CREATE and REFRESH MATERIALIZED VIEW: a view's query whose rows are kept in the lake, as a table's are."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog import store
from pgrepl.catalog.acl import check_table_privilege
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.lock_modes import RelationMode
from pgrepl.catalog.relation import Relation, find_relation, oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_index
from pgrepl.catalog.transition_tables import without_transition_tables
from pgrepl.errors import PgError
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.rewrite import view_query
from pgrepl.expr.tree import Query, has_modifying_cte
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.requirements import Indexed, Unique
from pgrepl.sql.nodes import CreateTableAsStmt, RefreshMatViewStmt, SelectStmt
from pgrepl.sql.quote import quote_qualified
from pgrepl.statements.maintenance import maintaining
from pgrepl.statements.table.as_query import columns_of, query_rows
from pgrepl.statements.table.create import define_columns
from pgrepl.statements.table.creation import creation_schema
from pgrepl.statements.temporary import temporary_name
from pgrepl.statements.view import store_rule, uses_temporary, with_names
from pgrepl.writing.rewrite.phase3 import require

_BTREE = 403  # pg_am


def create_materialized_view(stmt: CreateTableAsStmt, session: Session, *, fill: bool = True) -> Result:
    """As ExecCreateTableAs does. `fill`: a rehearsal leaves the rows out."""
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
    """As transformCreateTableAsStmt does."""
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
    """As ExecRefreshMatView does. `fill`: a rehearsal leaves the rows out."""
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
        from pgrepl.writing.truncate import empty

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
    """As SetMatViewPopulatedState does."""
    if relation(session, oid).populated != populated:
        store.update(session, pg_class, {"oid": oid}, relispopulated=populated)


def _fill(session: Session, rel: Relation, *, concurrently: bool) -> int:
    """Replace the rows by those that the query gives now, with the rights of the view's owner; returns their number."""
    from pgrepl.query.rowset import LocalRows
    from pgrepl.writing.materialized_view import merge_rows, replace_rows

    with maintaining(session, rel.owner):
        rows = query_rows(session, view_query(session, rel.oid))
    if concurrently and isinstance(rows, LocalRows):
        merge_rows(session, rel, rows)
        count = len(rows.rows)
    else:  # no reader waits here, and many rows are not compared
        count = replace_rows(session, rel, rows)
    for index in indexes(session, rel.oid):
        try:
            made = Unique if index.indisunique else Indexed
            require(session, made(rel.oid, index.indexrelid))
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
