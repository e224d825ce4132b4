"""The rows and keys in error messages: only columns that the user may read, clipped to 64 bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import row_security
from pgrepl.catalog.acl import has_column_privilege, has_table_privilege
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.types.builtin import opclass_by_oid, type_by_oid
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.expr.index_info import IndexInfo
    from pgrepl.expr.partition import PartitionKey

_LONGEST = 64  # bytes of one value


def value_text(session: Session, value: Any, typoid: int) -> str:
    return "null" if value is None else write_text(value, typoid, session.text_style)


def _clipped(text: str) -> str:
    data = text.encode()
    if len(data) <= _LONGEST:
        return text
    return data[:_LONGEST].decode(errors="ignore") + "..."


def _may_read(session: Session, rel: Relation, attnums: Iterable[int]) -> bool:
    """Whether the user may read the whole table, or each of these columns; an expression (0) only with the table."""
    if row_security.is_active(session, rel):
        return False
    return has_table_privilege(session, rel, "SELECT") or all(
        number and has_column_privilege(session, rel, number, "SELECT") for number in attnums
    )


def failing_row(session: Session, rel: Relation, row: Sequence[Any], modified: frozenset[int]) -> str | None:
    """`Failing row contains (1, null).`: the columns that the user may read or has given values for
    (ExecBuildSlotValueDescription)."""
    shown = row_text(session, rel, row, modified)
    return None if shown is None else f"Failing row contains {shown}."


def row_text(session: Session, rel: Relation, row: Sequence[Any], modified: frozenset[int] = frozenset()) -> str | None:
    """`(1, null)`, or `(a) = (1)` of the columns that the user may read or has given values for."""
    if row_security.is_active(session, rel):
        return None
    everything = has_table_privilege(session, rel, "SELECT")
    shown: list[Attribute] = [
        attribute
        for attribute in rel.columns
        if everything or attribute.num in modified or has_column_privilege(session, rel, attribute.num, "SELECT")
    ]
    if not shown and not everything:
        return None
    values = ", ".join(_clipped(value_text(session, row[a.num - 1], a.type)) for a in shown)
    names = "" if everything else f"({', '.join(a.name for a in shown)}) = "
    return f"{names}({values})"


def failing_partition_key(session: Session, rel: Relation, key: PartitionKey, values: Sequence[Any]) -> str | None:
    """`Partition key of the failing row contains (a) = (5).` (ExecBuildSlotPartitionKeyDescription)."""
    from pgrepl.expr.definitions import partition_key_columns

    if not _may_read(session, rel, [column.attnum for column in key.columns]):
        return None
    texts = (
        _clipped(value_text(session, value, column.type)) for column, value in zip(key.columns, values, strict=True)
    )
    names = ", ".join(partition_key_columns(session, rel.oid))
    return f"Partition key of the failing row contains ({names}) = ({', '.join(texts)})."


def index_key(session: Session, info: IndexInfo, values: Sequence[Any]) -> str | None:
    """`Key (id)=(1)` (BuildIndexValueDescription)."""
    from pgrepl.expr.definitions import index_definition

    if not _may_read(session, relation(session, info.table), info.columns[: info.key_count]):
        return None
    names = (index_definition(session, info.oid, number, True) for number in range(1, info.key_count + 1))
    texts = (
        value_text(session, value, _input_type(opclass, value_type))
        for value, opclass, value_type in zip(values, info.opclasses, index_types(session, info), strict=True)
    )
    return f"Key ({', '.join(str(name) for name in names)})=({', '.join(texts)})"


def index_types(session: Session, info: IndexInfo) -> list[int]:
    """The types of an index's columns."""
    rel = relation(session, info.table)
    exprs = iter(info.exprs)
    types = []
    for attnum in info.columns[: info.key_count]:
        attribute = rel.attribute_by_number(attnum) if attnum else None
        types.append(next(exprs).type if attribute is None else attribute.type)
    return types


def _input_type(opclass: int, own: int) -> int:
    """The operator class's input type; for one over a family of types, the column's own."""
    found = opclass_by_oid(opclass)
    kind = None if found is None else type_by_oid(found.intype)
    return own if found is None or kind is None or kind.typtype == "p" else found.intype


def foreign_key_values(
    session: Session, rel: Relation, attnums: Sequence[int], value: Callable[[int], Any]
) -> tuple[str, str] | None:
    """The names and values of a key; None if the user may not read them (ri_ReportViolation)."""
    if not _may_read(session, rel, attnums):
        return None
    attributes = [rel.attributes[number - 1] for number in attnums]
    return (
        ", ".join(a.name for a in attributes),
        ", ".join(value_text(session, value(a.num), a.type) for a in attributes),
    )
