"""The kernel of a copy: filters rows of a table and writes them, whole columns at a time, as rows of another: copied,
converted, computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.ground.errors import Declined, PgError
from pgrepl.ground.frozen import frozen
from pgrepl.ground.lazy import pa, pc
from pgrepl.lake.read.footers import ROWS_IN_GROUP
from pgrepl.lake.read.part import PartRows, PartWatch, forms_of, repeated
from pgrepl.lake.write.file_writer import DataFileWriter
from pgrepl.types.lake.arrays import PLAIN_SCALE, plain_array, storage_type

if TYPE_CHECKING:
    from pgrepl.lake.read.data_file import NewFile
    from pgrepl.lake.read.part import SourceColumns
    from pgrepl.lake.table import LakeTable
    from pgrepl.types.lake.arrays import Form

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
        self, source: SourceColumns, target: LakeTable, columns: Sequence[KernelColumn], check: KernelCondition | None
    ) -> None:
        self._columns = [_Maker(column, source, target) for column in columns if not column.generated]
        self._generated = [_Maker(column, target, target) for column in columns if column.generated]
        self._check = None if check is None else check.test(forms_of(target, check.attnums))
        self._checked = frozenset() if check is None else check.attnums

    def made(self, arrays: Columns, count: int) -> dict[int, Any]:
        """The columns of so many new rows by attribute number, in storage types. PgError: a row breaks a rule, or a
        value cannot be computed."""
        try:
            columns = {maker.column.attnum: maker.made(arrays, count) for maker in self._columns}
            columns |= {maker.column.attnum: maker.made(columns, count) for maker in self._generated}
            if self._check is None:
                return columns
            passed = self._check({attnum: columns[attnum] for attnum in self._checked}, count)
        except pa.ArrowException as problem:
            raise PgError("22000", str(problem)) from problem
        if passed.true_count < count:
            raise PgError("23514", "a row violates a check constraint")
        return columns


class _Maker:
    def __init__(self, column: KernelColumn, source: SourceColumns, target: LakeTable) -> None:
        self.column = column
        self._form: Form = target.column(column.attnum).form
        self._kind = storage_type(self._form.arrow())
        computed = column.computed
        self._computed = None if computed is None else computed.values(forms_of(source, computed.attnums), self._form)

    def made(self, arrays: Columns, count: int) -> pa.Array:
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

    def _cast(self, array: pa.Array) -> pa.Array:
        """The column in the target's storage type. A numeric that is kept as text has PostgreSQL's text."""
        if pa.types.is_decimal(array.type) and array.type.scale > PLAIN_SCALE and pa.types.is_string(self._kind):
            return plain_array(self._form.to_array(array.to_pylist()))
        try:
            return array.cast(self._kind)
        except pa.ArrowInvalid as problem:
            raise PgError("22003", str(problem)) from problem


@frozen
class CopyPart:
    """`filter` is over the columns of the source. `check` is over those of the target and answers true for a row that
    breaks no constraint. `keys` are attribute numbers of the target; the answer says whether their values ascend."""

    rows: tuple[PartRows, ...]
    source: SourceColumns
    filter: KernelCondition | None
    target: LakeTable
    columns: tuple[KernelColumn, ...]
    check: KernelCondition | None
    keys: tuple[int, ...]
    folder: str  # of the job, inside the target's folder

    @property
    def read(self) -> list[int]:
        """The attribute numbers of the source's columns to read."""
        filtered = frozenset() if self.filter is None else self.filter.attnums
        return sorted(filtered.union(*[column.read for column in self.columns]))


@frozen
class KeySpan:
    """The first and last of values that strictly ascend, without NULLs; first > last: there are no values."""

    first: int
    last: int


@frozen
class CopiedPart:
    """The answer for a part. `wrong`: a row has an error, which copying row by row words; `declined`: why the kernel
    could not do the part."""

    files: tuple[NewFile, ...] = ()
    spans: tuple[KeySpan | None, ...] = ()  # of the keys; None: they do not ascend
    wrong: str = ""
    declined: str = ""


def copy_rows(part: CopyPart, watch: PartWatch) -> CopiedPart:
    copy = RowsCopy(part, watch)
    try:
        copy.run()
        return copy.end()
    except Declined as reason:
        return CopiedPart(declined=str(reason))
    except PgError as error:
        if error.is_of_machine:
            raise
        return CopiedPart(wrong=error.message)
    finally:
        copy.discard()


class RowsCopy:
    """The work on a part. `replaces`: new rows are new versions of the rows read, and keep their row ids."""

    replaces = False

    def __init__(self, part: CopyPart, watch: PartWatch) -> None:
        self.part = part
        self.watch = watch
        self.filter = None if part.filter is None else part.filter.test(forms_of(part.source, part.filter.attnums))
        self.maker = RowMaker(part.source, part.target, part.columns, part.check)
        self.keys = [_Key() for _ in part.keys]
        self.held: list[list[Any]] = []
        self.count = 0  # of rows in `held`
        self.writer: DataFileWriter | None = None

    def run(self) -> None:
        part = self.part
        for rows in part.rows:
            for arrays, count in rows.portions(part.read):
                self.watch.check()
                _, kept, left = self.passing(arrays, count)
                if left:
                    self.hold(self.made(kept, left), left)

    def passing(self, arrays: Mapping[int, Any], count: int) -> tuple[Any, Mapping[int, Any], int]:
        """A mask of the rows that pass the filter (None: all do), their columns, and their number."""
        if self.filter is None:
            return None, arrays, count
        mask = self.filter(arrays, count)
        left = mask.true_count
        if left == count:
            return None, arrays, count
        return mask, {attnum: array.filter(mask) for attnum, array in arrays.items()}, left

    def made(self, arrays: Mapping[int, Any], count: int) -> list[Any]:
        """The columns of the new rows, as the target wants them."""
        arrays_by_attnum = self.maker.made(arrays, count)
        return [arrays_by_attnum[column.attnum] for column in self.part.columns]

    def hold(self, arrays: list[Any], count: int) -> None:
        """Keep columns until there are enough rows for a row group. Row ids, if any, stand behind the columns."""
        self.held.append(arrays)
        self.count += count
        if self.count >= ROWS_IN_GROUP:
            self.write()

    def write(self) -> None:
        arrays = [pa.concat_arrays(chunks) for chunks in zip(*self.held, strict=True)]
        count, self.held, self.count = self.count, [], 0
        for key, attnum in zip(self.keys, self.part.keys, strict=True):
            at = next(n for n, column in enumerate(self.part.columns) if column.attnum == attnum)
            key.more(arrays[at])
        target = self.part.target
        row_ids = arrays.pop() if self.replaces else None
        if self.writer is None:
            self.writer = DataFileWriter(target, row_ids=self.replaces, folder=self.part.folder, bounds_by_footer=True)
        self.writer.write_arrays(arrays, row_ids, count)
        self.watch.add(count, 0)

    def end(self) -> CopiedPart:
        if self.count:
            self.write()
        files: Sequence[NewFile] = []
        if self.writer is not None:
            writer, self.writer = self.writer, None
            files = [writer.close()]
            self.watch.add(0, files[0].file_size_bytes)
        return CopiedPart(tuple(files), tuple(key.span for key in self.keys))

    def discard(self) -> None:
        """Remove the unfinished file, if there is one."""
        if self.writer is not None:
            self.writer.discard()


class _Key:
    """Whether whole numbers ascend."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.ascends = True

    def more(self, array: pa.Array) -> None:
        if not self.ascends:
            return
        numbers = None if array.null_count else array.to_numpy(zero_copy_only=False)
        if numbers is None or not (numbers[1:] > numbers[:-1]).all():
            self.ascends = False
            return
        if self.last is not None and self.last >= numbers[0]:
            self.ascends = False
            return
        self.first = int(numbers[0]) if self.first is None else self.first
        self.last = int(numbers[-1])

    @property
    def span(self) -> KeySpan | None:
        if not self.ascends:
            return None
        return KeySpan(1, 0) if self.first is None or self.last is None else KeySpan(self.first, self.last)
