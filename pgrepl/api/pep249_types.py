"""The type objects and constructors that PEP 249 asks for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time

from pgrepl.types import oids


class DBAPIType:
    """Equal to the OID of each type of its kind: `cursor.description[0].type_code == pgrepl.NUMBER`."""

    def __init__(self, name: str, members: Iterable[int]) -> None:
        self.name = name
        self._members = frozenset(members)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DBAPIType):
            return self._members == other._members
        return other in self._members if isinstance(other, int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._members)

    def __repr__(self) -> str:
        return f"<DBAPIType {self.name}>"


STRING = DBAPIType("STRING", (oids.TEXT, oids.VARCHAR, oids.BPCHAR, oids.NAME, oids.CHAR, oids.UNKNOWN))
BINARY = DBAPIType("BINARY", (oids.BYTEA,))
NUMBER = DBAPIType("NUMBER", (*oids.INTEGERS, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC))
DATETIME = DBAPIType("DATETIME", (oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.INTERVAL))
ROWID = DBAPIType("ROWID", (oids.OID,))

Date = date
Time = time
Timestamp = datetime


def DateFromTicks(ticks: float) -> date:
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:
    return datetime.fromtimestamp(ticks)


def Binary(data: bytes | bytearray | memoryview) -> bytes:
    return bytes(data)
