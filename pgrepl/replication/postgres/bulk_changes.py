"""A large batch of changes: peeked once, decoded in portions, kept in files.

The batch ends before a transaction in which a relation is described anew: what comes behind it is another batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from pgrepl.lake import passing
from pgrepl.replication.bulk.batch import BulkTransaction, WireBatch
from pgrepl.replication.postgres import columns
from pgrepl.replication.postgres.changes import FIRST_ROW, ROW, peek
from pgrepl.replication.postgres.columns import Bytes, Numbers, integers
from pgrepl.replication.postgres.link import Link
from pgrepl.replication.postgres.message_files import MessageWriter, is_typed
from pgrepl.replication.postgres.pgoutput import (
    BEGIN_TYPE,
    COMMIT_TYPE,
    DELETE_TYPE,
    INSERT_TYPE,
    ORIGIN_TYPE,
    RELATION_TYPE,
    TRUNCATE_TYPE,
    UPDATE_TYPE,
    Relations,
    read_relation,
    read_truncate,
)
from pgrepl.replication.sending.wire import SentRelation, TruncateMessage

MESSAGES = 1_000_000  # of a batch; a larger transaction is one batch
_PORTION = 2 << 20  # bytes that are decoded together
_LOG_OF_CHANGE = 30  # bytes of log that a change takes at least
_relid = Struct(">I")


class Redefined(Exception):
    """A relation is described anew in the transaction with this number."""

    def __init__(self, transaction: int) -> None:
        super().__init__(transaction)
        self.transaction = transaction


def bulk(
    link: Link,
    slot: str,
    publications: Sequence[str],
    start: int,
    end: int,
    *,
    local_only: bool,
    least: int,
    data_path: str,
) -> tuple[WireBatch, int] | None:
    """See Publisher.bulk."""
    import pyarrow as pa

    if end - start < least * _LOG_OF_CHANGE:
        return None
    with ExitStack() as stack:
        batch = _Batch(stack, data_path)
        command = peek(link, slot, publications, end, MESSAGES, local_only=local_only)
        try:
            for data, at in _portions(link.copy_out(command)):
                batch.take(data, at)
        except Redefined as found:
            if not found.transaction:
                return None
            bound = batch.finish_lsn(found.transaction)
            batch.abandon()
            return bulk(link, slot, publications, start, bound, local_only=local_only, least=least, data_path=data_path)
        except pa.ArrowInvalid:
            return None
        made = batch.close(start, end) if batch.count >= least else None
        if made is None:
            batch.abandon()
            return None
        forget = stack.pop_all().close
    transactions, changes, truncates = made
    whole = WireBatch(transactions, tuple(changes), truncates, forget)
    last = transactions[-1].end_lsn if transactions else start
    return whole, last if batch.messages >= MESSAGES else max(end, last)


def _portions(answers: Iterator[list[memoryview]]) -> Iterator[tuple[bytes, Numbers]]:
    """Some messages in one piece, and where each begins; the end of the last comes behind."""
    held: list[bytes] = []
    lengths: list[int] = []
    size, first = 0, FIRST_ROW
    for portion in answers:
        held.append(b"".join(portion))
        lengths += map(len, portion)
        size += len(held[-1])
        if size >= _PORTION:
            yield _joined(held, lengths, first)
            held, lengths, size, first = [], [], 0, ROW
    if held:
        yield _joined(held, lengths, first)


def _joined(held: Sequence[bytes], lengths: Sequence[int], first: int) -> tuple[bytes, Numbers]:
    sizes = np.array(lengths, np.int64)
    ends = np.cumsum(sizes)
    heads = np.full(len(sizes), ROW, np.int64)
    heads[0] = first
    at = ends - sizes + heads
    return b"".join(held) + bytes(columns.PADDING), at[sizes > heads]  # the last row is the mark of the end


def _distinct(numbers: Numbers) -> list[int]:
    """Each once; np.unique would hash them all, where most often there is only one."""
    found: list[int] = []
    while len(numbers):
        found.append(int(numbers[0]))
        numbers = numbers[numbers != numbers[0]]
    return found


class _Batch:
    """What has been decoded so far."""

    def __init__(self, stack: ExitStack, data_path: str) -> None:
        from pgrepl.lake.relay import passing_folder
        from pgrepl.lake.storage import new_name

        self._folder = passing.make(passing.CHANGES)
        stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._shared = stack.enter_context(passing_folder(data_path))
        self._new_path: Callable[[], str] = lambda: self._shared + new_name()
        self._relations = Relations()
        self._writers: dict[int, MessageWriter] = {}
        self._truncates: list[tuple[int, TruncateMessage]] = []
        self._origins: dict[int, str] = {}  # by transaction
        self._begun: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []  # finish LSN, time, xid, message
        self._ended: list[tuple[Numbers, Numbers]] = []  # end LSN, message
        self._transactions = 0
        self.messages = 0
        self.count = 0

    def take(self, data: bytes, at: Numbers) -> None:
        """Messages that follow those before."""
        raw: Bytes = np.frombuffer(data, np.uint8)
        kind = raw[at]
        begins = np.flatnonzero(kind == BEGIN_TYPE)
        self._begun.append(
            (
                integers(raw, at[begins] + 1, ">i8"),
                integers(raw, at[begins] + 9, ">i8"),
                integers(raw, at[begins] + 17, ">u4"),
                begins + self.messages,
            )
        )
        number = self._transactions + np.cumsum(kind == BEGIN_TYPE) - 1
        self._transactions += len(begins)
        self._describe(data, raw, at, kind, number)
        ends = np.flatnonzero(kind == COMMIT_TYPE)
        self._ended.append((integers(raw, at[ends] + 10, ">i8"), ends + self.messages))
        changed = np.flatnonzero(np.isin(kind, (INSERT_TYPE, UPDATE_TYPE, DELETE_TYPE)))
        if len(changed):
            self._decode(raw, at, changed)
        self.messages += len(at)

    def _describe(self, data: bytes, raw: Bytes, at: Numbers, kind: Bytes, number: npt.NDArray[np.int64]) -> None:
        """Relations, truncations and origins, one by one: they are few."""
        for place in np.flatnonzero(np.isin(kind, (RELATION_TYPE, TRUNCATE_TYPE, ORIGIN_TYPE))).tolist():
            here = int(at[place])
            if kind[place] == RELATION_TYPE:
                self._learn(read_relation(data[here:], is_typed), int(number[place]))
            elif kind[place] == TRUNCATE_TYPE:
                self._truncates.append((self.messages + place, read_truncate(data[here:], self._relations)))
                self.count += 1
            else:
                self._origins[int(number[place])] = data[here + 9 : data.index(0, here + 9)].decode()

    def _learn(self, relation: SentRelation, transaction: int) -> None:
        known = self._relations.known.get(relation.relid)
        if known is not None and known != relation:
            raise Redefined(transaction)
        self._relations.known[relation.relid] = relation

    def _decode(self, raw: Bytes, at: Numbers, changed: npt.NDArray[Any]) -> None:
        relids = integers(raw, at[changed] + 1, ">u4")
        self.count += len(changed)
        for relid in _distinct(relids):
            chosen = changed[relids == relid]
            writer = self._writers.get(relid)
            if writer is None:
                writer = MessageWriter(self._relations.of(relid), f"{self._folder}/{relid}.arrow")
                self._writers[relid] = writer
            writer.write(chosen + self.messages, columns.changes(raw, at[chosen], writer.relation))

    def finish_lsn(self, transaction: int) -> int:
        finish: int = np.concatenate([each[0] for each in self._begun])[transaction]
        return int(finish)

    def abandon(self) -> None:
        for writer in self._writers.values():
            writer.abandon()

    def close(
        self, start: int, end: int
    ) -> tuple[tuple[BulkTransaction, ...], list[Any], tuple[tuple[int, TruncateMessage], ...]] | None:
        """The whole transactions that finish within these bounds. None: others are among them."""
        finish, when, xid, first = (np.concatenate(parts) for parts in zip(*self._begun, strict=True))
        until, last = (np.concatenate(parts) for parts in zip(*self._ended, strict=True))
        if len(finish) != len(until) or (finish < start).any() or (finish >= end).any():
            return None
        listed = zip(*(each.tolist() for each in (xid, finish, until, when, first, last)), strict=True)
        transactions = tuple(
            [
                BulkTransaction(x, f, u, w, self._origins.get(number), a, b)
                for number, (x, f, u, w, a, b) in enumerate(listed)
            ]
        )
        files = [writer.close(self._new_path) for writer in self._writers.values()]
        return transactions, files, tuple(self._truncates)
