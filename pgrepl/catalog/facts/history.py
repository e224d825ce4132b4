"""The log of a subscribed table's changes, from which its past is told (the subscription parameter history).

With `changes` the table t has the log t_history. With `versions` the log is t_history_changes, and t_history is a view
of it that shows each version of a row with the time and the LSNs between which it was valid. A log is an ordinary
table, found by its name: it may be queried, published, dumped and kept when the subscription is gone.

    operation       copy, insert, update, delete or truncate
    lsn             where the publisher's transaction ends, committed_at: when, xid: its number
    change          rises within the transaction; of rows that were copied it is negative
    old_…           the key by which the row was found that was updated or deleted
    …               the table's columns, of the new row
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.facts.relation import Relation, oid_in_schema, relation
from pgrepl.catalog.facts.relation_parts import identity_or_primary_key
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier, quote_qualified

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

OWN = (
    ("operation", "text"),
    ("lsn", "pg_lsn"),
    ("committed_at", "timestamptz"),
    ("xid", "bigint"),
    ("change", "bigint"),
)
VALIDITY = ("valid_from", "valid_to", "valid_from_lsn", "valid_to_lsn")
COPY = "copy"  # the operation of a row with which the history begins
OLD = "old_"
OPTION = "pgrepl.history"  # the storage parameter of one table
_MOST = 63  # bytes of a name


def names(table: Relation) -> tuple[str, str]:
    """The name of a table's history, and of the log behind it if that is a view."""
    found = f"{table.name}_history", f"{table.name}_history_changes"
    if len(found[1].encode()) > _MOST:
        raise PgError("42622", f'name "{found[1]}" of the history of table "{table.qualified_name}" is too long')
    return found


def is_log(found: Relation) -> bool:
    """Has the relation the columns of a log?"""
    return found.kind == "r" and all(found.attribute(name) is not None for name, _ in OWN)


def log_of(session: Session, table: Relation) -> Relation | None:
    """The log of a table; None: its past is not kept."""
    for name in reversed((f"{table.name}_history", f"{table.name}_history_changes")):
        found = in_schema(session, table, name)
        if found is not None and is_log(found):
            return found
    return None


def in_schema(session: Session, table: Relation, name: str) -> Relation | None:
    """The relation with this name in the table's schema."""
    oid = oid_in_schema(session, table.namespace, name)
    return None if oid is None else relation(session, oid)


def key_names(session: Session, table: Relation) -> tuple[list[str], bool]:
    """The columns by which changes find a row of the table, and whether they are those of a key."""
    index = identity_or_primary_key(session, table)
    if index is None:
        return [column.name for column in table.columns], False
    numbers = index.indkey[: index.indnkeyatts]
    return [table.attributes[number - 1].name for number in numbers], True


def versions_sql(session: Session, table: Relation, log: Relation, *, places: bool = False) -> str:
    """The query for the versions of a table's rows. The first version with a key ends with the first change of it, the
    second with the second; a TRUNCATE ends all that are before it. What a transaction changes again itself was never
    valid. `places`: show also by which row of the log a version begins."""
    keys, has_key = key_names(session, table)
    own = {name for name, _ in OWN}
    shown = [each.name for each in log.columns if each.name not in own and not _is_old(each.name, log)]
    listed = ", ".join(map(quote_identifier, shown))
    key, old = (", ".join(quote_identifier(f"{prefix}{name}") for name in keys) for prefix in ("", OLD))
    equal = "=" if has_key else "IS NOT DISTINCT FROM"
    same = " AND ".join(f"o.{quote_identifier(name)} {equal} d.{quote_identifier(OLD + name)}" for name in keys)
    name = quote_qualified(log.schema, log.name)
    begun = ", o.lsn, o.change" if places else ""
    columns = ", ".join(f"o.{quote_identifier(each)}" for each in shown)
    return (
        f"WITH c AS (SELECT *, count(*) FILTER (WHERE operation = 'truncate') OVER (ORDER BY lsn, change) AS round"
        f" FROM {name}),"
        f" o AS (SELECT lsn, change, committed_at, round, {listed},"
        f" row_number() OVER (PARTITION BY round, {key} ORDER BY lsn, change) AS number"
        f" FROM c WHERE operation IN ('copy', 'insert', 'update')),"
        f" d AS (SELECT lsn, committed_at, round, {old},"
        f" row_number() OVER (PARTITION BY round, {old} ORDER BY lsn, change) AS number"
        f" FROM c WHERE operation IN ('update', 'delete')),"
        f" e AS (SELECT lsn, committed_at, round FROM c WHERE operation = 'truncate')"
        f" SELECT o.committed_at AS valid_from, coalesce(d.committed_at, e.committed_at) AS valid_to,"
        f" o.lsn AS valid_from_lsn, coalesce(d.lsn, e.lsn) AS valid_to_lsn{begun}, {columns}"
        f" FROM o LEFT JOIN d ON o.round = d.round AND o.number = d.number AND {same}"
        f" LEFT JOIN e ON e.round = o.round + 1"
        f" WHERE o.lsn IS DISTINCT FROM coalesce(d.lsn, e.lsn)"
    )


def _is_old(name: str, log: Relation) -> bool:
    return name.startswith(OLD) and log.attribute(name.removeprefix(OLD)) is not None


def missing_columns(table: Relation, log: Relation | None, keys: Sequence[str]) -> list[tuple[str, str]]:
    """The columns that a log of the table lacks, with the table's column of the same type."""
    wanted = [(OLD + name, name) for name in keys] + [(column.name, column.name) for column in table.columns]
    return [(name, of) for name, of in wanted if log is None or log.attribute(name) is None]
