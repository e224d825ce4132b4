"""A foreign key as its triggers know it (RI_ConstraintInfo), and the foreign keys of and to a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.catalog import store
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.tables import pg_constraint
from pgrepl.catalog.triggers import DELETE, INSERT, UPDATE, fires_key_action, fires_key_check
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.rows.checks_text import foreign_key_values

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session

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
    )


def foreign_key(session: Session, oid: int) -> ForeignKey:
    row = store.one(session, pg_constraint, oid=oid)
    if row is None:
        raise PgError("XX000", f"cache lookup failed for constraint {oid}")
    return _made(row)


def keys_of(session: Session, relid: int) -> list[ForeignKey]:
    """The foreign keys of a table, in the order of their triggers, as far as those are enabled. A key to a partitioned
    table has a row of pg_constraint for each partition there; only the one for the whole table checks."""
    own = {row.oid: row for row in store.rows(session, pg_constraint, conrelid=relid, contype="f")}
    return [
        _made(row)
        for oid, row in sorted(own.items())
        if row.conparentid not in own and any(fires_key_check(session, oid, event) for event in (INSERT, UPDATE))
    ]


def keys_to(session: Session, relid: int) -> list[ForeignKey]:
    """The foreign keys to a table, in the order of their triggers, as far as those are enabled. A key of a partitioned
    table has a row of pg_constraint for each partition there; only the one of the whole table acts."""
    found: list[ForeignKey] = []
    for row in sorted(store.rows(session, pg_constraint, confrelid=relid, contype="f"), key=lambda row: row.oid):
        if not any(fires_key_action(session, row.oid, event) for event in (DELETE, UPDATE)):
            continue
        parent = store.one(session, pg_constraint, oid=row.conparentid) if row.conparentid else None
        if parent is None or parent.conrelid == row.conrelid:
            found.append(_made(row))
    return found


def key_values(row: Row, columns: Sequence[int]) -> tuple[Any, ...]:
    return tuple([row[number - 1] for number in columns])


# --- messages (ri_ReportViolation) ------------------------------------------------------------------------------------


def _key_text(session: Session, rel: Relation, columns: Sequence[int], row: Row, rest: Callable[[str], str]) -> str:
    shown = foreign_key_values(session, rel, columns, lambda number: row[number - 1])
    return rest("Key" if shown is None else f"Key ({shown[0]})=({shown[1]})")


def not_present(session: Session, key: ForeignKey, rel: Relation, row: Row) -> PgError:
    """The error for a row of the referencing table `rel` whose key does not exist."""
    other = relation(session, key.referenced)
    return PgError(
        "23503",
        f'insert or update on table "{rel.name}" violates foreign key constraint "{key.name}"',
        detail=_key_text(
            session, rel, key.columns, row, lambda words: f'{words} is not present in table "{other.name}".'
        ),
        schema=rel.schema,
        table=rel.name,
        constraint=key.name,
    )


def mixed_nulls(key: ForeignKey, rel: Relation) -> PgError:
    return PgError(
        "23503",
        f'insert or update on table "{rel.name}" violates foreign key constraint "{key.name}"',
        detail="MATCH FULL does not allow mixing of null and nonnull key values.",
        schema=rel.schema,
        table=rel.name,
        constraint=key.name,
    )


def still_referenced(session: Session, key: ForeignKey, row: Row) -> PgError:
    """The error for a row of the referenced table that cannot be deleted or updated because it is referenced."""
    rel, other = relation(session, key.referenced), relation(session, key.referencing)
    return PgError(
        "23503",
        f'update or delete on table "{rel.name}" violates foreign key constraint "{key.name}" on table "{other.name}"',
        detail=_key_text(
            session,
            rel,
            key.referenced_columns,
            row,
            lambda words: f'{words} is still referenced from table "{other.name}".',
        ),
        schema=other.schema,
        table=other.name,
        constraint=key.name,
    )
