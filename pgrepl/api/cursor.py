"""The cursor of DB-API 2.0: runs queries with bound parameters and gives their rows as tuples, or as columns.

    cur = con.cursor()
    cur.execute("SELECT id, total FROM orders WHERE country = %s", ["DE"])
    cur.fetchall()      # [(1, Decimal('10.00')), …]
    cur.arrow()         # a pyarrow.Table instead; df() for pandas, pl() for Polars, spark() for a DataFrame

Rows that this process computes are in memory when execute() returns, and become Python's values one by one. Rows that
Spark computes are fetched when they are first asked for, and not at all for spark().
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pgrepl.api.exceptions import InterfaceError, ProgrammingError
from pgrepl.api.parameters import Parameters, batches, dumped, numbered
from pgrepl.api.results import arrow_table, loaded, loaders, polars_table, spark_frame
from pgrepl.ground.errors import PgError
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import CopyStmt
from pgrepl.sql.parser import parse
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.lake.arrays import content
from pgrepl.types.names import asks_catalog, numeric_precision_scale

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session.session import Parameter, Session
    from pgrepl.query.result import Result, ResultColumn


Row: TypeAlias = "tuple[Any, ...]"


class CursorConnection(Protocol):
    """The connection of a cursor."""

    @property
    def session(self) -> Session: ...

    def run(self, query: str, values: Sequence[Parameter] | None) -> Iterator[Result]: ...

    def working(self, *, begins: bool = True) -> AbstractContextManager[None]: ...

    def reads_later(self, cursor: Any) -> None: ...


class Column(NamedTuple):
    """One item of `Cursor.description`."""

    name: str
    type_code: int  # the type's OID
    display_size: int | None = None
    internal_size: int | None = None
    precision: int | None = None
    scale: int | None = None
    null_ok: bool | None = None


class Cursor:
    """A cursor over one connection."""

    def __init__(self, connection: CursorConnection) -> None:
        self._connection = connection
        self.arraysize = 1
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._results: list[Result] = []
        self._at = 0  # the result that is shown
        self._rows: Iterator[Row] | None = None
        self.description: list[Column] | None = None
        self.rowcount = -1
        self.statusmessage: str | None = None

    @property
    def connection(self) -> CursorConnection:
        return self._connection

    @property
    def closed(self) -> bool:
        return self._closed

    # --- running ------------------------------------------------------------------------------------------------------

    def execute(self, query: str, params: Parameters | None = None) -> Cursor:
        """Run a query. With `params` it is one statement with placeholders: %s, %(name)s, or PostgreSQL's own $1.

        Without `params` a text may have several statements; nextset() goes to the next one's result."""
        self._check()
        values = None
        if params is not None:
            query, given = numbered(query, params)
            values = [dumped(value) for value in given]
        self._run(query, values)
        return self

    def executemany(self, query: str, params_seq: Iterable[Parameters]) -> Cursor:
        """Run a statement once for each set of parameters; rows that it returns are left out. An INSERT of VALUES runs
        for many sets at a time."""
        self._check()
        total = 0
        for text, values in batches(query, params_seq):
            self._run(text, values)
            if self.rowcount < 0:
                total = -1
            total += self.rowcount if total >= 0 else 0
        message = self.statusmessage
        self._forget()
        self.rowcount, self.statusmessage = total, message
        return self

    def _run(self, query: str, values: Any) -> None:
        self._connection.reads_later(None)
        self._forget()
        with self._connection.working():
            self._results = list(self._connection.run(query, values))
        self._show(0)

    def nextset(self) -> bool | None:
        """Go to the result of the next statement of the query; None if there is none."""
        self._check()
        if self._at + 1 >= len(self._results):
            return None
        self._show(self._at + 1)
        return True

    def _show(self, at: int) -> None:
        self._at = at
        if not self._results:
            return
        result = self._results[at]
        self.statusmessage = result.tag
        self.rowcount = _count(result)
        self.description, self._rows = None, None
        if result.columns is None:
            return
        self.description = [_described(column) for column in result.columns]
        if result.values is not None and result.values.frame is not None:
            self._connection.reads_later(self)
            return
        self._rows = self._loaded(result)

    def _loaded(self, result: Result) -> Iterator[Row]:
        """The rows as Python's values, which are made one by one; now, if that needs the catalog."""
        if result.values is None:
            return iter(result.rows)  # of SHOW and EXPLAIN: all is text
        columns = result.columns or ()
        rows = loaded(result.values, loaders(columns, self._connection.session.text_style))
        return iter(list(rows)) if any(asks_catalog(column.type) for column in columns) else rows

    def read_all(self) -> None:
        """Fetch the rows that Spark has computed."""
        if self._rows is None and self.description is not None:
            with self._connection.working(begins=False):
                rows = list(self._loaded(self._results[self._at]))
            self._rows = iter(rows)
            self.rowcount = len(rows)
            self._connection.reads_later(None)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def fetchone(self) -> Row | None:
        return next(self._fetched(), None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        return list(islice(self._fetched(), self.arraysize if size is None else size))

    def fetchall(self) -> list[Row]:
        return list(self._fetched())

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._fetched())

    def _fetched(self) -> Iterator[Row]:
        self._check()
        self._require_rows()
        self.read_all()
        assert self._rows is not None
        return self._rows

    def _require_rows(self) -> Result:
        if self.description is None:
            raise ProgrammingError("the last operation didn't produce a result")
        return self._results[self._at]

    # --- columns ------------------------------------------------------------------------------------------------------

    def arrow(self) -> pyarrow.Table:
        """All rows of the result as an Arrow table."""
        self._check()
        result = self._require_rows()
        with self._connection.working(begins=False):
            return arrow_table(result, self._connection.session)

    def df(self) -> pandas.DataFrame:
        """All rows of the result as a DataFrame of pandas; numeric columns hold Decimals."""
        return self.arrow().to_pandas(date_as_object=False)

    def pl(self) -> Any:
        """All rows of the result as a DataFrame of Polars."""
        import polars

        return polars.from_arrow(polars_table(self.arrow()))

    def spark(self) -> DataFrame:
        """The rows of the result as a DataFrame of Spark. What Spark computes does not pass this process."""
        self._check()
        result = self._require_rows()
        with self._connection.working(begins=False):
            return spark_frame(result, self._connection.session)

    # --- COPY ---------------------------------------------------------------------------------------------------------

    def copy(self, statement: str) -> Copy:
        """COPY FROM STDIN or TO STDOUT, as a context manager: see copying.py."""
        self._check()
        return Copy(self, statement)

    # --- the rest of PEP 249 ------------------------------------------------------------------------------------------

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        """Call a function; its result is fetched."""
        name = ".".join(quote_identifier(part) for part in procname.split("."))
        places = ", ".join(f"${n}" for n in range(1, len(parameters) + 1))
        self._check()
        self._run(f"SELECT * FROM {name}({places})", [dumped(value) for value in parameters])
        return parameters

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Types of parameters need not be told."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Values are never cut."""

    def close(self) -> None:
        self._closed = True
        self._results, self._rows = [], None

    def __enter__(self) -> Cursor:
        self._check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")


def _count(result: Result) -> int:
    """The number of rows by the command tag: `INSERT 0 3`, `SELECT 2`."""
    if result.columns is not None and result.values is None:
        return len(result.rows)
    last = (result.tag or "").rpartition(" ")[2]
    return int(last) if last.isdigit() else -1


def _described(column: ResultColumn) -> Column:
    kind = type_by_oid(column.type)
    size = kind.len if kind is not None and kind.len > 0 else None
    if column.type == oids.NUMERIC and column.typmod >= 0:
        precision, scale = numeric_precision_scale(column.typmod)
        return Column(column.name, column.type, None, size, precision, scale)
    if column.type in (oids.VARCHAR, oids.BPCHAR) and column.typmod >= 4:
        return Column(column.name, column.type, column.typmod - 4, size)
    return Column(column.name, column.type, None, size)


_IN_MEMORY = 8 << 20  # bytes that need no file
_PIECE = 1 << 16

_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPED = str.maketrans(_ESCAPES)
_UNESCAPED = {after[1]: before for before, after in _ESCAPES.items()}


class CopyCursor(Protocol):
    """The cursor that runs a COPY."""

    @property
    def connection(self) -> CopyConnection: ...

    def execute(self, query: str) -> Any: ...


class CopyConnection(Protocol):
    @property
    def session(self) -> Session: ...


class Copy:
    """One COPY. It is the client that COPY asks for data, or gives data to (catalog/session/context.py)."""

    def __init__(self, cursor: CopyCursor, statement: str) -> None:
        self._cursor = cursor
        self._statement = statement
        parsed = _parsed(statement)
        self._is_from = parsed is not None and parsed.is_from
        self._has_rows = parsed is not None and _is_plain_text(parsed)
        self._data: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115

    def __enter__(self) -> Copy:
        if not self._is_from:
            self._run()
            self._data.seek(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._is_from:
                self._data.seek(0)
                self._run()
        finally:
            self._data.close()

    def _run(self) -> None:
        session = self._cursor.connection.session
        session.client = self
        try:
            self._cursor.execute(self._statement)
        finally:
            session.client = None

    # --- for COPY FROM ------------------------------------------------------------------------------------------------

    def write(self, data: str | bytes) -> None:
        """Give more data in the format of the statement."""
        if not self._is_from:
            raise ProgrammingError("COPY TO is read, not written to")
        self._data.write(data.encode() if isinstance(data, str) else data)

    def write_row(self, row: Sequence[Any]) -> None:
        """Give one row of values, in the text format."""
        self._check_has_rows("write_row() writes")
        self.write("\t".join(map(_field, row)) + "\n")

    # --- for COPY TO --------------------------------------------------------------------------------------------------

    def read(self) -> bytes:
        """More data in the format of the statement; nothing at the end."""
        self._check_is_to()
        return self._data.read(_PIECE)

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def rows(self) -> Iterator[tuple[str | None, ...]]:
        """The rows of the text format as texts."""
        self._check_is_to()
        self._check_has_rows("rows() reads")
        for line in self._data:
            yield tuple([_unescaped(field) for field in line.decode().rstrip("\n").split("\t")])

    def _check_is_to(self) -> None:
        if self._is_from:
            raise ProgrammingError("COPY FROM is written to, not read")

    def _check_has_rows(self, what: str) -> None:
        if not self._has_rows:
            raise ProgrammingError(f"{what} COPY's text format, without options for how it is written")

    # --- for the statement --------------------------------------------------------------------------------------------

    def copy_in(self, *, binary: bool, columns: int) -> _Sent:
        return _Sent(self._data)

    def copy_out(self, *, binary: bool, columns: int) -> _Taken:
        return _Taken(self._data)


class _Taken:
    """Takes the data of COPY TO."""

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data

    def write(self, data: bytes, /) -> None:
        self._data.write(data)

    def write_rows(self, rows: Sequence[bytes], /) -> None:
        self._data.writelines(rows)

    def write_lines(self, lines: Any, /) -> None:
        self._data.write(content(lines))


class _Sent:
    """The data that was written."""

    path: str | None = None

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        while data := self._data.read(_PIECE):
            yield data


def _parsed(statement: str) -> CopyStmt | None:
    """COPY FROM STDIN or COPY TO STDOUT, ProgrammingError if it is neither; None: running it raises the error."""
    try:
        stmts = [raw.stmt for raw in parse(statement)]
    except PgError:
        return None
    stmt = stmts[0] if len(stmts) == 1 else None
    if not isinstance(stmt, CopyStmt) or stmt.filename is not None or stmt.program:
        raise ProgrammingError("copy() takes one statement: COPY … FROM STDIN, or COPY … TO STDOUT")
    return stmt


def _is_plain_text(statement: CopyStmt) -> bool:
    """Are rows lines of values between tabs, and NULLs \\N?"""
    return not any(
        option.name in ("delimiter", "null", "encoding") or (option.name == "format" and option.value != "text")
        for option in statement.options
    )


def _field(value: Any) -> str:
    _, text = dumped(value)
    return "\\N" if text is None else text.translate(_ESCAPED)


def _unescaped(field: str) -> str | None:
    if field == "\\N":
        return None
    if "\\" not in field:
        return field
    out, letters = "", iter(field)
    for letter in letters:
        if letter == "\\":
            escaped = next(letters, "\\")
            out += _UNESCAPED.get(escaped, escaped)
        else:
            out += letter
    return out
