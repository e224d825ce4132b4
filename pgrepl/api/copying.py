r"""`cursor.copy()`: the data of COPY FROM STDIN and COPY TO STDOUT.

    with cur.copy("COPY orders FROM STDIN") as copy:
        copy.write_row((1, "DE", None))       # or copy.write("1\tDE\t\\N\n")
    with cur.copy("COPY orders TO STDOUT") as copy:
        for row in copy.rows(): …             # or: for data in copy

What is written is kept in a temporary file, which COPY reads at the end of the block: there its errors are raised. An
exception in the block leaves the table as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol

from pgrepl.api.exceptions import ProgrammingError
from pgrepl.api.parameters import dumped
from pgrepl.ground.errors import PgError
from pgrepl.sql.nodes import CopyStmt
from pgrepl.sql.parser import parse
from pgrepl.types.lake.arrays import content

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session

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
        found = [raw.stmt for raw in parse(statement)]
    except PgError:
        return None
    if len(found) != 1 or not isinstance(found[0], CopyStmt) or found[0].filename is not None or found[0].program:
        raise ProgrammingError("copy() takes one statement: COPY … FROM STDIN, or COPY … TO STDOUT")
    return found[0]


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
