"""CREATE TABLE: the parts of the statement in the order PostgreSQL does them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, find_relation, oid_in_schema, relation
from pgrepl.catalog.session.session import Session
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.result import Result
from pgrepl.rows.requirements import DefaultPartition
from pgrepl.sql.nodes import CreateStmt, CreateTableAsStmt, ObjectType
from pgrepl.statements.deletion import drop_on_commit, empty_on_commit
from pgrepl.statements.index.define import define_index
from pgrepl.statements.sequence import create_column_sequence, own_sequence
from pgrepl.statements.table.clauses import add_elements, comment_column, expand_like, make_indexes
from pgrepl.statements.table.columns import NewColumn, finish, refuse_duplicates
from pgrepl.statements.table.constraints import Check, Clauses, add_checks, cook_check
from pgrepl.statements.table.heap import create_relation
from pgrepl.statements.table.merge import Merger
from pgrepl.statements.table.names import check_tablespace, chosen_access_method, creation_schema, store_inheritance
from pgrepl.statements.table.not_null import store_not_nulls
from pgrepl.statements.table.storage import table_options
from pgrepl.writing.phase3 import require

if TYPE_CHECKING:
    from pgrepl.sql.nodes import PartitionBoundSpec, PartitionSpec


def create_table(stmt: CreateStmt, session: Session) -> Result:
    namespace, persistence = creation_schema(session, stmt.relation)
    if stmt.if_not_exists and oid_in_schema(session, namespace, stmt.relation.name) is not None:
        session.notice("NOTICE", f'relation "{stmt.relation.name}" already exists, skipping', sqlstate="42P07")
        return Result("CREATE TABLE")
    if stmt.of_type is not None:
        raise unsupported("CREATE TABLE OF")
    parents = (stmt.partition_of,) if stmt.partition_of is not None else stmt.inherits
    clauses = Clauses(
        session,
        stmt.relation.name,
        namespace,
        persistence,
        parents=parents,
        is_partition=stmt.bound is not None,
        is_partitioned=stmt.partition_by is not None,
    )
    if stmt.partition_by is not None and stmt.inherits:
        raise PgError("42P17", "cannot create partitioned table as inheritance child")
    add_elements(clauses, stmt.elements)
    make_indexes(clauses)
    for sequence in clauses.sequences:
        create_column_sequence(session, sequence)
    table = _define_table(session, stmt, clauses)
    _complete(session, table, clauses)
    _at_commit(session, table, stmt.on_commit)
    return Result("CREATE TABLE")


def _define_table(session: Session, stmt: CreateStmt, clauses: Clauses) -> int:
    """Makes the table, its columns and constraints (DefineRelation)."""
    if stmt.on_commit is not None and clauses.persistence != "t":
        raise PgError("42P16", "ON COMMIT can only be used on temporary tables")
    parents: list[Relation] = []
    for name in clauses.parents:
        parent = find_relation(session, replace(name, location=-1))
        if parent in parents:
            raise PgError("42P07", f'relation "{parent.name}" would be inherited from more than once')
        parents.append(parent)
    partitioned = stmt.partition_by is not None
    check_tablespace(stmt.tablespace, partitioned=partitioned)
    options = table_options(stmt.options, partitioned=partitioned)
    merger = Merger(session, clauses.persistence, is_partition=clauses.is_partition)
    columns = merger.merge(clauses.columns, parents)
    finish(session, columns)
    access_method = chosen_access_method(stmt.access_method, partitioned, parents if clauses.is_partition else [])
    kind = "p" if partitioned else "r"
    table = create_relation(
        session,
        clauses.table,
        clauses.namespace,
        kind,
        columns,
        persistence=clauses.persistence,
        access_method=access_method,
        options=options,
        has_index=bool(clauses.indexes),
    )
    add_checks(session, relation(session, table), merger.checks, merge=False, count=0)
    if stmt.bound is not None:
        _store_bound(session, table, parents[0], stmt.bound)
    for number, parent in enumerate(parents, 1):
        store_inheritance(session, table, parent, number, is_partition=clauses.is_partition)
    if stmt.partition_by is not None:
        _store_key(session, table, stmt.partition_by)
    if clauses.is_partition:
        from pgrepl.statements.table.partition import clone_from_parent

        clone_from_parent(session, table, parents[0].oid)
    if clauses.checks:
        rel = relation(session, table)
        checks = (
            Check(
                c.name, cook_check(session, rel, c.expr), valid=c.enforced, no_inherit=c.no_inherit, enforced=c.enforced
            )
            for c in clauses.checks
            if c.expr is not None
        )
        add_checks(session, rel, checks, merge=True)
    if clauses.not_nulls or merger.not_nulls:
        store_not_nulls(session, relation(session, table), clauses.not_nulls, merger.not_nulls)
    return table


def define_columns(
    session: Session, stmt: CreateTableAsStmt, namespace: int, persistence: str, columns: list[NewColumn]
) -> int:
    """The table or materialized view of CREATE … AS: columns and options, no constraints."""
    if stmt.on_commit is not None and persistence != "t":
        raise PgError("42P16", "ON COMMIT can only be used on temporary tables")
    check_tablespace(stmt.tablespace, partitioned=False)
    options = table_options(stmt.options, partitioned=False)
    refuse_duplicates(columns)
    finish(session, columns)
    access_method = chosen_access_method(stmt.access_method, False, [])
    table = create_relation(
        session,
        stmt.relation.name,
        namespace,
        "m" if stmt.kind is ObjectType.MATVIEW else "r",
        columns,
        persistence=persistence,
        access_method=access_method,
        options=options,
    )
    _at_commit(session, table, stmt.on_commit)
    return table


def _at_commit(session: Session, table: int, action: str | None) -> None:
    if action in ("DROP", "DELETE ROWS"):
        (drop_on_commit if action == "DROP" else empty_on_commit)(session, table)


def _store_bound(session: Session, table: int, parent: Relation, spec: PartitionBoundSpec) -> None:
    from pgrepl.statements.table.bounds import check_bound, store_bound, transform_bound

    if parent.kind != "p":
        raise PgError("42P17", f'"{parent.name}" is not partitioned')
    rel = relation(session, table)
    bound = transform_bound(session, parent, spec, rel)
    default = check_bound(session, rel.name, parent, bound)
    if default:
        require(session, DefaultPartition(default, parent.oid, bound))
    store_bound(session, table, parent, bound)


def _store_key(session: Session, table: int, spec: PartitionSpec) -> None:
    from pgrepl.statements.table.partition import define_key

    define_key(session, relation(session, table), spec)


def _complete(session: Session, table: int, clauses: Clauses) -> None:
    """Add NOT NULL of inherited keys, indexes, LIKE, foreign keys, owned sequences and comments to the new table."""
    if clauses.set_not_null:
        from pgrepl.statements.table.alter.run import set_not_null

        set_not_null(session, table, clauses.set_not_null)
    if clauses.indexes:
        for spec in clauses.indexes:
            define_index(session, table, spec)
    if clauses.likes:
        for like in clauses.likes:
            expand_like(session, table, like)
    if clauses.foreign_keys:
        from pgrepl.statements.table.alter.run import add_foreign_keys

        add_foreign_keys(session, table, clauses.foreign_keys)
    if clauses.sequences:
        for sequence in clauses.sequences:
            own_sequence(session, sequence, relation(session, table))
    for comment in clauses.comments:
        comment_column(session, table, comment)
