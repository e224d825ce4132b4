"""The kernel that reads the changes of a table's rows with some row ids, and writes them as messages to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake.storage import uuid7
from pgrepl.replication.publisher.lake.table_changes import LakeChanges, TableChanges
from pgrepl.replication.wire.batch import DELETE
from pgrepl.replication.wire.message_files import Decoded, MessageFile, MessageWriter

if TYPE_CHECKING:
    import numpy.typing as npt

    from pgrepl.lake.changes_rows import RowIds
    from pgrepl.lake.kernels.part import PartWatch

    Numbers = npt.NDArray[Any]


@frozen
class RangeToRead:
    """`path`: the prefix of the files' names. `last_seqs`: the last sequence number of each transaction."""

    source: TableChanges
    ids: RowIds
    path: str
    last_seqs: Numbers


@frozen
class ReadRange:
    """`sends`: the places of the transactions that have messages. `made`: UPDATE and DELETE, if there are such changes,
    sent or not. `is_sure`: see TableChanges."""

    files: tuple[MessageFile, ...]
    sends: Numbers
    made: frozenset[str]
    is_sure: bool


def read_range(task: RangeToRead, watch: PartWatch) -> ReadRange:
    import numpy as np

    watch.check()
    source = task.source.alone()
    nothing = np.empty(0, np.int64)
    try:
        changes = LakeChanges(source, task.ids)
        decoded = decode(changes) if changes.count and source.is_sure else None
    except PgError as error:
        if error.is_of_machine:
            raise
        return ReadRange((), nothing, frozenset(), is_sure=False)  # messages before the failed filter must be sent
    if decoded is None:
        return ReadRange((), nothing, frozenset(source.made), source.is_sure)
    writer = MessageWriter(source.relation, f"{task.path}.{uuid7()}", 1)
    try:
        writer.write(changes.seq, decoded)
        files = writer.close()
    except BaseException:
        writer.abandon()
        raise
    sends = np.unique(np.searchsorted(task.last_seqs, changes.seq))
    return ReadRange(files, sends, frozenset(source.made), is_sure=True)


def decode(found: LakeChanges) -> Decoded:
    import numpy as np

    places = range(len(found.relation.columns))
    keys = [place for place in places if found.relation.columns[place].is_key]
    olds = found.pick(keys, np.flatnonzero(found.has_old), old=True)
    news = found.pick(places, np.flatnonzero(found.op != DELETE))
    return Decoded(found.op, found.has_old, news, dict(zip(keys, olds, strict=True)), {})
