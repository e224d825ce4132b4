"""A large batch of changes as columns: decoded in portions, kept in files.

A batch ends before a transaction in which a relation is described anew: what comes behind it is another batch.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from pgrepl.engine import Declined
from pgrepl.lake import spill_folders
from pgrepl.replication.publisher.postgres.spool import MessagePortion, Spool
from pgrepl.replication.wire import pgoutput_columns
from pgrepl.replication.wire.batch import WireBatch
from pgrepl.replication.wire.message_files import MessageFile, MessageWriter, is_typed
from pgrepl.replication.wire.messages import SentRelation, TruncateMessage
from pgrepl.replication.wire.pgoutput import CHANGES, RELATION_TYPE, RELID_AT, TRUNCATE_TYPE, ProtocolError
from pgrepl.replication.wire.pgoutput_columns import Numbers, integers
from pgrepl.replication.wire.pgoutput_read import Relations, read_relation, read_truncate

_IS_ROW = np.zeros(256, np.bool_)
_IS_ROW[[*CHANGES]] = True


class Redefined(Exception):
    """A relation is described anew by the message with this number."""

    def __init__(self, message: int) -> None:
        super().__init__(message)
        self.message = message


class Decoder:
    """Portions become columns. It is told how relations were described before the first of them."""

    def __init__(self, data_path: str, spool: Spool, first: int = 0) -> None:
        """`data_path`: where Spark's machines find files; `first`: the number of the first message."""
        self.first = first
        self._data_path = data_path
        self._stack = ExitStack()
        self._folder = spill_folders.make(spill_folders.CHANGES)
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._shared: str | None = None
        self._relations = Relations()
        for message in spool.relations(first):
            self._relations.known |= {(found := read_relation(message, is_typed)).relid: found}
        self._writers: dict[int, MessageWriter] = {}
        self._truncates: list[tuple[int, TruncateMessage]] = []

    def take(self, portion: MessagePortion) -> None:
        """Messages that follow those before; Declined or Redefined."""
        import pyarrow as pa

        try:
            for place in np.flatnonzero((portion.kind == RELATION_TYPE) | (portion.kind == TRUNCATE_TYPE)).tolist():
                message = portion.data[int(portion.at[place]) :]
                if portion.kind[place] == RELATION_TYPE:
                    self._learn(read_relation(message, is_typed), portion.first + place)
                else:
                    self._truncates.append((portion.first + place, read_truncate(message, self._relations)))
            rows = np.flatnonzero(_IS_ROW[portion.kind])
            if len(rows):
                self._decode(portion, rows)
        except (pa.ArrowInvalid, ProtocolError) as problem:
            raise Declined(str(problem)) from problem

    def _learn(self, relation: SentRelation, message: int) -> None:
        known = self._relations.known.get(relation.relid)
        if known is not None and known != relation:
            raise Redefined(message)
        self._relations.known[relation.relid] = relation

    def _decode(self, portion: MessagePortion, rows: npt.NDArray[Any]) -> None:
        relids = integers(portion.raw, portion.at[rows] + RELID_AT, ">u4")
        for relid in _distinct(relids):
            chosen = rows[relids == relid]
            writer = self._writers.get(relid)
            if writer is None:
                writer = MessageWriter(self._relations.of(relid), f"{self._folder}/{relid}.arrow")
                self._writers[relid] = writer
            made = pgoutput_columns.changes(portion.raw, portion.at[chosen], writer.relation)
            writer.write(chosen + portion.first, made)

    def close(self) -> tuple[list[MessageFile], tuple[tuple[int, TruncateMessage], ...]]:
        return [writer.close(self._new_path) for writer in self._writers.values()], tuple(self._truncates)

    def _new_path(self) -> str:
        from pgrepl.lake.spark_result import result_folder
        from pgrepl.lake.storage import new_name

        if self._shared is None:
            self._shared = self._stack.enter_context(result_folder(self._data_path))
        return self._shared + new_name()

    def forget(self) -> None:
        """The files are needed no more."""
        for writer in self._writers.values():
            writer.abandon()
        self._stack.close()


def _distinct(numbers: Numbers) -> list[int]:
    """Each once; np.unique would hash them all, where most often there is only one."""
    found: list[int] = []
    while len(numbers):
        found.append(int(numbers[0]))
        numbers = numbers[numbers != numbers[0]]
    return found


def decoded(data_path: str, spool: Spool, first: int, until: int) -> Decoder:
    """The messages of these numbers; Declined or Redefined."""
    decoder = Decoder(data_path, spool, first)
    try:
        for portion in spool.portions(first, until):
            decoder.take(portion)
    except BaseException:
        decoder.forget()
        raise
    return decoder


def batch_of(decoder: Decoder, spool: Spool, first: int, until: int) -> WireBatch:
    """What was decoded, as transactions number `first` to `until` of the spool."""
    files, truncates = decoder.close()
    return WireBatch(spool.transactions[first:until], tuple(files), truncates, decoder.forget)


__all__ = ["Decoder", "Redefined", "batch_of", "decoded"]
