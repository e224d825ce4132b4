"""The columns of new rows of a table, from columns of a source: copied, converted, computed, or one value for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake.kernels.part import forms_of, repeated
from pgrepl.types.lake_arrays import PLAIN_SCALE, plain_array, storage_type

if TYPE_CHECKING:
    from pgrepl.lake.kernels.part import SourceColumns
    from pgrepl.lake.table import LakeTable
    from pgrepl.types.lake_arrays import Form

    Columns = Mapping[int, Any]


class KernelCondition(Protocol):
    """A condition on rows, as a program for kernels: CHECK, WHERE or a row filter (expr/arrow/program.py)."""

    @property
    def attnums(self) -> frozenset[int]: ...

    def test(self, forms: Mapping[int, Form]) -> Callable[[Columns, int], Any]: ...

    def exact(self) -> Callable[[Sequence[Any]], Any]:
        """The function of one row, its values by attribute number, by the evaluator."""


class KernelValue(Protocol):
    """An expression over rows, as a program for kernels: a generated column, or SET (expr/arrow/program.py)."""

    @property
    def attnums(self) -> frozenset[int]: ...

    def values(self, forms: Mapping[int, Form], own: Form | None = None) -> Callable[[Columns, int], Any]:
        """`own`: the form of the column that gets the values."""

    def exact(self) -> Callable[[Sequence[Any]], Any]:
        """The function of one row, its values by attribute number, by the evaluator."""


@frozen
class KernelColumn:
    """A column of the target: another's values, converted by a cast to its type; what is computed of others; or one
    value for all rows. A generated column is computed of the target's own columns."""

    attnum: int  # of the target
    source: int = 0  # attribute number; 0: it is computed, or a value
    value: Any = None  # an array of one
    not_null: bool = False
    longest: int | None = None  # characters
    computed: KernelValue | None = None
    generated: bool = False

    @property
    def read(self) -> frozenset[int]:
        """The columns of the source that it is made of."""
        if self.computed is not None:
            return frozenset() if self.generated else self.computed.attnums
        return frozenset((self.source,)) if self.source else frozenset()


class RowMaker:
    """`check` is over the columns of the target."""

    def __init__(
        self,
        source: SourceColumns,
        target: LakeTable,
        columns: Sequence[KernelColumn],
        check: KernelCondition | None,
    ) -> None:
        self._columns = [_Maker(column, source, target) for column in columns if not column.generated]
        self._generated = [_Maker(column, target, target) for column in columns if column.generated]
        self._check = None if check is None else check.test(forms_of(target, check.attnums))
        self._checked = frozenset() if check is None else check.attnums

    def made(self, arrays: Columns, count: int) -> dict[int, Any]:
        """The columns of so many new rows by attribute number, in storage types. PgError: a row breaks a rule, or a
        value cannot be computed."""
        import pyarrow as pa

        try:
            found = {maker.column.attnum: maker.made(arrays, count) for maker in self._columns}
            found |= {maker.column.attnum: maker.made(found, count) for maker in self._generated}
            if self._check is None:
                return found
            passed = self._check({attnum: found[attnum] for attnum in self._checked}, count)
        except pa.ArrowException as problem:
            raise PgError("22000", str(problem)) from problem
        if passed.true_count < count:
            raise PgError("23514", "a row violates a check constraint")
        return found


class _Maker:
    def __init__(self, column: KernelColumn, source: SourceColumns, target: LakeTable) -> None:
        self.column = column
        self._form: Form = target.column(column.attnum).form
        self._kind = storage_type(self._form.arrow())
        computed = column.computed
        self._computed = None if computed is None else computed.values(forms_of(source, computed.attnums), self._form)

    def made(self, arrays: Columns, count: int) -> Any:
        import pyarrow.compute as pc

        column = self.column
        if self._computed is not None:
            array = self._computed(arrays, count)
        else:
            array = arrays[column.source] if column.source else repeated(column.value, count)
        if array.type != self._kind:
            array = self._cast(array)
        if column.not_null and array.null_count:
            raise PgError("23502", f"null value in column number {column.attnum} violates not-null constraint")
        if column.longest is not None and (pc.max(pc.utf8_length(array)).as_py() or 0) > column.longest:
            raise PgError("22001", "value too long")
        return array

    def _cast(self, array: Any) -> Any:
        """The column in the target's storage type. A numeric that is kept as text has PostgreSQL's text."""
        import pyarrow as pa

        if pa.types.is_decimal(array.type) and array.type.scale > PLAIN_SCALE and pa.types.is_string(self._kind):
            return plain_array(self._form.to_array(array.to_pylist()))
        try:
            return array.cast(self._kind)
        except pa.ArrowInvalid as problem:
            raise PgError("22003", str(problem)) from problem
