"""The sizes of relations on disk: PostgreSQL's for an empty relation, and the rows of tables as the lake has them.

An empty relation has the first pages of each index, those of the TOAST table's index, and that of a sequence. There are
no indexes in the lake, so those sizes never change.
"""

from __future__ import annotations

from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.store import one, rows
from pgrepl.catalog.store.tables import pg_class, pg_index
from pgrepl.types import oids
from pgrepl.types.builtin import access_methods, type_by_oid

PAGE = 8192  # as in lake/read/extent.py, which descriptions must not import
_INDEX_PAGES = {"btree": 1, "hash": 4, "gist": 1, "gin": 2, "spgist": 3, "brin": 6}
_TOAST_THRESHOLD = 2032  # TOAST_TUPLE_THRESHOLD: longer rows are cut down
_HEADER = 23


def relation_size(session: Session, found: Relation) -> int:
    """pg_relation_size: the main fork alone."""
    if found.kind in "rm" and found.system is None:
        return _rows_size(session, found.oid)
    return _empty_size(found) if found.kind in "iS" else 0


def table_size(session: Session, found: Relation) -> int:
    """pg_table_size: without the indexes of a table."""
    is_table = found.kind in "rm" and found.system is None
    return _empty_size(found) + (_rows_size(session, found.oid) if is_table else 0)


def _rows_size(session: Session, oid: int) -> int:
    from pgrepl.lake.read.extent import table_bytes

    row = one(session, pg_class, oid=oid)
    return 0 if row is None or row.table_id is None else table_bytes(session, row.table_id)


def _empty_size(found: Relation) -> int:
    if found.system is not None:
        return 0
    copies = 2 if found.persistence == "u" else 1  # an unlogged relation has an init fork, too
    if found.kind == "S":
        return PAGE * copies
    if found.kind == "i":
        method = next(m.name for m in access_methods if m.oid == found.access_method)
        return PAGE * copies * _INDEX_PAGES.get(method, 1)
    return PAGE * copies if found.kind in "rm" and needs_toast(found) else 0


def indexes_size(session: Session, found: Relation) -> int:
    if found.kind not in "rm":
        return 0
    return sum(
        _empty_size(relation(session, index.indexrelid)) for index in rows(session, pg_index, indrelid=found.oid)
    )


def total_size(session: Session, found: Relation) -> int:
    return table_size(session, found) + indexes_size(session, found)


def database_size(session: Session, oid: int) -> int:
    """The size of a database's user relations."""
    here = [row for row in rows(session, pg_class, datid=oid) if row.relkind in "rmiS"]
    empty = sum(_empty_size(relation(session, row.oid)) for row in here) if oid == session.database_oid else 0
    return empty + sum(_rows_size(session, row.oid) for row in here if row.relkind in "rm")


def needs_toast(found: Relation) -> bool:
    """Whether PostgreSQL would make a TOAST table (heapam_relationneeds_toast_table)."""
    length, toastable, unknown = 0, False, False
    for column in found.columns:
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
    bitmap = (len(found.attributes) + 7) // 8
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
