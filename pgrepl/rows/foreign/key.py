"""A foreign key as its triggers know it (RI_ConstraintInfo), and the keys in error messages: only columns that the user
may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts import relation_parts
from pgrepl.catalog.facts.acl import has_column_privilege, has_table_privilege
from pgrepl.catalog.facts.relation import Attribute, Relation, relation
from pgrepl.catalog.facts.triggers import DELETE, INSERT, UPDATE, fires_key_action, fires_key_check
from pgrepl.catalog.store import store
from pgrepl.catalog.store.tables import pg_constraint
from pgrepl.expr.print.definitions import index_definition, partition_key_columns
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.types.builtin import opclass_by_oid, type_by_oid
from pgrepl.types.text import write_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.expr.catalog_trees import IndexInfo, PartitionKey


_LONGEST = 64  # bytes of one value


def table_error(
    rel: Relation,
    sqlstate: str,
    message: str,
    *,
    detail: str | None = None,
    column: str | None = None,
    constraint: str | None = None,
) -> PgError:
    """An error about a table (errtable, errtablecol, errtableconstraint)."""
    return PgError(
        sqlstate, message, detail=detail, schema=rel.schema, table=rel.name, column=column, constraint=constraint
    )


def value_text(session: Session, value: Any, typoid: int) -> str:
    return "null" if value is None else write_text(value, typoid, session.text_style)


def _clipped(text: str) -> str:
    data = text.encode()
    if len(data) <= _LONGEST:
        return text
    return data[:_LONGEST].decode(errors="ignore") + "..."


def _may_read(session: Session, rel: Relation, attnums: Iterable[int]) -> bool:
    """Whether the user may read the whole table, or each of these columns; an expression (0) only with the table."""
    if relation_parts.is_active(session, rel):
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
    if relation_parts.is_active(session, rel):
        return None
    everything = has_table_privilege(session, rel, "SELECT")
    shown: list[Attribute] = [
        attribute
        for attribute in rel.columns
        if everything or attribute.num in modified or has_column_privilege(session, rel, attribute.num, "SELECT")
    ]
    if not shown and not everything:
        return None
    values = ", ".join(
        "virtual" if a.generated == "v" else _clipped(value_text(session, row[a.num - 1], a.type)) for a in shown
    )
    names = "" if everything else f"({', '.join(a.name for a in shown)}) = "
    return f"{names}({values})"


def failing_partition_key(session: Session, rel: Relation, key: PartitionKey, values: Sequence[Any]) -> str | None:
    """`Partition key of the failing row contains (a) = (5).` (ExecBuildSlotPartitionKeyDescription)."""
    if not _may_read(session, rel, [column.attnum for column in key.columns]):
        return None
    texts = (
        _clipped(value_text(session, value, column.type)) for column, value in zip(key.columns, values, strict=True)
    )
    names = ", ".join(partition_key_columns(session, rel.oid))
    return f"Partition key of the failing row contains ({names}) = ({', '.join(texts)})."


def index_key(session: Session, info: IndexInfo, values: Sequence[Any]) -> str | None:
    """`Key (id)=(1)` (BuildIndexValueDescription)."""
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
    opclass_row = opclass_by_oid(opclass)
    kind = None if opclass_row is None else type_by_oid(opclass_row.intype)
    return own if opclass_row is None or kind is None or kind.typtype == "p" else opclass_row.intype


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


NO_ACTION, RESTRICT, CASCADE, SET_NULL, SET_DEFAULT = "a", "r", "c", "n", "d"

Row = tuple[Any, ...]


@frozen
class ForeignKey:
    oid: int
    name: str
    referencing: int  # the table with the key; a partitioned one includes its partitions
    referenced: int
    columns: tuple[int, ...]  # of the referencing table
    referenced_columns: tuple[int, ...]
    match_full: bool
    on_update: str
    on_delete: str
    delete_set: tuple[int, ...]
    deferrable: bool
    derived: bool  # the key of or to a partition, from that of or to the partitioned table
    period: bool  # the last columns are a PERIOD

    def concerns(self, values: Sequence[Any]) -> bool:
        """Whether a row with these values in its columns must reference another row."""
        missing = values.count(None)
        return missing < len(values) and (not missing or self.match_full)


def _made(row: pg_constraint) -> ForeignKey:
    return ForeignKey(
        oid=row.oid,
        name=row.conname,
        referencing=row.conrelid,
        referenced=row.confrelid,
        columns=tuple(row.conkey),
        referenced_columns=tuple(row.confkey or ()),
        match_full=row.confmatchtype == "f",
        on_update=row.confupdtype,
        on_delete=row.confdeltype,
        delete_set=tuple(row.confdelsetcols or ()),
        deferrable=bool(row.condeferrable),
        derived=bool(row.conparentid),
        period=bool(row.conperiod),
    )


def foreign_key(session: Session, oid: int) -> ForeignKey:
    row = store.one(session, pg_constraint, oid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for constraint {oid}")
    return _made(row)


def keys_of(session: Session, relid: int) -> list[ForeignKey]:
    """The foreign keys of a table, in the order of their triggers, as far as those are enabled. A key to a partitioned
    table has a row of pg_constraint for each partition there; only the one for the whole table checks."""
    own = {row.oid: row for row in store.rows(session, pg_constraint, conrelid=relid, contype="f") if row.conenforced}
    return [
        _made(row)
        for oid, row in sorted(own.items())
        if row.conparentid not in own and any(fires_key_check(session, oid, event) for event in (INSERT, UPDATE))
    ]


def keys_to(session: Session, relid: int) -> list[ForeignKey]:
    """The foreign keys to a table, in the order of their triggers, as far as those are enabled. A key of a partitioned
    table has a row of pg_constraint for each partition there; only the one of the whole table acts."""
    keys: list[ForeignKey] = []
    for row in sorted(store.rows(session, pg_constraint, confrelid=relid, contype="f"), key=lambda row: row.oid):
        if not row.conenforced or not any(fires_key_action(session, row.oid, event) for event in (DELETE, UPDATE)):
            continue
        parent = store.one(session, pg_constraint, oid=row.conparentid) if row.conparentid else None
        if parent is None or parent.conrelid == row.conrelid:
            keys.append(_made(row))
    return keys


def key_values(row: Row, columns: Sequence[int]) -> tuple[Any, ...]:
    return tuple([row[number - 1] for number in columns])


# --- messages (ri_ReportViolation) ------------------------------------------------------------------------------------


def _key_text(session: Session, rel: Relation, columns: Sequence[int], row: Row) -> str:
    shown = foreign_key_values(session, rel, columns, lambda number: row[number - 1])
    return "Key" if shown is None else f"Key ({shown[0]})=({shown[1]})"


def not_present(session: Session, key: ForeignKey, rel: Relation, row: Row) -> PgError:
    """The error for a row of the referencing table `rel` whose key does not exist."""
    words = _key_text(session, rel, key.columns, row)
    return _violated(key, rel, f'{words} is not present in table "{relation(session, key.referenced).name}".')


def mixed_nulls(key: ForeignKey, rel: Relation) -> PgError:
    return _violated(key, rel, "MATCH FULL does not allow mixing of null and nonnull key values.")


def _violated(key: ForeignKey, rel: Relation, detail: str) -> PgError:
    message = f'insert or update on table "{rel.name}" violates foreign key constraint "{key.name}"'
    return table_error(rel, "23503", message, detail=detail, constraint=key.name)


def still_referenced(session: Session, key: ForeignKey, row: Row, *, restrict: bool) -> PgError:
    """The error for a row of the referenced table that cannot be deleted or updated because it is referenced. 18 tells
    RESTRICT from NO ACTION."""
    rel, other = relation(session, key.referenced), relation(session, key.referencing)
    restrict = restrict and session.settings.release >= 18
    broken, still = ("RESTRICT setting of foreign key", "") if restrict else ("foreign key", "still ")
    message = (
        f'update or delete on table "{rel.name}" violates {broken} constraint "{key.name}" on table "{other.name}"'
    )
    words = _key_text(session, rel, key.referenced_columns, row)
    detail = f'{words} is {still}referenced from table "{other.name}".'
    return table_error(other, "23001" if restrict else "23503", message, detail=detail, constraint=key.name)
