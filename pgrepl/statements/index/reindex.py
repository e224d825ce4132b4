"""CREATE INDEX, and REINDEX, which checks a unique index against all rows, and the expressions of another for each.
There is nothing to build.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from pgrepl.catalog.facts.acl import check_relation_owner, has_table_privilege, is_owner, permission_denied
from pgrepl.catalog.facts.namespace import schema_or_none
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import index_row, indexes, inheritors
from pgrepl.catalog.facts.roles import has_privs_of_role
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_no_block
from pgrepl.catalog.store import store
from pgrepl.catalog.store.system import CATALOG_NAMESPACE, ROLE_MAINTAIN
from pgrepl.catalog.store.tables import pg_class, pg_database
from pgrepl.expr.analyse.analyze import analyze_expr, analyze_where
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.analyse.targets import index_column_name
from pgrepl.expr.tree import Const
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.rows.requirements import Indexed, Unique
from pgrepl.sql.location import get_boolean, get_string
from pgrepl.sql.nodes import IndexElem, IndexStmt, ReindexStmt
from pgrepl.statements.index.attributes import IndexKey, IndexSpec
from pgrepl.statements.index.define import define_index, maintaining
from pgrepl.statements.table.names import check_tablespace
from pgrepl.statements.table.relations import named_relation, refuse_catalog
from pgrepl.writing.phase3 import require


def create_index(stmt: IndexStmt, session: Session) -> Result:
    if stmt.concurrently:
        require_no_block(session, "CREATE INDEX CONCURRENTLY")
    rel = named_relation(session, stmt.relation)
    check_relation_owner(session, rel)
    refuse_catalog(rel, stmt.relation.name)
    if rel.kind == "p" and stmt.relation.inh:
        _refuse_partitions(session, rel)
    check_not_in_use(session, rel, "CREATE INDEX")
    spec = index_spec(session, rel, stmt)
    define_index(session, rel.oid, spec)
    return Result("CREATE INDEX")


def _refuse_partitions(session: Session, rel: Relation) -> None:
    """Every partition must be of a kind that can have an index, as ProcessUtilitySlow checks."""
    for oid in inheritors(session, rel.oid):
        part = relation(session, oid)
        if part.kind not in ("r", "p", "m", "f"):
            raise PgError("XX000", f'unexpected relkind "{part.kind}" on partition "{part.name}"')


def index_spec(session: Session, rel: Relation, stmt: IndexStmt) -> IndexSpec:
    """As transformIndexStmt does: expressions are analyzed before any other check."""
    scope = scope_of_relation(session, rel)
    where = None
    if stmt.where is not None:
        where = assign_collations(analyze_where(scope, stmt.where, ExprKind.INDEX_PREDICATE, "WHERE"))
        if isinstance(where, Const) and where.value is True:
            where = None  # WHERE true is no predicate
    return IndexSpec(
        name=stmt.name,
        keys=tuple(_key(session, rel, elem) for elem in stmt.elements),
        including=tuple(_key(session, rel, elem) for elem in stmt.including),
        method=stmt.method,
        unique=stmt.unique,
        nulls_not_distinct=stmt.nulls_not_distinct,
        typed_where=where,
        options=stmt.options,
        tablespace=stmt.tablespace,
        recurse=stmt.relation.inh,
        if_not_exists=stmt.if_not_exists,
        concurrently=stmt.concurrently,
    )


def _key(session: Session, rel: Relation, elem: IndexElem) -> IndexKey:
    typed = name = None
    if elem.expr is not None:
        name = index_column_name(elem.expr)
        typed = analyze_expr(elem.expr, scope_of_relation(session, rel), ExprKind.INDEX_EXPRESSION)
    return IndexKey(
        name=elem.name,
        typed=typed,
        column_name=name,
        collation=elem.collation,
        opclass=elem.opclass,
        opclass_options=elem.opclass_options,
        dir=elem.dir,
        nulls=elem.nulls,
    )


# --- reindex ----------------------------------------------------------------------------------------------------------


@frozen
class _Options:
    verbose: bool = False
    concurrently: bool = False


def reindex(stmt: ReindexStmt, session: Session) -> Result:
    """REINDEX of an index, a table, a schema or a database (ExecReindex)."""
    options = _read(stmt)
    if options.concurrently:
        require_no_block(session, "REINDEX CONCURRENTLY")
    if stmt.kind == "INDEX":
        _index(session, stmt, options)
    elif stmt.kind == "TABLE":
        _table(session, stmt, options)
    else:
        _several(session, stmt, options)
    return Result("REINDEX")


def _read(stmt: ReindexStmt) -> _Options:
    verbose = concurrently = False
    for option in stmt.options:
        if option.name == "verbose":
            verbose = get_boolean(option)
        elif option.name == "concurrently":
            concurrently = get_boolean(option)
        elif option.name == "tablespace":
            check_tablespace(get_string(option), partitioned=False)
        else:
            raise PgError("42601", f'unrecognized REINDEX option "{option.name}"', location=option.location)
    return _Options(verbose, concurrently)


def _index(session: Session, stmt: ReindexStmt, options: _Options) -> None:
    """REINDEX INDEX (ReindexIndex)."""
    assert stmt.relation is not None
    rel = named_relation(session, stmt.relation)
    if rel.kind not in "iI":
        raise PgError("42809", f'"{rel.name}" is not an index')
    row = index_row(session, rel.oid)
    table = relation(session, row.indrelid) if row is not None else rel
    if not has_table_privilege(session, table, "MAINTAIN"):
        raise PgError("42501", f"permission denied for index {rel.name}")
    if rel.kind == "I":
        _in_no_block(session, stmt.kind, "partitioned index", rel)
    check_not_in_use(session, table, "REINDEX INDEX")
    concurrent = _is_concurrent(table, options)
    for oid in inheritors(session, rel.oid) if rel.kind == "I" else [rel.oid]:
        index = relation(session, oid)
        spent = _check(session, index)
        if options.verbose and index.kind != "I":
            said = f"{spent}." if concurrent else spent
            session.notice("INFO", _reindexed("index", index, qualified=concurrent), detail=said)


def _table(session: Session, stmt: ReindexStmt, options: _Options) -> None:
    """REINDEX TABLE (ReindexTable)."""
    assert stmt.relation is not None
    table = named_relation(session, stmt.relation)
    if table.kind not in "rmpt":
        raise PgError("42809", f'"{table.name}" is not a table or materialized view')
    if not has_table_privilege(session, table, "MAINTAIN"):
        raise permission_denied(table)
    if table.is_catalog:
        if options.concurrently:
            raise PgError("0A000", "cannot reindex system catalogs concurrently")
        return
    if table.kind == "p":
        _in_no_block(session, stmt.kind, "partitioned table", table)
        for leaf in (relation(session, oid) for oid in inheritors(session, table.oid)):
            _indexes_of(session, leaf, options)
        return
    if not _indexes_of(session, table, options):
        from pgrepl.query.system.functions.relations import needs_toast

        if not needs_toast(table):  # a TOAST table has an index
            more = "that can be reindexed concurrently" if options.concurrently else "to reindex"
            session.notice("NOTICE", f'table "{table.name}" has no indexes {more}')


def _in_no_block(session: Session, kind: str, what: str, rel: Relation) -> None:
    try:
        require_no_block(session, f"REINDEX {kind}")
    except PgError as problem:
        problem.with_context(f'while reindexing {what} "{rel.schema}.{rel.name}"')
        raise


def _several(session: Session, stmt: ReindexStmt, options: _Options) -> None:
    """REINDEX SCHEMA, DATABASE and SYSTEM (ReindexMultipleTables)."""
    require_no_block(session, f"REINDEX {stmt.kind}")
    if stmt.kind == "SYSTEM" and options.concurrently:
        raise PgError("0A000", "cannot reindex system catalogs concurrently")
    namespace = None
    if stmt.kind == "SCHEMA":
        assert stmt.name is not None
        row = schema_or_none(session, stmt.name)
        if row is None:
            raise PgError("3F000", f'schema "{stmt.name}" does not exist')
        namespace = row.oid
        if not _may(session, row.nspowner):
            raise PgError("42501", f"must be owner of schema {stmt.name}")
    else:
        database = session.database
        if stmt.name is not None and stmt.name != database.name:
            raise PgError("0A000", "can only reindex the currently open database")
        database_row = store.one(session, pg_database, oid=database.oid)
        if database_row is None or not _may(session, database_row.datdba):
            raise PgError("42501", f"must be owner of database {database.name}")
    if namespace == CATALOG_NAMESPACE or stmt.kind == "SYSTEM":
        return
    for table in _tables(session, namespace):
        if _indexes_of(session, table, options) and options.verbose and not _is_concurrent(table, options):
            session.notice("INFO", _reindexed("table", table, qualified=True))


def _may(session: Session, owner: int) -> bool:
    return is_owner(session, owner) or has_privs_of_role(session, session.role, ROLE_MAINTAIN)


def _tables(session: Session, namespace: int | None) -> Iterator[Relation]:
    where = {} if namespace is None else {"relnamespace": namespace}
    listed = store.rows(session, pg_class, datid=session.database_oid, relkind=("r", "m"), **where)
    for row in sorted(listed, key=lambda row: row.oid):
        table = relation(session, row.oid)
        own = table.persistence != "t" or table.namespace == session.temporary_schema
        if own and has_table_privilege(session, table, "MAINTAIN"):
            yield table


def _indexes_of(session: Session, table: Relation, options: _Options) -> bool:
    """Check the indexes of a table; whether it has any."""
    rows = [] if table.kind == "p" else indexes(session, table.oid)
    if rows:
        check_not_in_use(session, table, "REINDEX TABLE")
    begin = perf_counter()
    concurrent = _is_concurrent(table, options)
    for row in rows:
        index = relation(session, row.indexrelid)
        spent = _check(session, index)
        if options.verbose:
            session.notice(
                "INFO", _reindexed("index", index, qualified=concurrent), detail=None if concurrent else spent
            )
    if rows and concurrent and options.verbose:
        session.notice("INFO", _reindexed("table", table, qualified=True), detail=f"{_spent(begin)}.")
    return bool(rows)


def _is_concurrent(table: Relation, options: _Options) -> bool:
    """Nobody waits for a temporary table: it is reindexed in the usual way."""
    return options.concurrently and table.persistence != "t"


def _check(session: Session, index: Relation) -> str:
    """Check an index; the time that it took."""
    row = index_row(session, index.oid)
    begin = perf_counter()
    if row is not None and index.kind != "I":
        with maintaining(session, index.owner):
            require(session, (Unique if row.indisunique else Indexed)(row.indrelid, index.oid))
    return _spent(begin)


def _spent(begin: float) -> str:
    elapsed = perf_counter() - begin
    return f"CPU: user: {elapsed:.2f} s, system: 0.00 s, elapsed: {elapsed:.2f} s"


def _reindexed(what: str, rel: Relation, *, qualified: bool) -> str:
    name = f"{rel.schema}.{rel.name}" if qualified else rel.name
    return f'{what} "{name}" was reindexed'
