"""The changes of a published table as rows of a stream, in parts for tasks.

A row has the published columns, and what change it is:

| column | |
| --- | --- |
| `_operation` | insert, update, delete or truncate |
| `_lsn` | of the commit, as PostgreSQL prints it |
| `_seq` | orders all rows of the stream |
| `_xid`, `_commit_time` | of the transaction; NULL for rows that were there when the stream began |
| `_old` | the replica identity's old values: of a DELETE, and of an UPDATE that changes them |

A DELETE has the replica identity in the columns, too, and NULL in the others. The order of rows is that of `_seq`, not
that of the DataFrame, whose parts are read side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.api.datasource.options import ShownColumn, SourceOptions
from pgrepl.api.datasource.table_rows import GivenRows, Part, parts_of, published_table, source_of, stream_of
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import np, pa
from pgrepl.replication.publisher.lake.stream import ChangeError, MessageStream
from pgrepl.replication.publisher.lake.stream_columns import stretches
from pgrepl.replication.publisher.lake.table_changes import RANK_BITS
from pgrepl.replication.publisher.plan import ReplicaIdentity
from pgrepl.replication.wire.batch import DELETE, INSERT, UPDATE
from pgrepl.replication.wire.messages import Message
from pgrepl.sql.keywords import quote_qualified
from pgrepl.types.plain import lsn_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session
    from pgrepl.replication.publisher.lake.stream_columns import SentRange, SentStretch

    Numbers = npt.NDArray[Any]

EXTRA = {"_operation": "STRING", "_lsn": "STRING", "_seq": "BIGINT", "_xid": "BIGINT", "_commit_time": "TIMESTAMP"}
OLD = "_old"

_ROWS = 50_000  # of a batch
_EPOCH = 946_684_800_000_000  # 2000-01-01 in microseconds since 1970


@frozen
class ChangesSource:
    """A published table, as it is now. `keys` are the published columns of its replica identity."""

    table: Relation
    publication: str
    columns: tuple[ShownColumn, ...]
    keys: tuple[ShownColumn, ...]


def changes_source(session: Session, options: SourceOptions) -> ChangesSource:
    publication = options.get("publication")
    if publication is None:
        raise PgError(
            "22023", "a stream needs the option \"publication\"", hint='Add .option("publication", "name").'
        )  # fmt: skip
    table = published_table(session, publication, options.get("table"))
    source = source_of(session, options.get("table"), publication)
    identity = ReplicaIdentity.of(session, table)
    columns = source.columns
    keys = tuple([c for c in columns if identity.covers(source.attnum(c.name))])
    for column in columns:
        if column.name in EXTRA or column.name == OLD:
            raise PgError("42701", f'column "{column.name}" has the name of a column that the stream adds')
    return ChangesSource(table, publication, columns, keys)


# --- parts -----------------------------------------------------------------------------------------------------------


@frozen
class CopiedRows:
    """Rows that were there when the stream began."""

    part: Part
    keys: tuple[ShownColumn, ...]
    lsn: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.part.batches():
            yield _with_extra(
                batch, self.keys, ["insert"] * batch.num_rows, [lsn_text(self.lsn)] * batch.num_rows,
                [self.lsn << RANK_BITS] * batch.num_rows, None, None, None,
            )  # fmt: skip


@frozen
class ChangedRows:
    """Changes that a task reads. By transaction: last sequence numbers, LSNs, XIDs and times of their commits."""

    range: SentRange
    first: int
    columns: tuple[ShownColumn, ...]
    keys: tuple[ShownColumn, ...]
    last_seqs: Numbers
    lsns: Numbers
    xids: Numbers
    times: Numbers

    def batches(self) -> Iterator[pa.RecordBatch]:
        words = {INSERT: "insert", UPDATE: "update", DELETE: "delete"}
        relation = self.range.source.relation
        seq, decoded = self.range.read()
        if not len(seq):
            return
        deleted = decoded.op == DELETE
        places = {column.name: place for place, column in enumerate(relation.columns)}
        new_at, old_at = np.cumsum(~deleted) - 1, np.cumsum(decoded.has_old) - 1
        at = np.searchsorted(self.last_seqs, seq)
        for start in range(0, len(seq), _ROWS):
            here = np.arange(start, min(start + _ROWS, len(seq)))
            arrays = []
            for column in self.columns:
                place = places[column.name]
                old = decoded.old.get(place)
                arrays.append(column.shown(_chosen(decoded.new[place], old, deleted[here], new_at[here], old_at[here])))
            olds = []
            for column in self.keys:
                old = decoded.old.get(places[column.name])
                index = pa.array(old_at[here], mask=~decoded.has_old[here])
                olds.append(column.shown(pa.nulls(len(here), decoded.new[places[column.name]].type)
                                         if old is None else old.take(index)))  # fmt: skip
            batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self.columns])
            yield _with_extra(
                batch, self.keys, [words[int(op)] for op in decoded.op[here]],
                [lsn_text(int(lsn)) for lsn in self.lsns[at[here]]], seq[here] + (self.first << RANK_BITS),
                self.xids[at[here]], self.times[at[here]] + _EPOCH, (olds, decoded.has_old[here]),
            )  # fmt: skip


def _chosen(new: pa.Array, old: pa.Array | None, deleted: Numbers, new_at: Numbers, old_at: Numbers) -> pa.Array:
    """The new value of each row, or the old one of a deleted row; NULL if that is not known."""
    if not deleted.any():
        return new.take(pa.array(new_at))
    if old is None:
        return new.take(pa.array(np.maximum(new_at, 0), mask=deleted))
    both = pa.concat_arrays([new, old.cast(new.type) if old.type != new.type else old])
    return both.take(pa.array(np.where(deleted, len(new) + old_at, new_at)))


def _with_extra(
    batch: pa.RecordBatch, keys: Sequence[ShownColumn], operations: Sequence[str], lsns: Sequence[str],
    seqs: Sequence[int] | Numbers, xids: Sequence[int | None] | Numbers | None,
    times: Sequence[int | None] | Numbers | None, old: tuple[list[pa.Array], Numbers] | None,
) -> pa.RecordBatch:  # fmt: skip
    """A batch of the table's columns with the columns that say what change a row is."""
    count = batch.num_rows
    arrays = [
        *batch.columns,
        pa.array(operations, pa.string()),
        pa.array(lsns, pa.string()),
        pa.array(seqs, pa.int64()),
        pa.nulls(count, pa.int64()) if xids is None else pa.array(xids, pa.int64()),
        pa.nulls(count, _moment()) if times is None else pa.array(times, pa.int64()).cast(_moment()),
    ]
    names = [*batch.schema.names, *EXTRA]
    if keys:
        fields = [pa.field(key.name, key.arrow()) for key in keys]
        if old is None:
            arrays.append(pa.nulls(count, pa.struct(fields)))
        else:
            olds = [
                array.cast(f.type) if array.type != f.type else array for array, f in zip(old[0], fields, strict=True)
            ]
            arrays.append(pa.StructArray.from_arrays(olds, fields=fields, mask=pa.array(~old[1])))
        names.append(OLD)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _moment() -> pa.DataType:
    return pa.timestamp("us", "UTC")


# --- planning --------------------------------------------------------------------------------------------------------


def copy_parts(session: Session, source: ChangesSource, end: int, wanted: int | None) -> list[CopiedRows]:
    """The published rows as they were before `end`."""
    of = source_of(session, quote_qualified(source.table.schema, source.table.name), source.publication)
    names = [column.name for column in source.columns]
    parts = parts_of(session, of, names, wanted, snapshot=end - 1)
    return [CopiedRows(part, source.keys, end - 1) for part in parts]


def change_parts(session: Session, source: ChangesSource, start: int, end: int) -> list[ChangedRows | GivenRows]:
    """The changes of transactions that finish at `start` or later and before `end`."""
    parts: list[ChangedRows | GivenRows] = []
    for stretch in stretches(session, [source.publication], source.table.oid, start, end):
        if stretch.ranges is None:
            parts += _messages(session, source, stretch)
            continue
        if stretch.truncates:
            parts.append(_truncates(source, stretch))
        parts += [_part(source, stretch, sent) for sent in stretch.ranges]
    return parts


def _part(source: ChangesSource, stretch: SentStretch, sent: SentRange) -> ChangedRows:
    relation = sent.source.relation
    _check_columns(source, [(c.name, c.type, c.typmod) for c in relation.columns])
    transactions = stretch.transactions
    return ChangedRows(
        sent,
        stretch.first,
        source.columns,
        source.keys,
        np.array([transaction.last_seq for transaction in transactions], np.int64),
        np.array([transaction.finish_lsn for transaction in transactions], np.int64),
        np.array([transaction.xid for transaction in transactions], np.int64),
        np.array([transaction.committed_at for transaction in transactions], np.int64),
    )


def _check_columns(source: ChangesSource, sent: Sequence[tuple[str, int, int]]) -> None:
    """Raise if the table had other columns when it changed than the stream has."""
    known = {(column.name, column.typoid, column.typmod) for column in source.columns}
    if set(sent) != known:
        raise PgError(
            "55000",
            f'the published columns of table "{source.table.qualified_name}" have changed since the stream began',
            detail=f"They were {', '.join(sorted(name for name, _, _ in sent))}; the stream has "
            f"{', '.join(sorted(name for name, _, _ in known))}.",
            hint="Restart the stream with another checkpoint and another slot.",
        )


def _truncates(source: ChangesSource, stretch: SentStretch) -> GivenRows:
    rows = [
        (None, None, "truncate", t.finish_lsn, seq + (stretch.first << RANK_BITS), t.xid, t.committed_at)
        for seq, t in stretch.truncates
    ]
    return _given(source, rows)


def _messages(session: Session, source: ChangesSource, stretch: SentStretch) -> Iterator[GivenRows]:
    """The changes of a stretch, read here message by message."""
    first, last = stretch.transactions[0], stretch.transactions[-1]
    stream = MessageStream(session, [source.publication], local_only=False)
    names = [column.name for column in source.columns]
    rows: list[Any] = []
    try:
        for transaction in stream.transactions(first.finish_lsn, last.end_lsn):
            seq = transaction.finish_lsn << RANK_BITS
            told = transaction.finish_lsn, transaction.xid, transaction.committed_at
            for message in transaction.messages:
                seq += 1
                lsn, xid, time = told
                if not isinstance(message, Message):
                    if any(rel.relid == source.table.oid for rel in message.relations):
                        rows.append((None, None, "truncate", lsn, seq, xid, time))
                    continue
                if message.relation.relid != source.table.oid:
                    continue
                columns = message.relation.columns
                _check_columns(source, [(c.name, c.type, c.typmod) for c in columns])
                place = {column.name: n for n, column in enumerate(columns)}
                new = message.new if message.new is not None else message.old
                assert new is not None
                old = message.old
                rows.append((
                    [new[place[name]] for name in names],
                    None if old is None else [old[place[key.name]] for key in source.keys],
                    message.operation, lsn, seq, xid, time,
                ))  # fmt: skip
                if len(rows) >= _ROWS:
                    yield _given(source, rows)
                    rows = []
    except ChangeError as problem:
        raise problem.error from problem
    if rows:
        yield _given(source, rows)


def _given(source: ChangesSource, rows: Sequence[Any]) -> GivenRows:
    """Changes as (new values, old key, operation, LSN, sequence number, XID, time of the commit)."""

    def array(column: ShownColumn, values: list[Any]) -> pa.Array:
        return column.shown(column.array_of(values))

    arrays = [
        array(column, [None if row[0] is None else row[0][n] for row in rows])
        for n, column in enumerate(source.columns)
    ]
    olds = [
        array(column, [None if row[1] is None else row[1][n] for row in rows]) for n, column in enumerate(source.keys)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in source.columns])
    whole = _with_extra(
        batch, source.keys, [row[2] for row in rows], [lsn_text(row[3]) for row in rows], [row[4] for row in rows],
        [row[5] for row in rows], [row[6] + _EPOCH for row in rows],
        (olds, np.array([row[1] is not None for row in rows], np.bool_)),
    )  # fmt: skip
    return stream_of([whole])
