"""The changes of a publication as a stream: offsets are LSNs, and a slot keeps what the stream has yet to read.

The offset {"lsn": "0/1A"} means: all transactions that finish before 0/1A have been read. A stream begins at {"lsn":
"0/0"} and its first batch has the rows that the table has then, unless copy_data is false. Spark keeps the offsets in
its checkpoint, and asks for a batch again with the same offsets after a failure; it gets the same rows, since the slot
advances only when Spark has committed a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pgrepl.api.datasource.changes import change_parts, changes_source, copy_parts
from pgrepl.api.datasource.options import SourceOptions
from pgrepl.api.datasource.readers import PartToRead, struct
from pgrepl.catalog.numbering import current_lsn
from pgrepl.catalog.transaction import reading
from pgrepl.errors import PgError
from pgrepl.types.lsn import lsn_text, parse_lsn

if TYPE_CHECKING:
    from pgrepl.api.opened import OpenedSession

_START = 0


class ChangesReader(DataSourceStreamReader):
    """A stream of changes. Spark has one in a process that lasts as long as the query, and copies of it in tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        options.required("publication")
        self._slot = options.get("slot") or ""
        if not self._slot:
            raise PgError(
                "22023",
                'a stream needs the option "slot"',
                detail="A replication slot keeps the changes that the stream has yet to read.",
                hint='Add .option("slot", "name"); it is created if it does not exist.',
            )
        self._options = options
        self._schema = schema
        self._stack: ExitStack | None = None
        self._known: OpenedSession | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stack": None, "_known": None}

    @property
    def _opened(self) -> OpenedSession:
        if self._known is None:
            self._stack = ExitStack()
            self._known = self._stack.enter_context(self._options.session())
        return self._known

    # --- offsets ------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, str]:
        """The offset at which a stream without a checkpoint begins: a copy, or the slot's position. A copy loses
        nothing of a slot that is there already, as it has all rows of a later moment."""
        confirmed = self._confirmed()
        if confirmed is None:
            self._run("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", self._slot)
            confirmed = self._confirmed()
        assert confirmed is not None
        return _offset(_START if self._options.flag("copy_data", True) else confirmed)

    def latestOffset(self) -> dict[str, str]:
        session = self._opened.session
        with reading(session):
            return _offset(current_lsn(session))

    def _confirmed(self) -> int | None:
        """The slot's confirmed LSN, None if there is no slot; an error if it cannot be read from."""
        from pgrepl.replication.publisher import slots

        session = self._opened.session
        with reading(session):
            row = slots.slot_or_none(session, self._slot)
            if row is None:
                return None
            slots.check_decodable(session, row)
            return int(row.confirmed_flush_lsn or 0)

    # --- batches ------------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        first, last = parse_lsn(start["lsn"]), parse_lsn(end["lsn"])
        if first >= last:
            return []
        self._check_slot(first)
        session = self._opened.session
        with reading(session):
            source = changes_source(session, self._options)
            if struct(source.columns, changes=source.keys) != self._schema:
                raise PgError(
                    "55000",
                    f'the columns or the replica identity of table "{source.table.qualified_name}" have changed '
                    "since the stream began",
                    hint="Restart the stream with another checkpoint and another slot.",
                )
            if first == _START:
                parts = copy_parts(session, source, last, self._options.number("partitions"))
            else:
                parts = change_parts(session, source, first, last)
        return [PartToRead(part) for part in parts]

    def _check_slot(self, start: int) -> None:
        """Raise if the slot no longer keeps the changes from `start` on."""
        from pgrepl.replication.publisher import slots
        from pgrepl.replication.publisher.protocol import slot_is_ahead

        session = self._opened.session
        with reading(session):
            row = slots.slot_or_none(session, self._slot)
            if row is None:
                raise PgError(
                    "42704",
                    f'replication slot "{self._slot}" does not exist',
                    detail="The stream's checkpoint needs it.",
                    hint="Begin anew with another checkpoint.",
                )
            slots.check_decodable(session, row)
            confirmed = int(row.confirmed_flush_lsn or 0)
            if start != _START:
                if confirmed > start:
                    raise slot_is_ahead(self._slot, confirmed, start)
                slots.check_start(session, start)
                slots.check_retained(session, row, start)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PartToRead)
        return iter(partition.part.batches())

    def commit(self, end: dict[str, str]) -> None:
        """Spark has written all rows before this offset."""
        lsn = parse_lsn(end["lsn"])
        confirmed = self._confirmed()
        if confirmed is not None and confirmed < lsn:
            self._run("SELECT pg_replication_slot_advance($1, $2)", self._slot, lsn_text(lsn))

    def _run(self, statement: str, *values: str) -> None:
        from pgrepl.types.oids import UNKNOWN

        for _ in self._opened.run(statement, [(UNKNOWN, value) for value in values]):
            pass

    def stop(self) -> None:
        if self._stack is not None:
            self._stack.close()
            self._stack = self._known = None


class RefusedReader(DataSourceStreamReader):
    """A stream that cannot be read as its options say: the error comes when it is asked for the first time."""

    def __init__(self, problem: PgError) -> None:
        self._problem = problem

    def initialOffset(self) -> dict[str, str]:
        raise self._problem

    def latestOffset(self) -> dict[str, str]:
        raise self._problem

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self._problem


def _offset(lsn: int) -> dict[str, str]:
    return {"lsn": lsn_text(lsn)}
