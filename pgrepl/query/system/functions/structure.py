"""The structure of relations: publications, partitions, replica identity, owned sequences, updatable views."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.classes import PG_CLASS
from pgrepl.catalog.inheritance import inheritors, partition_ancestors
from pgrepl.catalog.publication import is_publishable, published_tables
from pgrepl.catalog.relation import relation, relation_or_none
from pgrepl.catalog.session import Session
from pgrepl.catalog.store import one, rows
from pgrepl.catalog.tables import pg_depend, pg_index, pg_publication, pg_rewrite
from pgrepl.errors import PgError
from pgrepl.expr import stored
from pgrepl.expr.context import Call
from pgrepl.expr.functions.registry import Family
from pgrepl.expr.tree import Query, RangeRef, Var
from pgrepl.expr.updatable import why_not_updatable
from pgrepl.query.system.names import relation_named
from pgrepl.sql.quote import quote_qualified
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, vector_of

implements = Family()


@implements("pg_relation_is_publishable", context=True)
def pg_relation_is_publishable(call: Call, oid: int) -> bool | None:
    found = relation_or_none(call.session, oid)
    return None if found is None else is_publishable(found)


@implements("pg_get_publication_tables", context=True)
def pg_get_publication_tables(call: Call, names: PgArray) -> Iterator[tuple[Any, ...]]:
    session = call.session
    for name in names.items:
        if one(session, pg_publication, datid=session.database_oid, pubname=name) is None:
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
def pg_partition_ancestors(call: Call, oid: int) -> list[int]:
    found = relation_or_none(call.session, oid)
    if found is None or not (found.is_partition or found.kind in "pI"):
        return []
    return [oid, *partition_ancestors(call.session, oid)]


@implements("pg_partition_root", context=True)
def pg_partition_root(call: Call, oid: int) -> int | None:
    chain = pg_partition_ancestors(call, oid)
    return chain[-1] if chain else None


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
                return quote_qualified(sequence.schema, sequence.name)
    return None


_UPDATE, _INSERT, _DELETE = 1 << 2, 1 << 3, 1 << 4  # bits of CmdType


def _view_query(session: Session, oid: int) -> Query | None:
    row = one(session, pg_rewrite, ev_class=oid)
    return None if row is None else stored.from_json(row.ev_action, session)


@implements("pg_relation_is_updatable", context=True)
def pg_relation_is_updatable(call: Call, oid: int, include_triggers: bool) -> int:
    """The commands that can change a relation, as bits; for a view those of its base relation
    (relation_is_updatable)."""
    found = relation_or_none(call.session, oid)
    if found is None or found.system is not None:
        return 0
    if found.kind in "rp":
        return _UPDATE | _INSERT | _DELETE
    query = _view_query(call.session, oid) if found.kind == "v" else None
    if query is None or why_not_updatable(query) is not None:
        return 0
    (source,) = query.from_
    assert isinstance(source, RangeRef)
    return pg_relation_is_updatable(call, query.rtable[source.varno - 1].relid, include_triggers)


@implements("pg_column_is_updatable", context=True)
def pg_column_is_updatable(call: Call, oid: int, attnum: int, include_triggers: bool) -> bool:
    """Whether a column can be updated; for a view's column whether it is an updatable column of its base relation."""
    both = _UPDATE | _DELETE
    if pg_relation_is_updatable(call, oid, include_triggers) & both != both:
        return False
    if relation(call.session, oid).kind != "v":
        return True
    query = _view_query(call.session, oid)
    assert query is not None
    (source,) = query.from_
    assert isinstance(source, RangeRef)
    expr = next((t.expr for t in query.targets if t.resno == attnum), None)
    if not isinstance(expr, Var) or expr.levelsup or expr.varno != source.varno or expr.attnum <= 0:
        return False
    return pg_column_is_updatable(call, query.rtable[source.varno - 1].relid, expr.attnum, include_triggers)
