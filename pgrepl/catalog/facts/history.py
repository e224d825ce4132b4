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
_SUFFIXES = "_history", "_history_changes"  # of a history, and of the log behind it if that is a view


def names(table: Relation) -> tuple[str, str]:
    """The name of a table's history, and of the log behind it if that is a view."""
    shown, behind = (table.name + suffix for suffix in _SUFFIXES)
    if len(behind.encode()) > _MOST:
        raise PgError("42622", f'name "{behind}" of the history of table "{table.qualified_name}" is too long')
    return shown, behind


def is_log(rel: Relation) -> bool:
    """Has the relation the columns of a log?"""
    return rel.kind == "r" and all(rel.attribute(name) is not None for name, _ in OWN)


def log_of(session: Session, table: Relation) -> Relation | None:
    """The log of a table; None: its past is not kept."""
    for suffix in reversed(_SUFFIXES):
        log = in_schema(session, table, table.name + suffix)
        if log is not None and is_log(log):
            return log
    return None


def table_of(session: Session, log: Relation) -> Relation | None:
    """The table whose changes a log has; None: there is none of this name."""
    for suffix in reversed(_SUFFIXES):
        table = in_schema(session, log, log.name.removesuffix(suffix)) if log.name.endswith(suffix) else None
        if table is not None and table.kind in ("r", "p"):
            return table
    return None


def in_schema(session: Session, table: Relation, name: str) -> Relation | None:
    """The relation with this name in the table's schema."""
    oid = oid_in_schema(session, table.namespace, name)
    return None if oid is None else relation(session, oid)


def key_names(session: Session, table: Relation) -> tuple[list[str], bool]:
    """The columns by which changes find a row of the table, and whether they are those of a key."""
    index = identity_or_primary_key(session, table)
    if index is None:
        return [column.name for column in table.stored], False
    numbers = index.indkey[: index.indnkeyatts]
    return [table.attributes[number - 1].name for number in numbers], True


def versions_sql(session: Session, table: Relation, log: Relation, *, places: bool = False) -> str:
    """The query for the versions of a table's rows. A TRUNCATE ends all that are before it. What a transaction changes
    again itself was never valid. `places`: show those, too, and by which row of the log a version begins."""
    keys, has_key = key_names(session, table)
    own = {name for name, _ in OWN}
    shown = [column.name for column in log.columns if column.name not in own and not _is_old(column.name, log)]
    columns = ", ".join(map(quote_identifier, shown))
    begun = ", lsn, change" if places else ""
    versions = (_of_keys if has_key else _of_rows)(keys, shown)
    return (
        f"WITH c AS (SELECT *, count(*) FILTER (WHERE operation = 'truncate') OVER (ORDER BY lsn, change) AS _round"
        f" FROM {quote_qualified(log.schema, log.name)}), {versions},"
        f" e AS (SELECT lsn AS _emptied_lsn, committed_at AS _emptied_at, _round - 1 AS _before"
        f" FROM c WHERE operation = 'truncate')"
        f" SELECT committed_at AS valid_from, coalesce(_ended_at, _emptied_at) AS valid_to,"
        f" lsn AS valid_from_lsn, coalesce(_ended_lsn, _emptied_lsn) AS valid_to_lsn{begun}, {columns}"
        f" FROM v LEFT JOIN e ON _before = _round"
        f"{'' if places else ' WHERE lsn IS DISTINCT FROM coalesce(_ended_lsn, _emptied_lsn)'}"
    )


def _of_keys(keys: Sequence[str], shown: Sequence[str]) -> str:
    """A version ends with the next change that has its key."""
    columns = ", ".join(map(quote_identifier, shown))
    numbers = ", ".join(f"_k{n}" for n in range(len(keys)))
    named = [
        ", ".join(f"{quote_identifier(prefix + name)} AS _k{n}" for n, name in enumerate(keys)) for prefix in ("", OLD)
    ]
    at = "lsn, change, committed_at, _round"
    return (
        f"k AS (SELECT {at}, true AS _opens, {named[0]}, {columns} FROM c"
        f" WHERE operation IN ('copy', 'insert', 'update')"
        f" UNION ALL SELECT {at}, false, {named[1]}, {columns} FROM c WHERE operation IN ('update', 'delete')),"
        f" n AS (SELECT {at}, _opens, {columns},"
        f" lead(lsn) OVER w AS _ended_lsn, lead(committed_at) OVER w AS _ended_at"
        f" FROM k WINDOW w AS (PARTITION BY _round, {numbers} ORDER BY lsn, change, _opens)),"
        f" v AS (SELECT * FROM n WHERE _opens)"
    )


def _of_rows(names: Sequence[str], shown: Sequence[str]) -> str:
    """Rows that are alike: the first version ends with the first change of such a row, the second with the second."""
    every, old = (", ".join(quote_identifier(f"{prefix}{name}") for name in names) for prefix in ("", OLD))
    same = " AND ".join(f"o.{quote_identifier(n)} IS NOT DISTINCT FROM d.{quote_identifier(OLD + n)}" for n in names)
    columns, of_o = (", ".join(f"{prefix}{quote_identifier(name)}" for name in shown) for prefix in ("", "o."))
    return (
        f"o AS (SELECT lsn, change, committed_at, _round, {columns},"
        f" row_number() OVER (PARTITION BY _round, {every} ORDER BY lsn, change) AS _number"
        f" FROM c WHERE operation IN ('copy', 'insert', 'update')),"
        f" d AS (SELECT lsn, committed_at, _round, {old},"
        f" row_number() OVER (PARTITION BY _round, {old} ORDER BY lsn, change) AS _number"
        f" FROM c WHERE operation IN ('update', 'delete')),"
        f" v AS (SELECT o.lsn, o.change, o.committed_at, o._round, {of_o},"
        f" d.lsn AS _ended_lsn, d.committed_at AS _ended_at"
        f" FROM o LEFT JOIN d ON o._round = d._round AND o._number = d._number AND {same})"
    )


def _is_old(name: str, log: Relation) -> bool:
    return name.startswith(OLD) and log.attribute(name.removeprefix(OLD)) is not None


def missing_columns(table: Relation, log: Relation | None, keys: Sequence[str]) -> list[tuple[str, str]]:
    """The columns that a log of the table lacks, with the table's column of the same type."""
    wanted = [(OLD + name, name) for name in keys] + [(column.name, column.name) for column in table.stored]
    return [(name, of) for name, of in wanted if log is None or log.attribute(name) is None]
