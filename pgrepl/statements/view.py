"""CREATE [OR REPLACE] VIEW: the query is analyzed and stored as a rule; its columns become the view's."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.catalog import store
from pgrepl.catalog.classes import PG_CLASS, PG_REWRITE, ObjectAddress
from pgrepl.catalog.depend import Dependency, forget_dependencies, record_dependency
from pgrepl.catalog.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_rewrite
from pgrepl.catalog.transition_tables import without_transition_tables
from pgrepl.errors import PgError
from pgrepl.expr import stored, typefacts
from pgrepl.expr.analyze import analyze_query
from pgrepl.expr.tree import Query, SubLink, has_modifying_cte
from pgrepl.expr.typenames import collation_name
from pgrepl.expr.updatable import require_updatable
from pgrepl.expr.walk import query_exprs, subqueries, walk
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DefElem, ViewStmt
from pgrepl.statements.dependencies import record_query_dependencies
from pgrepl.statements.table import storage
from pgrepl.statements.table.columns import NewColumn, column_of_type, finish, refuse_duplicates
from pgrepl.statements.table.creation import creation_schema
from pgrepl.statements.table.heap import create_relation


def create_view(stmt: ViewStmt, session: Session) -> Result:
    """As DefineView does."""
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
        if typefacts.is_collatable(column.type) and not column.collation:
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
    from pgrepl.statements.table.alter.run import finish as finish_work
    from pgrepl.statements.table.alter.table_options import set_storage_parameters
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
    from pgrepl.catalog.acl import check_relation_owner

    check_relation_owner(session, view)
    row = store.one(session, pg_rewrite, ev_class=view.oid)
    assert row is not None
    store.update(session, pg_rewrite, {"oid": row.oid}, ev_action=stored.to_json(query))
    self = ObjectAddress(PG_REWRITE, row.oid)
    forget_dependencies(session, self)
    record_dependency(session, self, ObjectAddress(PG_CLASS, view.oid), Dependency.INTERNAL)
    record_query_dependencies(session, self, query)


def _check_columns(session: Session, view: Relation, columns: list[NewColumn]) -> None:
    """As checkViewColumns does."""
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
            before = typefacts.type_text(session, old.type, old.typmod)
            after = typefacts.type_text(session, new.type, new.typmod)
            raise PgError("42P16", f'cannot change data type of view column "{old.name}" from {before} to {after}')
        if old.collation != new.collation:
            raise PgError(
                "42P16",
                f'cannot change collation of view column "{old.name}" from "{collation_name(old.collation)}" to '
                f'"{collation_name(new.collation)}"',
            )
