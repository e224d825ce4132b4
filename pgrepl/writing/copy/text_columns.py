"""Fields of COPY's text and CSV as whole columns: Arrow reads values in plain spelling, the types' input functions read
the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pgrepl.types import oids
from pgrepl.types.lake_arrays import plain_array, storage_type
from pgrepl.types.text import reader as input_function

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.types.lake_arrays import Form
    from pgrepl.types.style import TextStyle
    from pgrepl.writing.copy.reader import CopyColumn

_PORTION = 32768  # lines that are read into columns together
_INTEGER, _DATE = r"^-?\d+$", r"^[0-9]{4}-\d\d-\d\d$"
# spellings that Arrow and PostgreSQL read alike under any settings, except the year 0, which PostgreSQL refuses
_PLAIN = {
    oids.INT2: _INTEGER,
    oids.INT4: _INTEGER,
    oids.INT8: _INTEGER,
    oids.NUMERIC: r"^-?\d+(\.\d+)?$",
    oids.FLOAT8: r"^-?\d{1,15}(\.\d{1,20})?$",
    oids.DATE: _DATE,
    oids.TIMESTAMP: r"^[0-9]{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?$",
}
_FIRST_YEAR = "0001"


def tables(
    columns: Sequence[CopyColumn], forms: Sequence[Form], fields: Iterable[list[Any]], style: TextStyle
) -> Iterator[pa.Table]:
    """The values of lines, a portion at a time; PgError for a value that its type does not accept."""
    import pyarrow as pa

    lines = iter(fields)
    while portion := list(islice(lines, _PORTION)):
        texts = zip(*portion, strict=True)
        arrays = [_values(list(each), c, f, style) for each, c, f in zip(texts, columns, forms, strict=True)]
        yield pa.table(arrays, names=[column.name for column in columns])


def _values(texts: list[str | None], column: CopyColumn, form: Form, style: TextStyle) -> Any:
    import pyarrow as pa

    kind = storage_type(form.arrow())
    if column.type == oids.TEXT:
        return pa.array(texts, kind)
    pattern = _PLAIN.get(column.type)
    if pattern is not None and not (column.type == oids.TIMESTAMP and column.typmod >= 0):
        found = _plain(pa.array(texts, pa.string()), pattern, kind)
        if found is not None:
            return found
    read, typmod = input_function(column.type), column.typmod
    known: dict[str, Any] = {}  # a column often has few values
    values: list[Any] = []
    for text in texts:
        if text is None:
            values.append(None)
            continue
        if text not in known:
            if len(known) > _PORTION // 16:
                known.clear()
            known[text] = read(text, typmod, style)
        values.append(known[text])
    return plain_array(form.to_array(values))


def _plain(texts: Any, pattern: str, kind: Any) -> Any:
    """The texts cast by Arrow. None: a value has another spelling, or does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(kind) or pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        return None
    if pattern.startswith("^[0-9]{4}") and (first := pc.min(texts).as_py()) is not None and first < _FIRST_YEAR:
        return None
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None
