"""Functions about relations: publications, partitions, replica identity, updatable views, sequences; and the sizes of
relations on disk: PostgreSQL's for an empty one, and the rows of tables as the lake has them.

A transaction that holds the write lock moves a sequence itself; a rollback leaves it where it was moved to. CACHE has
no effect. An empty relation has the first pages of each index, those of the TOAST table's index, and that of a
sequence; there are no indexes in the lake, so those sizes never change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pgrepl.catalog.facts import acl
from pgrepl.catalog.facts.publication import is_publishable, publication_by_name, published_sequences, published_tables
from pgrepl.catalog.facts.relation import Attribute, Relation, relation, relation_or_none
from pgrepl.catalog.facts.relation_parts import inheritors, partition_ancestors
from pgrepl.catalog.facts.sequences import move, position, used
from pgrepl.catalog.session.numbering import current_lsn
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.session.transaction import require_writable
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.system import PG_CLASS
from pgrepl.catalog.store.tables import pg_class, pg_depend, pg_index, pg_publication, pg_rewrite, pg_sequence
from pgrepl.expr import stored
from pgrepl.expr.functions.registry import Call, Family
from pgrepl.expr.rewrite.views import why_not_updatable
from pgrepl.expr.tree import Query, RangeRef, Var
from pgrepl.ground.errors import PgError, unsupported
from pgrepl.query.system.functions.names import relation_named
from pgrepl.sql.keywords import quote_qualified
from pgrepl.types import oids
from pgrepl.types.arrays import PgArray, vector_of
from pgrepl.types.builtin import access_methods, type_by_oid

implements = Family()


@implements("pg_relation_is_publishable", context=True)
def pg_relation_is_publishable(call: Call, oid: int) -> bool | None:
    rel = relation_or_none(call.session, oid)
    return None if rel is None else is_publishable(rel)


@implements("pg_get_publication_tables", context=True)
def pg_get_publication_tables(call: Call, names: PgArray) -> Iterator[tuple[Any, ...]]:
    session = call.session
    if None in names.items:
        raise PgError("22004", "null array element not allowed in this context")
    for name in names.items:
        if one(session, pg_publication, datid=session.database_oid, pubname=name) is None:
            raise PgError("42704", f'publication "{name}" does not exist')
    for published in published_tables(session, list(names.items)):
        attrs = vector_of(oids.INT2, list(published.attrs))
        qual = None if published.qual is None else json.dumps(published.qual, separators=(",", ":"))
        yield published.publication, published.relid, attrs, qual


@implements("pg_get_publication_sequences", context=True)
def pg_get_publication_sequences(call: Call, name: str) -> list[int]:
    return published_sequences(call.session, publication_by_name(call.session, name))


@implements("pg_get_replica_identity_index", context=True)
def pg_get_replica_identity_index(call: Call, oid: int) -> int | None:
    rel = relation_or_none(call.session, oid)
    if rel is None or rel.replident in ("n", "f"):
        return None
    for index in rows(call.session, pg_index, indrelid=oid):
        if index.indisreplident if rel.replident == "i" else index.indisprimary and index.indimmediate:
            return int(index.indexrelid)
    return None


@implements("pg_partition_ancestors", context=True)
def pg_partition_ancestors(call: Call, oid: int) -> list[int]:
    rel = relation_or_none(call.session, oid)
    if rel is None or not (rel.is_partition or rel.kind in "pI"):
        return []
    return [oid, *partition_ancestors(call.session, oid)]


@implements("pg_partition_root", context=True)
def pg_partition_root(call: Call, oid: int) -> int | None:
    chain = pg_partition_ancestors(call, oid)
    return chain[-1] if chain else None


@implements("pg_partition_tree", context=True)
def pg_partition_tree(call: Call, oid: int) -> Iterator[tuple[int, int | None, bool, int]]:
    session = call.session
    rel = relation_or_none(session, oid)
    if rel is None or not (rel.is_partition or rel.kind in "pI"):
        return
    for member in [oid, *(m for m in inheritors(session, oid) if m != oid)]:
        ancestors = partition_ancestors(session, member)
        parent = ancestors[0] if ancestors else None
        level = ancestors.index(oid) + 1 if oid in ancestors else 0
        yield member, parent, relation(session, member).kind not in "pI", level


@implements("pg_get_serial_sequence", context=True)
def pg_get_serial_sequence(call: Call, table: str, column: str) -> str | None:
    session = call.session
    rel = relation_named(session, table)
    attribute = rel.attribute(column)
    if attribute is None:
        raise PgError("42703", f'column "{column}" of relation "{rel.name}" does not exist')
    for kind in ("a", "i"):
        for row in rows(
            session, pg_depend, refclassid=PG_CLASS, refobjid=rel.oid, refobjsubid=attribute.num, deptype=kind
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
    rel = relation_or_none(call.session, oid)
    if rel is None or rel.system is not None:
        return 0
    if rel.kind in "rp":
        return _UPDATE | _INSERT | _DELETE
    query = _view_query(call.session, oid) if rel.kind == "v" else None
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


# --- sequences --------------------------------------------------------------------------------------------------------


_KINDS = {
    "r": "tables", "p": "partitioned tables", "v": "views", "m": "materialized views", "i": "indexes",
    "I": "partitioned indexes", "t": "TOAST tables", "c": "composite types", "f": "foreign tables",
}  # fmt: skip


def _sequence(session: Session, oid: int, *privileges: str) -> tuple[Relation, Any]:
    rel = relation_or_none(session, oid)
    if rel is None:
        raise PgError("XX000", f"could not open relation with OID {oid}")
    if rel.kind != "S":
        detail = f"This operation is not supported for {_KINDS[rel.kind]}."
        raise PgError("42809", f'cannot open relation "{rel.name}"', detail=detail)
    masks = [acl.mask_of(privilege) for privilege in privileges]
    if not any(acl.relation_mask(session, rel, session.role, mask) == mask for mask in masks):
        raise PgError("42501", f"permission denied for sequence {rel.name}")
    return rel, one(session, pg_sequence, seqrelid=oid)


def _require_writable(session: Session, sequence: Relation, what: str) -> None:
    """A transaction that only reads may still move the session's own temporary sequences."""
    if sequence.persistence != "t":
        require_writable(session, what)


@implements("nextval_oid", context=True)
def nextval(call: Call, oid: int) -> int:
    return _next(call.session, oid, *_sequence(call.session, oid, "USAGE", "UPDATE"))


@implements("nextval_identity", context=True)
def nextval_identity(call: Call, oid: int) -> int:
    """nextval for an identity column, which needs only the privilege to insert the row (NextValueExpr)."""
    return _next(call.session, oid, relation(call.session, oid), one(call.session, pg_sequence, seqrelid=oid))


def _next(session: Session, oid: int, rel: Relation, row: pg_sequence | None) -> int:
    _require_writable(session, rel, "nextval()")
    if session.transaction.keeps_pending:
        row = position(session, oid)
    assert row is not None
    value = row.seqstart if row.last_value is None else row.last_value
    if row.is_called:
        value += row.seqincrement
        up = row.seqincrement > 0
        if value > row.seqmax if up else value < row.seqmin:
            if not row.seqcycle:
                raise _exhausted(rel, row)
            value = row.seqmin if up else row.seqmax
    move(session, oid, value, True)
    mine = used(session)
    mine.values[oid], mine.last = value, oid
    return value


def reserve(session: Session, oid: int, count: int) -> tuple[int, int]:
    """The next `count` numbers at once: the first, and the step to the next. A session that does not hold the write
    lock takes it for just this."""
    if not session.transaction.is_writing:
        apart = session.elsewhere(session.database_oid, session.role, apart=True)
        try:
            apart.transaction.begin_statement(writes=True)
            reserved = reserve(apart, oid, count)
            apart.transaction.end_statement()
        finally:
            apart.close()
        session.forget(pg_sequence)
        first, step = reserved
        mine = used(session)
        mine.values[oid], mine.last = first + step * (count - 1), oid
        return reserved
    sequence, row = relation(session, oid), one(session, pg_sequence, seqrelid=oid)
    assert row is not None
    first = row.seqstart if row.last_value is None else row.last_value
    if row.is_called:
        first += row.seqincrement
    last = first + row.seqincrement * (count - 1)
    if last > row.seqmax if row.seqincrement > 0 else last < row.seqmin:
        if row.seqcycle:
            raise unsupported(f'sequence "{sequence.name}" going round within one statement of Spark\'s')
        raise _exhausted(sequence, row)
    move(session, oid, last, True)
    mine = used(session)
    mine.values[oid], mine.last = last, oid
    return first, row.seqincrement


def _exhausted(rel: Relation, row: pg_sequence) -> PgError:
    edge, limit = ("maximum", row.seqmax) if row.seqincrement > 0 else ("minimum", row.seqmin)
    return PgError("2200H", f'nextval: reached {edge} value of sequence "{rel.name}" ({limit})')


@implements("pg_get_sequence_data", context=True)
def pg_get_sequence_data(call: Call, oid: int) -> tuple[Any, ...]:
    """Value and position of a sequence; NULLs if there is none, or the role may not read it."""
    session = call.session
    rel = relation_or_none(session, oid)
    if rel is None or rel.kind != "S" or not acl.has_table_privilege(session, rel, "SELECT"):
        return None, None, None
    row = position(session, oid)
    return (None, None, None) if row is None else (row.last_value, bool(row.is_called), current_lsn(session))


@implements("currval_oid", context=True)
def currval(call: Call, oid: int) -> int:
    sequence, _ = _sequence(call.session, oid, "SELECT", "USAGE")
    value = used(call.session).values.get(oid)
    if value is None:
        raise PgError("55000", f'currval of sequence "{sequence.name}" is not yet defined in this session')
    return value


@implements("lastval", context=True)
def lastval(call: Call) -> int:
    mine = used(call.session)
    if mine.last is None or relation_or_none(call.session, mine.last) is None:
        raise PgError("55000", "lastval is not yet defined in this session")
    _sequence(call.session, mine.last, "SELECT", "USAGE")
    return mine.values[mine.last]


@implements("setval_oid", "setval3_oid", context=True)
def setval(call: Call, oid: int, value: int, is_called: bool = True) -> int:
    session = call.session
    sequence, row = _sequence(session, oid, "UPDATE")
    _require_writable(session, sequence, "setval()")
    if not row.seqmin <= value <= row.seqmax:
        bounds = f"({row.seqmin}..{row.seqmax})"
        raise PgError("22003", f'setval: value {value} is out of bounds for sequence "{sequence.name}" {bounds}')
    move(session, oid, value, is_called)
    if is_called:
        used(session).values[oid] = value
    return value


PAGE = 8192  # as in lake/read/extent.py, which descriptions must not import
_INDEX_PAGES = {"btree": 1, "hash": 4, "gist": 1, "gin": 2, "spgist": 3, "brin": 6}
_TOAST_THRESHOLD = 2032  # TOAST_TUPLE_THRESHOLD: longer rows are cut down
_HEADER = 23


def relation_size(session: Session, rel: Relation) -> int:
    """pg_relation_size: the main fork alone."""
    if rel.kind in "rm" and rel.system is None:
        return _rows_size(session, rel.oid)
    return _empty_size(rel) if rel.kind in "iS" else 0


def table_size(session: Session, rel: Relation) -> int:
    """pg_table_size: without the indexes of a table."""
    is_table = rel.kind in "rm" and rel.system is None
    return _empty_size(rel) + (_rows_size(session, rel.oid) if is_table else 0)


def _rows_size(session: Session, oid: int) -> int:
    from pgrepl.lake.read.extent import table_bytes

    row = one(session, pg_class, oid=oid)
    return 0 if row is None or row.table_id is None else table_bytes(session, row.table_id)


def _empty_size(rel: Relation) -> int:
    if rel.system is not None:
        return 0
    copies = 2 if rel.persistence == "u" else 1  # an unlogged relation has an init fork, too
    if rel.kind == "S":
        return PAGE * copies
    if rel.kind == "i":
        method = next(m.name for m in access_methods if m.oid == rel.access_method)
        return PAGE * copies * _INDEX_PAGES.get(method, 1)
    return PAGE * copies if rel.kind in "rm" and needs_toast(rel) else 0


def indexes_size(session: Session, rel: Relation) -> int:
    if rel.kind not in "rm":
        return 0
    return sum(_empty_size(relation(session, index.indexrelid)) for index in rows(session, pg_index, indrelid=rel.oid))


def total_size(session: Session, rel: Relation) -> int:
    return table_size(session, rel) + indexes_size(session, rel)


def database_size(session: Session, oid: int) -> int:
    """The size of a database's user relations."""
    here = [row for row in rows(session, pg_class, datid=oid) if row.relkind in "rmiS"]
    empty = sum(_empty_size(relation(session, row.oid)) for row in here) if oid == session.database_oid else 0
    return empty + sum(_rows_size(session, row.oid) for row in here if row.relkind in "rm")


def needs_toast(rel: Relation) -> bool:
    """Whether PostgreSQL would make a TOAST table (heapam_relationneeds_toast_table)."""
    length, toastable, unknown = 0, False, False
    for column in rel.columns:
        kind = type_by_oid(column.type)
        if kind is None:
            continue
        width = {"c": 1, "s": 2, "i": 4, "d": 8}[kind.align]
        length = -(-length // width) * width
        most = kind.len if kind.len > 0 else _maximum(column)
        if most < 0:
            unknown = True
        else:
            length += most
        toastable = toastable or (kind.len < 0 and column.storage != "p")
    if not toastable or unknown:
        return toastable
    bitmap = (len(rel.attributes) + 7) // 8
    return -(-(_HEADER + bitmap) // 8) * 8 + -(-length // 8) * 8 > _TOAST_THRESHOLD


def _maximum(column: Attribute) -> int:
    """The maximum size of a column's values in UTF8 (type_maximum_size); -1: unknown."""
    if column.typmod < 0:
        return -1
    if column.type in (oids.BPCHAR, oids.VARCHAR):
        return (column.typmod - 4) * 4 + 4
    if column.type == oids.NUMERIC:
        precision = ((column.typmod - 4) >> 16) & 0xFFFF
        return 8 + (precision + 6) // 4 * 2
    if column.type in (oids.BIT, oids.VARBIT):
        return (column.typmod + 7) // 8 + 8
    return -1
