"""Spark's types for columns of PostgreSQL's types, and the conversion of stored Arrow arrays to them.

What Spark has no type for is text: uuid, time, interval, numeric without precision, ranges, and arrays in a column that
keeps some of several dimensions. Infinity, which a date or timestamp of Spark's cannot be, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.types import lake_text, oids
from pgrepl.types.builtin import base_type, element_type
from pgrepl.types.lake_arrays import plain_array
from pgrepl.types.lake_forms import form, is_row_type
from pgrepl.types.style import DEFAULT_STYLE

if TYPE_CHECKING:
    from pgrepl.types.lake_arrays import Form

_WRITTEN = (oids.UUID, oids.TIME)  # scalars that are stored as something else than their text


@frozen
class ShownColumn:
    """A column of the data source: its name, and PostgreSQL's type."""

    name: str
    typoid: int
    typmod: int
    is_text: bool = False  # arrays of several dimensions, which are no lists

    @property
    def form(self) -> Form:
        return form(self.typoid, self.typmod)

    @property
    def is_written(self) -> bool:
        """Is the value in Spark the text that PostgreSQL prints, made of what is stored?"""
        base = base_type(self.typoid)
        element = element_type(base)
        return (
            self.is_text
            or base in _WRITTEN
            or (bool(element) and (element in _WRITTEN or form(element).lake == "varchar"))
        )

    @property
    def spark(self) -> str:
        """Spark's type as DDL."""
        element = element_type(base_type(self.typoid))
        if not self.is_text and element and element in (oids.TEXT, oids.VARCHAR):
            return "ARRAY<STRING>"
        return "STRING" if self.is_written else self.form.spark

    def arrow(self) -> Any:
        """The Arrow type of a batch that Spark gets."""
        import pyarrow as pa

        if self.spark == "STRING":
            return pa.string()
        if self.spark == "ARRAY<STRING>":
            return pa.list_(pa.string())
        return self.form.arrow()

    def array_of(self, values: list[Any]) -> Any:
        """Python values as an array that can be shown."""
        import pyarrow as pa

        return pa.array(self._texts(values), pa.string()) if self.is_text else plain_array(self.form.to_array(values))

    def _texts(self, values: Iterable[Any]) -> list[str | None]:
        from pgrepl.types.text import writer

        write = writer(self.typoid)
        return [None if value is None else write(value, DEFAULT_STYLE) for value in values]

    def shown(self, array: Any, stored: Form | None = None) -> Any:
        """A stored array as Spark gets it. `stored`: its form, if another writer has chosen that."""
        import pyarrow as pa

        if self.is_text:
            is_written = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
            return (
                array.cast(pa.string())
                if is_written
                else pa.array(self._texts(self.form.from_array(array)), pa.string())
            )
        if stored is not None and (stored.lake, stored.spark) != (self.form.lake, self.form.spark):
            array = plain_array(self.form.to_array(stored.from_array(array)))
        if self.spark == "STRING" and self.is_written:
            return pa.array(self._texts(self.form.from_array(array)), pa.string())
        self._check_finite(array)
        kind = self.arrow()
        return array if array.type == kind else array.cast(kind)

    def _check_finite(self, array: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_date(array.type):
            found, most = pc.min_max(array.cast(pa.int32())), lake_text.DATE_INFINITY
        elif pa.types.is_timestamp(array.type):
            found, most = pc.min_max(array.cast(pa.int64())), lake_text.TIMESTAMP_INFINITY
        else:
            return
        low, high = found["min"].as_py(), found["max"].as_py()
        if low is not None and (high >= most or low <= -most):
            raise PgError(
                "22008",
                f'column "{self.name}" has infinity, which Spark has not',
                hint='Leave such rows out by the option "where", or query them with a cast to text.',
            )


def shown_column(name: str, typoid: int, typmod: int, *, is_text: bool = False) -> ShownColumn:
    """The column, or an error for a type that a task cannot print."""
    base = base_type(typoid)
    if is_row_type(base) or is_row_type(element_type(base) or base):
        raise PgError("0A000", f'column "{name}" is of a row type, which the data source does not support')
    return ShownColumn(name, typoid, typmod, is_text)
