"""CREATE TABLE: the parts of the statement in the order PostgreSQL does them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import store
from pgrepl.catalog.classes import CATALOG_NAMESPACE, PG_CLASS, PG_NAMESPACE, TOAST_NAMESPACE, ObjectAddress
from pgrepl.catalog.depend import record_dependency
from pgrepl.catalog.namespace import schema_name
from pgrepl.catalog.relation import Relation, find_relation, oid_in_schema, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_attrdef, pg_attribute, pg_class
from pgrepl.errors import PgError, unsupported
from pgrepl.expr.tree import Expr
from pgrepl.query.result import Result
from pgrepl.sql.nodes import CreateStmt, CreateTableAsStmt, DefElem
from pgrepl.statements.needs import record_type_needs
from pgrepl.statements.table import storage
from pgrepl.statements.table.clauses import Clauses, add_elements, make_indexes
from pgrepl.statements.table.columns import (
    NewColumn,
    attribute_values,
    check_names_and_types,
    column_of_type,
    finish,
    refuse_duplicates,
)
from pgrepl.statements.table.constraints import Check, add_checks, cook_check
from pgrepl.statements.table.creation import creation_schema
from pgrepl.statements.table.defaults import cook_default, default_values, record_default_needs
from pgrepl.statements.table.inherit import store_inheritance
from pgrepl.statements.table.merge import Merger

if TYPE_CHECKING:
    from pgrepl.sql.nodes import PartitionBoundSpec, PartitionSpec

HEAP = 2  # pg_am


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
    )
    if stmt.partition_by is not None and stmt.inherits:
        raise PgError("42P17", "cannot create partitioned table as inheritance child")
    add_elements(clauses, stmt.elements)
    make_indexes(clauses)
    for sequence in clauses.sequences:
        from pgrepl.statements.sequence import create_column_sequence

        create_column_sequence(session, sequence)
    table = _define_table(session, stmt, clauses)
    _complete(session, table, clauses)
    _at_commit(session, table, stmt.on_commit)
    return Result("CREATE TABLE")


def _define_table(session: Session, stmt: CreateStmt, clauses: Clauses) -> int:
    """As DefineRelation does."""
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
    access_method = _access_method(stmt.access_method, partitioned, parents if clauses.is_partition else [])
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
            Check(c.name, cook_check(session, rel, c.expr), no_inherit=c.no_inherit)
            for c in clauses.checks
            if c.expr is not None
        )
        add_checks(session, rel, checks, merge=True)
    return table


def define_columns(
    session: Session, stmt: CreateTableAsStmt, namespace: int, persistence: str, columns: list[NewColumn]
) -> int:
    """The table of CREATE TABLE AS: columns and options, no constraints."""
    if stmt.on_commit is not None and persistence != "t":
        raise PgError("42P16", "ON COMMIT can only be used on temporary tables")
    check_tablespace(stmt.tablespace, partitioned=False)
    options = table_options(stmt.options, partitioned=False)
    refuse_duplicates(columns)
    finish(session, columns)
    access_method = _access_method(stmt.access_method, False, [])
    table = create_relation(
        session,
        stmt.relation.name,
        namespace,
        "r",
        columns,
        persistence=persistence,
        access_method=access_method,
        options=options,
    )
    _at_commit(session, table, stmt.on_commit)
    return table


def _at_commit(session: Session, table: int, action: str | None) -> None:
    if action in ("DROP", "DELETE ROWS"):
        from pgrepl.statements.temporary import drop_on_commit, empty_on_commit

        (drop_on_commit if action == "DROP" else empty_on_commit)(session, table)


def _store_bound(session: Session, table: int, parent: Relation, spec: PartitionBoundSpec) -> None:
    from pgrepl.rows.requirements import DefaultPartition
    from pgrepl.statements.table.bounds import check_bound, store_bound, transform_bound
    from pgrepl.writing.rewrite.phase3 import require

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
    """What follows the table itself: NOT NULL of inherited keys, indexes, LIKE, foreign keys, sequences, comments."""
    if clauses.set_not_null:
        from pgrepl.statements.table.alter.run import set_not_null

        set_not_null(session, table, clauses.set_not_null)
    if clauses.indexes:
        from pgrepl.statements.index.define import define_index

        for spec in clauses.indexes:
            define_index(session, table, spec)
    if clauses.likes:
        from pgrepl.statements.table.like import expand_like

        for like in clauses.likes:
            expand_like(session, table, like)
    if clauses.foreign_keys:
        from pgrepl.statements.table.alter.run import add_foreign_keys

        add_foreign_keys(session, table, clauses.foreign_keys)
    if clauses.sequences:
        from pgrepl.statements.sequence import own_sequence

        for sequence in clauses.sequences:
            own_sequence(session, sequence, relation(session, table))
    for comment in clauses.comments:
        from pgrepl.statements.table.like import comment_column

        comment_column(session, table, comment)


# --- relations of any kind ----------------------------------------------------------------------------------------


def create_relation(
    session: Session,
    name: str,
    namespace: int,
    kind: str,
    columns: Sequence[NewColumn],
    *,
    persistence: str = "p",
    owner: int = 0,
    access_method: int = 0,
    options: Sequence[str] = (),
    has_index: bool = False,
) -> int:
    """Rows for a new table, view or sequence, its defaults cooked and stored, as heap_create_with_catalog does."""
    check_names_and_types(session, columns, kind)
    if oid_in_schema(session, namespace, name) is not None:
        raise PgError("42P07", f'relation "{name}" already exists')
    if namespace in (CATALOG_NAMESPACE, TOAST_NAMESPACE):
        raise PgError(
            "42501",
            f'permission denied to create "{schema_name(session, namespace)}.{name}"',
            detail="System catalog modifications are currently disallowed.",
        )
    oid = store.new_oid(session)
    row_type = 0
    if kind != "S":
        store.new_oid(session)  # of the array over the row type
        row_type = store.new_oid(session)
    store.insert(
        session,
        pg_class,
        datid=session.database.oid,
        oid=oid,
        relname=name,
        relnamespace=namespace,
        reltype=row_type,
        relowner=owner or session.role,
        relam=access_method,
        relhasindex=has_index,
        relpersistence=persistence,
        relkind=kind,
        relnatts=len(columns),
        relchecks=0,
        relhassubclass=False,
        relrowsecurity=False,
        relforcerowsecurity=False,
        relreplident="n" if kind in ("v", "S") else "d",
        relispartition=False,
        relacl=None,
        reloptions=list(options) or None,
        relpartbound=None,
    )
    values = [attribute_values(oid, number, column) for number, column in enumerate(columns, 1)]
    defaults = _defaults(session, oid, columns)
    for number in defaults:
        values[number - 1]["atthasdef"] = True
    store.insert_many(session, pg_attribute, values)
    record_dependency(session, ObjectAddress(PG_CLASS, oid), ObjectAddress(PG_NAMESPACE, namespace))
    record_type_needs(session, oid, [(number, column.type) for number, column in enumerate(columns, 1)])
    if defaults:
        rows = [default_values(session, oid, number, expr) for number, expr in defaults.items()]
        store.insert_many(session, pg_attrdef, rows)
        for row, expr in zip(rows, defaults.values(), strict=True):
            record_default_needs(session, row["oid"], oid, row["adnum"], expr, columns[row["adnum"] - 1].generated)
    return oid


def _defaults(session: Session, oid: int, columns: Sequence[NewColumn]) -> dict[int, Expr]:
    """The defaults by column number: those of parents first, then the table's own."""
    found = {n: c.cooked_default for n, c in enumerate(columns, 1) if c.cooked_default is not None}
    raw = [(n, c) for n, c in enumerate(columns, 1) if c.raw_default is not None]
    if raw:
        rel = _provisional(session, oid, columns)
        for number, column in raw:
            assert column.raw_default is not None
            expr = cook_default(
                session, rel, column.raw_default, column.name, column.type, column.typmod, column.generated
            )
            if expr is not None:
                found[number] = expr
    return found


def _provisional(session: Session, oid: int, columns: Sequence[NewColumn]) -> Relation:
    """The relation as it will be once its columns are stored: expressions are understood against it."""
    from pgrepl.catalog.relation import Attribute

    attributes = tuple(
        Attribute(n, c.name, c.type, c.typmod, c.not_null, c.collation, generated=c.generated, ndims=c.ndims)
        for n, c in enumerate(columns, 1)
    )
    return replace(relation(session, oid), attributes=attributes)


def simple_column(name: str, type_: int, *, not_null: bool = False, collation: int = 0, typmod: int = -1) -> NewColumn:
    return column_of_type(name, type_, typmod, collation, not_null=not_null)


def table_options(options: Sequence[DefElem], *, partitioned: bool) -> list[str]:
    """WITH (…) of CREATE TABLE."""
    texts = storage.transform(None, options, namespaces=("toast",), accept_oids=True)
    if partitioned:
        refuse_partitioned_options(texts)
    else:
        storage.validate(texts, storage.HEAP)
    return texts


def refuse_partitioned_options(texts: Sequence[str]) -> None:
    if texts:
        raise PgError(
            "42809",
            "cannot specify storage parameters for a partitioned table",
            hint="Specify storage parameters for its leaf partitions instead.",
        )


def check_tablespace(name: str | None, *, partitioned: bool) -> None:
    """There is one tablespace to put things in."""
    if name is None:
        return
    if name == "pg_global":
        raise PgError("22023", "only shared relations can be placed in pg_global tablespace")
    if name != "pg_default":
        raise PgError("42704", f'tablespace "{name}" does not exist')
    if partitioned:
        raise PgError("0A000", "cannot specify default tablespace for partitioned relations")


def table_access_method(name: str) -> int:
    """As get_table_am_oid does."""
    from pgrepl.types.builtin import access_method_by_name

    found = access_method_by_name(name)
    if found is None:
        raise PgError("42704", f'access method "{name}" does not exist')
    if found.type != "t":
        raise PgError("55000", f'access method "{name}" is not of type TABLE')
    return found.oid


def _access_method(name: str | None, partitioned: bool, parents: Sequence[Relation]) -> int:
    if name is not None:
        return table_access_method(name)
    if parents and parents[0].access_method:
        return parents[0].access_method
    return 0 if partitioned else HEAP
