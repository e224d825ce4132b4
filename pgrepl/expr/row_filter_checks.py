"""Row filters of publications: what WHERE may contain, and whether filter and column list allow UPDATE and DELETE.

A filter is evaluated by the publisher for every change, so it must not depend on anything that could change or that a
user could redefine; and of an UPDATE's or DELETE's old row only the replica identity is known. The first is judged
when the filter is written, the second when rows are updated or deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.publication import (
    is_publishable,
    member_table,
    publications,
    publishes_as_one_of_all,
    relation_publications,
    schema_publications,
    topmost_ancestor,
)
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import identity_key_columns, partition_ancestors, replica_identity_index
from pgrepl.catalog.store import tables
from pgrepl.catalog.store.store import one
from pgrepl.expr import tree
from pgrepl.expr.analyse.analyze import analyze_where
from pgrepl.expr.analyse.collate import assign_collations
from pgrepl.expr.analyse.kinds import ExprKind
from pgrepl.expr.analyse.scope import scope_of_relation
from pgrepl.expr.rewrite.virtual import of_rows
from pgrepl.expr.stored import from_json
from pgrepl.expr.tree import Expr, Var
from pgrepl.expr.walk import children, functions_used, location_of, var_attnums
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql import nodes
from pgrepl.types import builtin, oids

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

_OPERATORS = (tree.OpExpr, tree.DistinctExpr, tree.NullIfExpr, tree.ScalarArrayOpExpr)
_ALLOWED = (
    tree.Var,
    *_OPERATORS,
    tree.RowCompareExpr,
    tree.Const,
    tree.FuncExpr,
    tree.BoolExpr,
    tree.RelabelType,
    tree.CollateExpr,
    tree.CaseExpr,
    tree.CaseTestExpr,
    tree.ArrayExpr,
    tree.RowExpr,
    tree.CoalesceExpr,
    tree.MinMaxExpr,
    tree.NullTest,
    tree.BooleanTest,
)


def check_row_filter(session: Session, node: nodes.Expr, target: Relation) -> Expr:
    """The typed tree of a publication's WHERE for a table, checked (TransformPubWhereClauses)."""
    scope = scope_of_relation(session, target)
    expr = assign_collations(analyze_where(scope, node, ExprKind.WHERE, "PUBLICATION WHERE"))
    expr = of_rows(session, expr, target)
    _check(expr)
    return expr


def _check(expr: Expr) -> None:
    """Check as check_simple_rowfilter_expr_walker does: the error points at the outermost part that is not allowed."""
    problem = _problem(expr)
    if problem is not None:
        raise PgError("0A000", "invalid publication WHERE expression", detail=problem, location=location_of(expr))
    for child in children(expr):
        _check(child)


def _problem(expr: Expr) -> str | None:
    if isinstance(expr, Var) and expr.attnum < 0:
        return "System columns are not allowed."
    if not isinstance(expr, _ALLOWED):
        return (
            "Only columns, constants, built-in operators, built-in data types, built-in collations, "
            "and immutable built-in functions are allowed."
        )
    if isinstance(expr, _OPERATORS) and expr.func:
        return "User-defined operators are not allowed."
    if expr.type >= oids.FIRST_USER_OID:
        return "User-defined types are not allowed."
    for oid in functions_used(expr):
        proc = builtin.proc_by_oid(oid)
        if proc is None or proc.volatile != "i":
            return "User-defined or built-in mutable functions are not allowed."
    if max(expr.collation, getattr(expr, "input_collation", 0)) >= oids.FIRST_USER_OID:
        return "User-defined collations are not allowed."
    return None


# --- when rows change ---------------------------------------------------------------------------------------------


def filter_needs_more_than_identity(session: Session, publication: tables.pg_publication, target: Relation) -> bool:
    """Whether the publication's filter for a table uses a column outside its replica identity
    (pub_rf_contains_invalid_column)."""
    if target.replident == "f":
        return False
    published_as = _published_as(session, publication, target)
    member = member_table(session, publication.oid, published_as.oid)
    if member is None or member.prqual is None:
        return False
    identity = identity_key_columns(session, target)
    for attnum in var_attnums(from_json(member.prqual, session)):
        if attnum > 0 and publication.pubviaroot:
            attnum = _same_column(published_as, attnum, target)
        if attnum not in identity:
            return True
    return False


def columns_miss_identity(session: Session, publication: tables.pg_publication, target: Relation) -> bool:
    """Whether the publication's column list for a table leaves out a column of its replica identity
    (pub_collist_contains_invalid_column)."""
    published_as = _published_as(session, publication, target)
    listed = _column_list(session, publication, published_as)
    if listed is None:
        return False
    if target.replident == "f":
        return True
    for attnum in identity_key_columns(session, target):
        if publication.pubviaroot:
            attnum = _same_column(target, attnum, published_as)
        if attnum not in listed:
            return True
    return False


def identity_is_unpublished(session: Session, publication: tables.pg_publication, target: Relation) -> bool:
    """Whether the replica identity of a table has a generated column that the publication does not publish
    (pub_contains_invalid_column). 17 does not ask about stored ones."""
    unpublished = {"v"} if publication.pubgencols == "s" or session.settings.release < 18 else {"s", "v"}
    if target.replident == "f":
        return any(column.generated in unpublished for column in target.columns)
    if _column_list(session, publication, _published_as(session, publication, target)) is not None:
        return False
    identity = identity_key_columns(session, target)
    return any(column.generated in unpublished for column in target.columns if column.num in identity)


def _column_list(session: Session, publication: tables.pg_publication, published_as: Relation) -> list[int] | None:
    member = None if publication.puballtables else member_table(session, publication.oid, published_as.oid)
    return None if member is None else member.prattrs


def _published_as(session: Session, publication: tables.pg_publication, target: Relation) -> Relation:
    """The relation whose row filter the publication applies: the topmost ancestor that it publishes, or the table
    itself."""
    if not publication.pubviaroot or not target.is_partition:
        return target
    ancestor = topmost_ancestor(session, publication.oid, partition_ancestors(session, target.oid))
    return relation(session, ancestor) if ancestor is not None else target


def _same_column(one_table: Relation, attnum: int, other: Relation) -> int:
    """The attnum that a column has in another table of the same tree; 0: none."""
    column = one_table.attribute_by_number(attnum)
    attribute = other.attribute(column.name) if column is not None else None
    return attribute.num if attribute is not None else 0


def check_replica_identity(session: Session, target: Relation, command: str) -> None:
    """Refuse an UPDATE or DELETE (`command`) that could not be published (CheckCmdReplicaIdentity). Called for every
    table that holds rows, even when no row is changed."""
    if target.kind == "p" or command not in ("UPDATE", "DELETE") or not is_publishable(target):
        return
    updating = command == "UPDATE"
    refused = f'cannot update table "{target.name}"' if updating else f'cannot delete from table "{target.name}"'
    description = _described(session, target)
    if command in description.filtered:
        detail = "Column used in the publication WHERE expression is not part of the replica identity."
        raise PgError("42P10", refused, detail=detail)
    if command in description.listed:
        detail = "Column list used by the publication does not cover the replica identity."
        raise PgError("42P10", refused, detail=detail)
    if command in description.unpublished:
        detail = "Replica identity must not contain unpublished generated columns."
        raise PgError("42P10", refused, detail=detail)
    publishing = command in description.published
    if not publishing or target.replident == "f" or replica_identity_index(session, target) is not None:
        return
    what, doing = ("updates", "updating") if updating else ("deletes", "deleting from")
    raise PgError(
        "55000",
        f"{refused} because it does not have a replica identity and publishes {what}",
        hint=f"To enable {doing} the table, set REPLICA IDENTITY using ALTER TABLE.",
    )


@frozen
class _Described:
    """The combined properties of the publications of a table (PublicationDesc)."""

    published: frozenset[str]
    filtered: frozenset[str]  # by columns outside the replica identity
    listed: frozenset[str]  # without all columns of the replica identity
    unpublished: frozenset[str]  # with generated columns in the replica identity that are not published


def _described(session: Session, target: Relation) -> _Described:
    """The PublicationDesc as RelationBuildPublicationDesc builds it; it stops once neither UPDATE nor DELETE can be
    allowed."""
    published: set[str] = set()
    filtered: set[str] = set()
    listed: set[str] = set()
    unpublished: set[str] = set()
    generates = any(column.generated for column in target.columns)
    for publication in _publications_of(session, target):
        flags = (publication.pubinsert, publication.pubupdate, publication.pubdelete, publication.pubtruncate)
        published.update(command for command, does in zip(_COMMANDS, flags, strict=True) if does)
        changing = {command for command, does in zip(_CHANGING, flags[1:3], strict=True) if does}
        if changing and generates and identity_is_unpublished(session, publication, target):
            unpublished |= changing
        if changing and not publication.puballtables:
            if filter_needs_more_than_identity(session, publication, target):
                filtered |= changing
            if columns_miss_identity(session, publication, target):
                listed |= changing
        if len(published) == len(_COMMANDS) and len(_CHANGING) in (len(filtered), len(listed), len(unpublished)):
            break
    return _Described(frozenset(published), frozenset(filtered), frozenset(listed), frozenset(unpublished))


_COMMANDS = ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
_CHANGING = ("UPDATE", "DELETE")


def _publications_of(session: Session, target: Relation) -> list[tables.pg_publication]:
    """All publications of a table: by its name, its schema, an ancestor's, or FOR ALL TABLES, in
    RelationBuildPublicationDesc's order."""
    lineage: Sequence[Relation] = [target]
    if target.is_partition:
        lineage = [target, *(relation(session, oid) for oid in partition_ancestors(session, target.oid))]
    publication_oids: dict[int, None] = {}
    for table in lineage:
        publication_oids |= dict.fromkeys(sorted(relation_publications(session, table.oid)))
        publication_oids |= dict.fromkeys(sorted(schema_publications(session, table.namespace)))
    publication_oids |= dict.fromkeys(
        sorted(p.oid for p in publications(session) if publishes_as_one_of_all(session, p, target))
    )
    rows = [one(session, tables.pg_publication, oid=oid) for oid in publication_oids]
    return [row for row in rows if row is not None]
