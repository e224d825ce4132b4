"""How a PostgreSQL type is kept in a lake table: its DuckLake type, its Spark type, its Arrow type, and the way of its
values between Python, Parquet, DuckLake's statistics and rows inlined in the catalog.

    >>> from pgrepl.types import oids
    >>> form(oids.INT4).lake, form(oids.INT4).spark, form(oids.DATE).to_inlined(0)
    ('int32', 'INT', '2000-01-01')

A type that DuckLake has none like is kept as text: PostgreSQL's own, in a fixed style (ISO, UTC); so are named row
types. `read_form` in lake_read.py goes the other way, for tables that others made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError, unsupported
from pgrepl.frozen import frozen
from pgrepl.types import oids
from pgrepl.types.builtin import element_type, type_by_oid
from pgrepl.types.lake_arrays import annotated, same, storage_type

if TYPE_CHECKING:
    import pyarrow as pa


@frozen
class Form:
    """Values are the Python forms of `types`; NULL is dealt with by whole-column functions and the callers of others.

    `ordered` says what statistics can tell of the values: "full" (bounds), "equal" (only whether a value can be
    there) or "none".
    """

    typoid: int
    typmod: int
    lake: str  # ducklake_column.column_type
    spark: str  # in a DDL string
    arrow: Callable[[], Any]  # the pyarrow type of a file's column
    to_arrow: Callable[[Any], Any]  # a value → what Arrow makes such an array of (days, microseconds, bytes …)
    from_arrow: Callable[[Any], Any]  # and back
    from_array: Callable[[Any], list[Any]]  # a column of a file, or of Spark's answer → values, NULLs as None
    to_stat: Callable[[Any], str | None]  # the text of a value in statistics; None: it cannot be in bounds (NaN)
    from_stat: Callable[[str], Any]
    from_raw: Callable[[Any, int], Any]  # a bound in a Parquet footer (physical value, scale) → value
    to_inlined: Callable[[Any], Any]  # as the catalog keeps it in a row
    from_inlined: Callable[[Any], Any]
    ordered: str = "full"
    element: Form | None = None  # of a list
    children: tuple[tuple[str, Form], ...] = ()  # of a struct or map that somebody else made
    sized: Callable[[Any], Any] | None = None  # a value for comparison with statistics (bpchar: padded)

    def to_array(self, values: Sequence[Any]) -> pa.Array:
        """Values (NULLs as None) → a column for a file."""
        import pyarrow as pa

        convert = self.to_arrow
        plain = values if convert is same else [None if v is None else convert(v) for v in values]
        kind = self.arrow()
        try:
            return annotated(pa.array(plain, storage_type(kind)), kind)
        except (pa.ArrowInvalid, OverflowError) as problem:
            raise PgError("22003", f"value out of range for lake type {self.lake}", detail=str(problem)) from problem


def is_row_type(typoid: int) -> bool:
    """A named row type: how its values are kept depends on the catalog (lake.table.LakeColumn)."""
    row = type_by_oid(typoid)
    return row is None or row.typtype == "c"


@cache
def form(typoid: int, typmod: int = -1) -> Form:
    """The lake form of a type."""
    from pgrepl.types import lake_scalars

    element = element_type(typoid)
    if element and typoid not in (oids.OIDVECTOR, oids.INT2VECTOR):
        from pgrepl.types.lake_lists import list_form

        return list_form(typoid, typmod, form(element, typmod))
    row = type_by_oid(typoid)
    if row is not None and row.typtype == "d":
        return form(row.basetype, row.typmod)
    if row is not None and row.typtype == "p":
        raise unsupported("a column of a pseudo-type")
    if is_row_type(typoid):
        raise unsupported("a row type on Spark, or in a Parquet file,")
    return lake_scalars.scalar_form(typoid, typmod)
