"""Text and CSV as whole columns: Arrow splits the lines block by block and makes values of them; a block with anything
unusual in it is read line by line, and so is a file with options that Arrow does not know.

An error in the file is not reported here: the caller then reads the whole file line by line up to the first error,
whose line is known then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.types.column_values import values_of
from pgrepl.types.encodings import is_utf8
from pgrepl.types.lake_arrays import plain_array
from pgrepl.writing.copy.blocks import Splitter, Unusual, blocks, header_end
from pgrepl.writing.copy.encoding import decoded
from pgrepl.writing.copy.reader import CopyReader

if TYPE_CHECKING:
    import pyarrow as pa

    from pgrepl.catalog.session import Session
    from pgrepl.writing.copy.copy_options import CopyOptions
    from pgrepl.writing.copy.endpoints import Incoming
    from pgrepl.writing.copy.target import CopyTarget

_PORTION = 32768  # lines that are made columns together when they are read one by one


def tables(session: Session, target: CopyTarget, options: CopyOptions, data: Incoming) -> Iterator[pa.Table]:
    """The values of a file for which `is_plain` holds, block by block; PgError for a line that cannot be read."""
    splitter = Splitter(options, len(target.columns))
    pieces = blocks(data, options)
    if options.header == "true":
        pieces = _without_header(pieces, options)
    for block in pieces:
        try:
            texts = splitter.split(block)
        except Unusual:
            yield from tables_of_lines(session, target, _lines(session, target, options, block))
        else:
            yield _table(session, target, texts)


def tables_of_lines(session: Session, target: CopyTarget, lines: Iterator[list[Any]]) -> Iterator[pa.Table]:
    """The values of lines that have been split, a portion at a time; PgError as in `tables`."""
    import pyarrow as pa

    while portion := list(islice(lines, _PORTION)):
        yield _table(session, target, [pa.array(each, pa.string()) for each in zip(*portion, strict=True)])


def is_plain(session: Session, target: CopyTarget, options: CopyOptions) -> bool:
    """Can Arrow split the lines of such a file?"""
    return (
        bool(target.columns)
        and is_utf8(options.encoding or session.settings.get("client_encoding"))
        and is_utf8(session.settings.get("server_encoding"))
        and options.header != "match"
        and options.default is None
        and not options.ignore_errors
        and not any(target.force_null)
        and not any(target.force_not_null)
        and (not options.csv or options.escape == options.quote)
    )


def _without_header(pieces: Iterator[bytes], options: CopyOptions) -> Iterator[bytes]:
    first = next(pieces, b"")
    end = header_end(first, options)
    rest = first[end:] if end else b""
    return chain([rest] if rest else [], pieces)


def _lines(session: Session, target: CopyTarget, options: CopyOptions, block: bytes) -> Iterator[list[Any]]:
    if b"\r" in block or b"\\." in block:
        raise PgError("22P04", "the end of the data is to be found line by line")
    encoding = options.encoding or session.settings.get("client_encoding")
    columns, options = target.copy_columns(), replace(options, header="false")
    return CopyReader(target.relation.name, columns, options, decoded([block], encoding)).fields()


def _table(session: Session, target: CopyTarget, texts: Iterable[Any]) -> pa.Table:
    import pyarrow as pa

    from pgrepl.lake.table import lake_table

    columns, style = target.copy_columns(), session.text_style
    table = lake_table(session, target.relation.oid)
    arrays = [
        plain_array(values_of(text, column.type, column.typmod, style, table.column(attnum).form))
        for text, column, attnum in zip(texts, columns, target.attnums, strict=True)
    ]
    return pa.table(arrays, names=[column.name for column in columns])
