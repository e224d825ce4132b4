"""Schemas, sequences, tables, views, constraints and indexes of a dump.

The order: schemas; collations; types; sequences; tables and views, each after what it is made of; partitions attached;
keys and indexes, those of partitions before those of their parents, which then take them over; foreign keys last.
Partitions are made as tables of their own and attached, as pg_dump does.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgrepl.catalog.facts.acl import ObjectKind
from pgrepl.catalog.facts.namespace import schemas
from pgrepl.catalog.facts.relation import Relation, relation
from pgrepl.catalog.facts.relation_parts import partition_ancestors
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import FIRST_NORMAL_OID, PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE
from pgrepl.catalog.store.tables import (
    pg_class,
    pg_constraint,
    pg_depend,
    pg_index,
    pg_inherits,
    pg_namespace,
    pg_rewrite,
)
from pgrepl.expr.print.definitions import (
    constraint_definition,
    index_definition,
    options_text,
    partition_bound_text,
    view_definition,
)
from pgrepl.sql.keywords import quote_identifier
from pgrepl.statements.dump import naming
from pgrepl.statements.dump.naming import collation_parts, default_privileges, late_checks, type_parts
from pgrepl.statements.dump.table import (
    RoutineParts,
    column_settings,
    create_sequence,
    create_table,
    identity,
    is_owned,
    sequence_owner,
    triggers,
)

WORDS = {"r": "TABLE", "p": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW", "S": "SEQUENCE"}
KINDS = {kind: ObjectKind.SEQUENCE if kind == "S" else ObjectKind.TABLE for kind in WORDS}


def dump_schema(session: Session) -> Iterator[str]:
    for _, text in schema_parts(session):
        yield text
    yield from collation_parts(session)
    yield from type_parts(session)
    routines = RoutineParts(session)
    for _, text in routines.first():
        yield text
    yield from late_checks(session)
    for _, text in relation_parts(session, routines):
        yield text
    yield from routines.about()
    yield from default_privileges(session)


def schema_parts(session: Session) -> Iterator[tuple[str, str]]:
    """Names of schemas, each with a statement about it."""
    for row in schemas(session):
        if row.oid >= FIRST_NORMAL_OID:
            name = quote_identifier(row.nspname)
            yield row.nspname, f"CREATE SCHEMA {name};"
            for text in about_schema(session, row):
                yield row.nspname, text


def about_schema(session: Session, row: pg_namespace) -> Iterator[str]:
    name = quote_identifier(row.nspname)
    yield naming.owner(session, f"SCHEMA {name}", row.nspowner)
    yield from naming.comment(session, f"SCHEMA {name}", PG_NAMESPACE, row.oid)
    yield from naming.privileges(session, f"SCHEMA {name}", ObjectKind.SCHEMA, row.nspowner, row.nspacl)


def own_relations(session: Session) -> list[Relation]:
    """Tables, views and sequences of the database; identity columns have their sequences inside."""
    found = [
        relation(session, row.oid)
        for row in sorted(rows(session, pg_class, datid=session.database_oid), key=lambda r: r.oid)
        if row.relkind in WORDS
    ]
    identities = {oid for r in found if r.kind == "S" and (oid := _identity_sequence(session, r))}
    return [r for r in found if r.oid not in identities]


def relation_parts(session: Session, routines: RoutineParts | None = None) -> Iterator[tuple[int, str]]:
    """OIDs of relations, each with a statement about it; and of the routines that are not made yet."""
    found = own_relations(session)
    sequences = [r for r in found if r.kind == "S"]
    tables = _in_order(session, [r for r in found if r.kind != "S"], routines)
    for sequence in sequences:
        yield sequence.oid, create_sequence(session, sequence)
    for one_table in tables:
        if routines is not None:
            yield from routines.before(one_table.oid)
        for text in _create(session, one_table):
            yield one_table.oid, text
    if routines is not None:
        yield from routines.rest()
    for sequence in sequences:
        for text in sequence_owner(session, sequence):
            yield sequence.oid, text
    for table in tables:
        if table.is_partition:
            yield table.oid, attach(session, table)
    yield from _checks_not_valid(session, tables)
    yield from _keys_and_indexes(session, tables)
    yield from _foreign_keys(session, tables)
    for table in tables:
        if table.kind == "m" and table.populated:
            yield table.oid, f"REFRESH MATERIALIZED VIEW {naming.qualified(table)};"
    for one_table in [*sequences, *tables]:
        for text in _about(session, one_table):
            yield one_table.oid, text
    for one_table in tables:
        for text in triggers(session, one_table):
            yield one_table.oid, text


def _identity_sequence(session: Session, sequence: Relation) -> int | None:
    internal = one(session, pg_depend, classid=PG_CLASS, objid=sequence.oid, refclassid=PG_CLASS, deptype="i")
    return sequence.oid if internal is not None else None


def _in_order(session: Session, found: list[Relation], routines: RoutineParts | None) -> list[Relation]:
    """Parents before children, and what a view reads, or a function that a relation calls, before it."""
    by_oid = {r.oid: r for r in found}
    ordered: dict[int, Relation] = {}
    begun: set[int] = set()

    def place(one_of_them: Relation) -> None:
        if one_of_them.oid in ordered or one_of_them.oid in begun:
            return
        begun.add(one_of_them.oid)
        needed = needed_by(session, one_of_them)
        if routines is not None:
            needed += sorted(routines.relations_needed_by(one_of_them.oid) - set(needed))
        for oid in needed:
            if oid in by_oid and oid != one_of_them.oid:
                place(by_oid[oid])
        ordered[one_of_them.oid] = one_of_them

    for one_of_them in found:
        place(one_of_them)
    return list(ordered.values())


def needed_by(session: Session, found: Relation) -> list[int]:
    if found.kind in "vm":
        rule = one(session, pg_rewrite, ev_class=found.oid)
        if rule is None:
            return []
        return [d.refobjid for d in rows(session, pg_depend, objid=rule.oid, refclassid=PG_CLASS)]
    return [row.inhparent for row in rows(session, pg_inherits, inhrelid=found.oid)]


def _create(session: Session, found: Relation) -> Iterator[str]:
    if found.kind == "v":
        options = f" WITH ({options_text(found.options)})" if found.options else ""
        yield f"CREATE VIEW {naming.qualified(found)}{options} AS\n{view_definition(session, found.oid)}"
    elif found.kind == "m":
        yield create_materialized_view(session, found)
        yield from column_settings(session, found)
    else:
        yield create_table(session, found)
        yield from column_settings(session, found)
        yield from identity(session, found)


def create_materialized_view(session: Session, found: Relation) -> str:
    """Without data, which is there only when everything below has its rows."""
    options = f" WITH ({options_text(found.options)})" if found.options else ""
    query = (view_definition(session, found.oid) or "").removesuffix(";")
    return f"CREATE MATERIALIZED VIEW {naming.qualified(found)}{options} AS\n{query}\n  WITH NO DATA;"


def attach(session: Session, table: Relation) -> str:
    row = one(session, pg_inherits, inhrelid=table.oid)
    assert row is not None
    parent = naming.qualified(relation(session, row.inhparent))
    bound = partition_bound_text(session, table.oid)
    return f"ALTER TABLE ONLY {parent} ATTACH PARTITION {naming.qualified(table)} {bound};"


def _checks_not_valid(session: Session, tables: list[Relation]) -> Iterator[tuple[int, str]]:
    """CREATE TABLE has no NOT VALID. A parent's check is merged with those of its children: children come first."""
    for table in reversed(tables):
        for row in rows(session, pg_constraint, conrelid=table.oid):
            if row.contype in "cn" and row.conislocal and not row.convalidated:
                yield table.oid, add_constraint(session, naming.qualified(table), row)


def add_constraint(session: Session, table: str, row: pg_constraint) -> str:
    definition = constraint_definition(session, row.oid)
    return f"ALTER TABLE {table} ADD CONSTRAINT {quote_identifier(row.conname)} {definition};"


def _keys_and_indexes(session: Session, tables: list[Relation]) -> Iterator[tuple[int, str]]:
    """A parent's key makes its partitions' keys unless it finds them: partitions come first, the deepest before all."""
    depth = {t.oid: len(partition_ancestors(session, t.oid)) if t.is_partition else 0 for t in tables}
    for table in sorted(tables, key=lambda t: -depth[t.oid]):
        name = naming.qualified(table)
        for index in sorted(rows(session, pg_index, indrelid=table.oid), key=lambda i: i.indexrelid):
            keys = rows(session, pg_constraint, conindid=index.indexrelid, conrelid=table.oid)
            key = next((k for k in keys if k.contype in "pu"), None)
            if key is not None:
                only = "" if table.kind == "p" else "ONLY "
                yield table.oid, add_constraint(session, only + name, key)
            else:
                yield table.oid, create_index(session, index.indexrelid)
            found = relation(session, index.indexrelid)
            if index.indisreplident:
                yield table.oid, f"ALTER TABLE ONLY {name} REPLICA IDENTITY USING INDEX {quote_identifier(found.name)};"
            if index.indisclustered:
                yield table.oid, f"ALTER TABLE {name} CLUSTER ON {quote_identifier(found.name)};"
            for text in naming.comment(session, f"INDEX {naming.qualified(found)}", PG_CLASS, found.oid):
                yield table.oid, text


def create_index(session: Session, oid: int) -> str:
    return (index_definition(session, oid) or "").replace(" ON ONLY ", " ON ", 1) + ";"


def _foreign_keys(session: Session, tables: list[Relation]) -> Iterator[tuple[int, str]]:
    for table in tables:
        for row in rows(session, pg_constraint, conrelid=table.oid):
            if row.contype == "f" and not row.conparentid:
                only = "" if table.kind == "p" else "ONLY "
                yield table.oid, add_constraint(session, only + naming.qualified(table), row)


def _about(session: Session, found: Relation) -> Iterator[str]:
    name, word = naming.qualified(found), WORDS[found.kind]
    if not (found.kind == "S" and is_owned(session, found)):  # its owner changes with that of its table
        yield naming.owner(session, f"{word} {name}", found.owner)
    if found.kind in "rpm" and found.replident in ("f", "n"):
        yield f"ALTER TABLE ONLY {name} REPLICA IDENTITY {'FULL' if found.replident == 'f' else 'NOTHING'};"
    if found.row_security:
        yield f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY;"
    if found.force_row_security:
        yield f"ALTER TABLE ONLY {name} FORCE ROW LEVEL SECURITY;"
    yield from naming.comment(session, f"{word} {name}", PG_CLASS, found.oid)
    for column in found.columns:
        yield from naming.comment(
            session, f"COLUMN {name}.{quote_identifier(column.name)}", PG_CLASS, found.oid, column.num
        )
    for row in sorted(rows(session, pg_constraint, conrelid=found.oid), key=lambda r: r.conname):
        if row.contype != "f" or not row.conparentid:  # a partition's foreign key may get another name
            constraint = f"CONSTRAINT {quote_identifier(row.conname)} ON {name}"
            yield from naming.comment(session, constraint, PG_CONSTRAINT, row.oid)
    words = f"SEQUENCE {name}" if found.kind == "S" else f"TABLE {name}"
    yield from naming.privileges(session, words, KINDS[found.kind], found.owner, found.acl)
    for column in found.columns:
        name = quote_identifier(column.name)
        yield from naming.privileges(session, words, ObjectKind.COLUMN, found.owner, column.acl, name)
