r"""A table of texts to print, and the print options that `\pset` sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pgrepl.frozen import frozen
from pgrepl.shell.width import printable

Format = Literal[
    "aligned", "asciidoc", "csv", "html", "json", "latex", "latex-longtable", "ndjson", "troff-ms", "unaligned",
    "wrapped",
]  # fmt: skip
JSON_FORMATS = ("json", "ndjson")
Expanded = Literal["on", "off", "auto"]
LineStyleName = Literal["ascii", "old-ascii", "unicode"]
HeaderWidth = Literal["full", "column", "page"] | int

# column_type_alignment: int8 int2 int4 oid xid cid float4 float8 money numeric xid8
RIGHT_ALIGNED = frozenset({20, 21, 23, 26, 28, 29, 700, 701, 790, 1700, 5069})


@frozen
class PrintOptions:
    r"""A field for each `\pset` name, and three for printing a result in portions."""

    border: int = 1
    columns: int = 0
    csv_fieldsep: str = ","
    expanded: Expanded = "off"
    fieldsep: str = "|"
    fieldsep_zero: bool = False
    footer: bool = True
    format: Format = "aligned"
    linestyle: LineStyleName = "ascii"
    null: str = ""
    numericlocale: bool = False
    pager: int = 1
    pager_min_lines: int = 0
    recordsep: str = "\n"
    recordsep_zero: bool = False
    tableattr: str | None = None
    title: str | None = None
    tuples_only: bool = False
    unicode_border_linestyle: Literal["single", "double"] = "single"
    unicode_column_linestyle: Literal["single", "double"] = "single"
    unicode_header_linestyle: Literal["single", "double"] = "single"
    xheader_width: HeaderWidth = "full"
    start_table: bool = True
    stop_table: bool = True
    prior_records: int = 0

    @property
    def field_separator(self) -> str:
        return "\0" if self.fieldsep_zero else self.fieldsep

    @property
    def record_separator(self) -> str:
        return "\0" if self.recordsep_zero else self.recordsep


@frozen
class TableContent:
    """Headers, rows of cells, 'l' or 'r' for each column; footers None: psql's "(n rows)"."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligns: str
    title: str | None = None
    footers: Sequence[str] | None = None
    values: Sequence[Sequence[str | None]] | None = None  # of a query's result, for formats that know types
    types: Sequence[int] = ()

    def footers_to_print(self, options: PrintOptions) -> Sequence[str]:
        """The footers of formats that do not number their records (footers_with_default)."""
        if self.footers is not None:
            return self.footers
        if not options.footer:
            return ()
        total = options.prior_records + len(self.rows)
        return (f"({total} row)" if total == 1 else f"({total} rows)",)

    def own_footers(self) -> Sequence[str]:
        return self.footers or ()


def alignment(type_oids: Sequence[int]) -> str:
    """Numbers to the right, all else to the left."""
    return "".join("r" if oid in RIGHT_ALIGNED else "l" for oid in type_oids)


def result_table(
    names: Sequence[str], type_oids: Sequence[int], rows: Sequence[Sequence[str | None]], options: PrintOptions
) -> TableContent:
    """A query's result as text: NULL as `\\pset null` says, numbers by locale if asked, as printQuery does."""
    aligns = alignment(type_oids)
    null = printable(options.null)
    cells = [[null if value is None else printable(value) for value in row] for row in rows]
    if options.numericlocale and "r" in aligns:
        from pgrepl.shell.numeric_locale import localized

        for row, shown in zip(rows, cells, strict=True):
            for at, align in enumerate(aligns):
                if align == "r" and row[at] is not None:
                    shown[at] = localized(shown[at])
    if options.format in JSON_FORMATS:
        return TableContent(names, cells, aligns, title=options.title, values=rows, types=type_oids)
    return TableContent([printable(name) for name in names], cells, aligns, title=options.title)
