"""The cursor of DB-API 2.0: runs queries with bound parameters and gives their rows as tuples, or as columns.

    cur = con.cursor()
    cur.execute("SELECT id, total FROM orders WHERE country = %s", ["DE"])
    cur.fetchall()      # [(1, Decimal('10.00')), …]
    cur.arrow()         # a pyarrow.Table instead; df() for pandas, pl() for Polars, spark() for a DataFrame

Rows that this process computes are in memory when execute() returns, and become Python's values one by one. Rows that
Spark computes are fetched when they are first asked for, and not at all for spark().
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from pgrepl.api.copying import Copy
from pgrepl.api.exceptions import InterfaceError, ProgrammingError
from pgrepl.api.parameters import Parameters, batches, dumped, numbered
from pgrepl.api.results import arrow_table, loaded, loaders, polars_table, spark_frame
from pgrepl.sql.keywords import quote_identifier
from pgrepl.types import oids
from pgrepl.types.builtin import type_by_oid
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
        found = loaded(result.values, loaders(columns, self._connection.session.text_style))
        return iter(list(found)) if any(asks_catalog(column.type) for column in columns) else found

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
