"""A large batch of changes as columns: decoded in portions, kept in files.

A batch ends before a transaction with a new RELATION message of a relation that it has messages of: what follows is
another batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pgrepl.errors import Declined
from pgrepl.replication.publisher.postgres.spool import MessagePortion, Spool
from pgrepl.replication.wire import pgoutput_columns
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.file_changes import MessageFiles
from pgrepl.replication.wire.message_files import Decoded, MessageFolder, MessageWriter, is_typed, typed_array
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage
from pgrepl.replication.wire.pgoutput import CHANGES, RELATION_TYPE, RELID_AT, TRUNCATE_TYPE, ProtocolError
from pgrepl.replication.wire.pgoutput_columns import Numbers, integers
from pgrepl.replication.wire.pgoutput_read import Relations, read_relation, read_truncate

IN_FILE = 250_000  # messages of a relation
_IS_ROW = np.zeros(256, np.bool_)
_IS_ROW[[*CHANGES]] = True


class Redefined(Exception):
    """The message with this number is a new RELATION message of a relation that has messages in the batch."""

    def __init__(self, message: int) -> None:
        super().__init__(message)
        self.message = message


class Decoder:
    """Decodes portions into columns; it gets the RELATION messages before the first of them."""

    def __init__(self, data_path: str, spool: Spool, first: int = 0) -> None:
        """`data_path`: where Spark's machines find files; `first`: the number of the first message."""
        self.first = first
        self._folder = MessageFolder(data_path)
        self._relations = Relations()
        for message in spool.relations(first):
            self._relations.known |= {(found := read_relation(message, is_typed)).relid: found}
        self._writers: dict[int, MessageWriter] = {}
        self._truncates: list[tuple[int, TruncateMessage]] = []

    def take(self, portion: MessagePortion) -> None:
        """Decode messages that follow the previous ones; Declined or Redefined."""
        import pyarrow as pa

        try:
            rows = np.flatnonzero(_IS_ROW[portion.kind])
            relids = integers(portion.raw, portion.at[rows] + RELID_AT, ">u4")
            for place in np.flatnonzero((portion.kind == RELATION_TYPE) | (portion.kind == TRUNCATE_TYPE)).tolist():
                message = portion.data[int(portion.at[place]) :]
                if portion.kind[place] == RELATION_TYPE:
                    before = relids[: np.searchsorted(rows, place)]
                    self._learn(read_relation(message, is_typed), portion.first + place, before)
                else:
                    self._truncates.append((portion.first + place, read_truncate(message, self._relations)))
            self._decode(portion, rows, relids)
        except (pa.ArrowInvalid, ProtocolError) as problem:
            raise Declined(str(problem)) from problem

    def _learn(self, relation: SentRelation, message: int, before: Numbers) -> None:
        """`before`: the relations of the rows that stand before it in its portion."""
        known = self._relations.known.get(relation.relid)
        if known is not None and known != relation and (relation.relid in before or self._has_messages_of(known)):
            raise Redefined(message)
        self._relations.known[relation.relid] = relation

    def _has_messages_of(self, relation: SentRelation) -> bool:
        return relation.relid in self._writers or any(relation in each.relations for _, each in self._truncates)

    def _decode(self, portion: MessagePortion, rows: npt.NDArray[Any], relids: Numbers) -> None:
        for relid in _distinct(relids):
            chosen = rows[relids == relid]
            writer = self._writers.get(relid)
            if writer is None:
                writer = self._writers[relid] = self._writer(self._relations.of(relid))
            made = pgoutput_columns.changes(portion.raw, portion.at[chosen], writer.relation)
            writer.write(chosen + portion.first, _typed(made, writer.relation))

    def close(self) -> tuple[list[MessageFiles], tuple[tuple[int, TruncateMessage], ...]]:
        found = [MessageFiles(each.relation, each.close()) for each in self._writers.values()]
        return found, tuple(self._truncates)

    def _writer(self, relation: SentRelation) -> MessageWriter:
        return MessageWriter(relation, self._folder.path(relation), IN_FILE)

    def forget(self) -> None:
        """Remove the files."""
        for writer in self._writers.values():
            writer.abandon()
        self._folder.close()


def _typed(made: Decoded, relation: SentRelation) -> Decoded:
    """Values in the types of their columns."""
    columns = relation.columns
    new = [typed_array(column, texts) for column, texts in zip(columns, made.new, strict=True)]
    return replace(made, new=new, old={place: typed_array(columns[place], each) for place, each in made.old.items()})


def _distinct(numbers: Numbers) -> list[int]:
    """Each once; np.unique would hash them all, where most often there is only one."""
    found: list[int] = []
    while len(numbers):
        found.append(int(numbers[0]))
        numbers = numbers[numbers != numbers[0]]
    return found


def decoded(data_path: str, spool: Spool, first: int, until: int) -> Decoder:
    """Decode the messages with these numbers; raises Declined or Redefined."""
    decoder = Decoder(data_path, spool, first)
    try:
        for portion in spool.portions(first, until):
            decoder.take(portion)
    except BaseException:
        decoder.forget()
        raise
    return decoder


def batch_of(decoder: Decoder, spool: Spool, first: int, until: int) -> WireBatch:
    """The decoded messages as a batch of the spool's transactions from `first` on and before `until`."""
    files, truncates = decoder.close()
    return WireBatch(spool.transactions[first:until], tuple(files), truncates, decoder.forget)


__all__ = ["Decoder", "Redefined", "batch_of", "decoded"]
