"""DuckLake's statistics of a data file's columns from the file's footer, for files that Spark has written.

Readers skip files by bounds, so that bounds must be right; without right ones in the footer there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgrepl.lake.statistics import ColumnStatistics, cut_high, cut_low, is_text, leaves

if TYPE_CHECKING:
    from pgrepl.lake.footers import Footer
    from pgrepl.lake.table import LakeTable
    from pgrepl.types.lake_arrays import Form


def of_footer(footer: Footer, table: LakeTable) -> dict[int, ColumnStatistics]:
    """The statistics by column id."""
    found = {}
    for column, leaf in leaves(table):
        in_file = footer.by_id.get(column.column_id)
        if in_file is not None and in_file.leaves == 1:
            found[leaf.column_id] = _of_leaf(footer, in_file.first_leaf, leaf.form)
    return found


def _of_leaf(footer: Footer, position: int, form: Form) -> ColumnStatistics:
    size = values = nulls = 0
    low: Any = None
    high: Any = None
    sure = True
    has_nan = False
    scale = footer.metadata.schema.column(position).scale
    for group in footer.row_groups:
        chunk = footer.metadata.row_group(group).column(position)
        size += chunk.total_compressed_size
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            nulls += chunk.num_values
            values += chunk.num_values
            sure = False
            continue
        nulls += statistics.null_count
        values += chunk.num_values - statistics.null_count
        if statistics.has_min_max:
            least, most = (_bound(form, raw, scale) for raw in (statistics.min_raw, statistics.max_raw))
            if most != most:  # Java orders NaN above all numbers, so that the highest number is not known
                sure, has_nan = False, True
                continue
            low = least if low is None or least < low else low
            high = most if high is None or most > high else high
        elif chunk.num_values > statistics.null_count:
            sure = False  # too long a text
    texts = _texts(form, low, high) if sure else (None, None)
    # other writers leave NaN out of the bounds
    known = form.lake.startswith("float") and (has_nan or (sure and _by_java(footer)))
    return ColumnStatistics(values, nulls, *texts, has_nan=has_nan if known else None, size=size)


def _by_java(footer: Footer) -> bool:
    return str(footer.metadata.created_by).startswith("parquet-mr")


def _bound(form: Form, raw: Any, scale: int) -> Any:
    """A bound as a value in DuckLake's order, which is that of text for types that are stored as text."""
    if is_text(form):
        return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw
    return form.from_raw(raw, scale)


def _texts(form: Form, low: Any, high: Any) -> tuple[str | None, str | None]:
    if low is None or high is None:
        return None, None
    texts = (cut_low(low), cut_high(high)) if is_text(form) else (form.to_stat(low), form.to_stat(high))
    return (None, None) if None in texts else texts
