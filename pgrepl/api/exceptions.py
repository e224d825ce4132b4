"""The exceptions of DB-API 2.0 (PEP 249) with psycopg's names for PostgreSQL's fields, and its type objects and
constructors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import TYPE_CHECKING

from pgrepl.ground.errors import PgError, Report
from pgrepl.types import oids

if TYPE_CHECKING:
    from pgrepl.api.rounds import SubscriptionRound


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """The fields of an error or of a notice (PQresultErrorField)."""

    severity: str | None = None
    sqlstate: str | None = None
    message_primary: str | None = None
    message_detail: str | None = None
    message_hint: str | None = None
    context: str | None = None
    statement_position: int | None = None
    schema_name: str | None = None
    table_name: str | None = None
    column_name: str | None = None
    datatype_name: str | None = None
    constraint_name: str | None = None


class Warning(Exception):
    """PEP 249 asks for it; nothing raises it: notices go to the connection's handlers."""


class Error(Exception):
    """Any error of this library. `sqlstate` is None where no statement failed."""

    diag = Diagnostic()

    @property
    def sqlstate(self) -> str | None:
        return self.diag.sqlstate

    @property
    def detail(self) -> str | None:
        return self.diag.message_detail

    @property
    def hint(self) -> str | None:
        return self.diag.message_hint


class InterfaceError(Error):
    """The library was used in a wrong way: a closed cursor, two threads in one connection."""


class DatabaseError(Error):
    """A statement, a copy or a batch failed. `results`: of sync() and apply(), what each subscription came to."""

    results: tuple[SubscriptionRound, ...] = ()


class DataError(DatabaseError):
    """A value is not of its type, or out of its range."""


class OperationalError(DatabaseError):
    """The catalog, a file, a publisher or a limit is in the way; another attempt may succeed."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """The state of the transaction does not allow this, or pgrepl has a defect."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, an object does not exist, or a privilege is missing."""


class NotSupportedError(DatabaseError):
    """A feature that pgrepl does not have."""


_BY_CLASS: dict[str, type[DatabaseError]] = {
    **dict.fromkeys(("0A",), NotSupportedError),
    **dict.fromkeys(("22",), DataError),
    **dict.fromkeys(("23",), IntegrityError),
    **dict.fromkeys(("24", "25", "2B", "2D", "XX"), InternalError),
    **dict.fromkeys(("20", "21", "26", "34", "3D", "3F", "42", "44"), ProgrammingError),
    **dict.fromkeys(
        ("08", "27", "28", "2F", "38", "39", "3B", "40", "53", "54", "55", "57", "58", "72", "F0", "HV"),
        OperationalError,
    ),
}


def diagnostic(report: Report) -> Diagnostic:
    return Diagnostic(
        report.severity, report.sqlstate, report.message, report.detail, report.hint, report.context, report.position,
        report.schema, report.table, report.column, report.datatype, report.constraint,
    )  # fmt: skip


def exception_of(error: PgError) -> DatabaseError:
    """The exception for a PgError, by the class of its SQLSTATE. Its text has DETAIL and HINT, as psql prints them."""
    report = error.report
    lines = [report.message]
    if report.detail is not None:
        lines.append(f"DETAIL:  {report.detail}")
    if report.hint is not None:
        lines.append(f"HINT:  {report.hint}")
    if report.context is not None:
        lines.append(f"CONTEXT:  {report.context}")
    exception = _BY_CLASS.get(report.sqlstate[:2], DatabaseError)("\n".join(lines))
    exception.diag = diagnostic(report)
    return exception


@contextmanager
def dbapi_errors() -> Iterator[None]:
    """Raise PgErrors in here as exceptions of DB-API."""
    try:
        yield
    except PgError as error:
        raise exception_of(error) from error


# --- pep249 types -----------------------------------------------------------------------------------------------------


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
