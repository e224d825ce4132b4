"""How relations hang together: publications, partitions, identity, owned sequences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.classes import PG_CLASS
from pgrepl.catalog.inheritance import inheritors, partition_ancestors
from pgrepl.catalog.publication import is_publishable, published_tables
from pgrepl.catalog.relation import relation, relation_or_none
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import pg_depend, pg_index, pg_publication
from pgrepl.commands.system.names import relation_named
from pgrepl.errors import PgError
from pgrepl.expr.context import Call
from pgrepl.expr.functions import implements
from pgrepl.sql.quote import quote_identifier
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, vector_of


@implements("pg_relation_is_publishable", context=True)
def pg_relation_is_publishable(call: Call, oid: int) -> bool | None:
    found = relation_or_none(call.session, oid)
    return None if found is None else is_publishable(found)


@implements("pg_get_publication_tables", context=True)
def pg_get_publication_tables(call: Call, names: PgArray) -> Iterator[tuple[Any, ...]]:
    session = call.session
    for name in names.items:
        if one(session, pg_publication, datid=session.database.oid, pubname=name) is None:
            raise PgError("42704", f'publication "{name}" does not exist')
    for found in published_tables(session, list(names.items)):
        attrs = vector_of(oids.INT2, list(found.attrs))
        qual = None if found.qual is None else json.dumps(found.qual, separators=(",", ":"))
        yield found.publication, found.relid, attrs, qual


@implements("pg_get_replica_identity_index", context=True)
def pg_get_replica_identity_index(call: Call, oid: int) -> int | None:
    found = relation_or_none(call.session, oid)
    if found is None or found.replident in ("n", "f"):
        return None
    for index in rows(call.session, pg_index, indrelid=oid):
        if index.indisreplident if found.replident == "i" else index.indisprimary and index.indimmediate:
            return int(index.indexrelid)
    return None


@implements("pg_partition_ancestors", context=True)
def pg_partition_ancestors(call: Call, oid: int) -> list[tuple[int]]:
    found = relation_or_none(call.session, oid)
    if found is None or not (found.is_partition or found.kind in "pI"):
        return []
    return [(oid,), *((ancestor,) for ancestor in partition_ancestors(call.session, oid))]


@implements("pg_partition_root", context=True)
def pg_partition_root(call: Call, oid: int) -> int | None:
    chain = pg_partition_ancestors(call, oid)
    return chain[-1][0] if chain else None


@implements("pg_partition_tree", context=True)
def pg_partition_tree(call: Call, oid: int) -> Iterator[tuple[int, int | None, bool, int]]:
    session = call.session
    found = relation_or_none(session, oid)
    if found is None or not (found.is_partition or found.kind in "pI"):
        return
    for member in [oid, *(m for m in inheritors(session, oid) if m != oid)]:
        ancestors = partition_ancestors(session, member)
        parent = ancestors[0] if ancestors else None
        level = ancestors.index(oid) + 1 if oid in ancestors else 0
        yield member, parent, relation(session, member).kind not in "pI", level


@implements("pg_get_serial_sequence", context=True)
def pg_get_serial_sequence(call: Call, table: str, column: str) -> str | None:
    session = call.session
    found = relation_named(session, table)
    attribute = found.attribute(column)
    if attribute is None:
        raise PgError("42703", f'column "{column}" of relation "{found.name}" does not exist')
    for kind in ("a", "i"):
        for row in rows(
            session, pg_depend, refclassid=PG_CLASS, refobjid=found.oid, refobjsubid=attribute.num, deptype=kind
        ):
            sequence = relation_or_none(session, row.objid) if row.classid == PG_CLASS else None
            if sequence is not None and sequence.kind == "S":
                return f"{quote_identifier(sequence.schema)}.{quote_identifier(sequence.name)}"
    return None
