"""CREATE INDEX."""

from __future__ import annotations

from pgrepl.catalog.acl import check_relation_owner
from pgrepl.catalog.inheritance import inheritors
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.transaction import require_no_block
from pgrepl.errors import PgError
from pgrepl.expr.analyze import analyze_expr, analyze_where
from pgrepl.expr.collate import assign_collations
from pgrepl.expr.kinds import ExprKind
from pgrepl.expr.scope import scope_of_relation
from pgrepl.expr.targets import index_column_name
from pgrepl.expr.tree import Const
from pgrepl.query.result import Result
from pgrepl.rows.in_use import check_not_in_use
from pgrepl.sql.nodes import IndexElem, IndexStmt
from pgrepl.statements.index.define import define_index
from pgrepl.statements.index.spec import IndexKey, IndexSpec
from pgrepl.statements.table.permissions import refuse_catalog
from pgrepl.statements.table.position import named_relation


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
