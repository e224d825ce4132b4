"""The kernel of a copy: filters rows of a table and writes them, whole columns at a time, to data files of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.lake.file_writer import ROWS_IN_GROUP, DataFileWriter, repeating
from pgrepl.lake.kernels.part import PartRows, PartWatch, Unfit, forms_of, repeated
from pgrepl.types.lake_arrays import storage_type

if TYPE_CHECKING:
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.part import SourceColumns
    from pgrepl.lake.table import LakeTable
    from pgrepl.types.lake_arrays import Form


class KernelCondition(Protocol):
    """A condition over rows (expr/arrow/program.py)."""

    @property
    def attnums(self) -> frozenset[int]: ...

    def test(self, forms: Mapping[int, Form]) -> Callable[[Mapping[int, Any], int], Any]: ...

    def exact(self) -> Callable[[Sequence[Any]], Any]:
        """The condition as a function of one row, whose values stand by attribute number."""


class KernelValue(Protocol):
    """An expression over rows (expr/arrow/program.py)."""

    @property
    def attnums(self) -> frozenset[int]: ...

    def values(self, forms: Mapping[int, Form]) -> Callable[[Mapping[int, Any], int], Any]: ...

    def exact(self) -> Callable[[Sequence[Any]], Any]:
        """The expression as a function of one row, whose values stand by attribute number."""


@frozen
class KernelColumn:
    """How a column of the target is made: from a column of the source, cast to its type; by an expression; or as one
    value for all rows."""

    attnum: int  # of the target
    source: int = 0  # attribute number; 0: `computed` or `value` makes the column
    value: Any = None  # an array of length one
    not_null: bool = False
    longest: int | None = None  # characters
    computed: KernelValue | None = None

    @property
    def read(self) -> frozenset[int]:
        """The attribute numbers of the source's columns that make this one."""
        if self.computed is not None:
            return self.computed.attnums
        return frozenset((self.source,)) if self.source else frozenset()


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
    """The answer for a part. `wrong`: a row has an error, which copying row by row words; `unfit`: why the kernel could
    not do the part."""

    files: tuple[NewFile, ...] = ()
    spans: tuple[KeySpan | None, ...] = ()  # of the keys; None: they do not ascend
    wrong: str = ""
    unfit: str = ""


def copy_rows(part: CopyPart, watch: PartWatch) -> CopiedPart:
    copy = RowsCopy(part, watch)
    try:
        copy.run()
        return copy.end()
    except Unfit as reason:
        return CopiedPart(unfit=str(reason))
    except PgError as error:
        if not error.is_of_data:
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
        self.check = None if part.check is None else part.check.test(forms_of(part.target, part.check.attnums))
        self.kinds = [storage_type(part.target.column(column.attnum).form.arrow()) for column in part.columns]
        self.computed = [
            None if column.computed is None else column.computed.values(forms_of(part.source, column.read))
            for column in part.columns
        ]
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
        """Which rows pass the filter (None: all), the columns of these, and their number."""
        if self.filter is None:
            return None, arrays, count
        mask = self.filter(arrays, count)
        left = mask.true_count
        if left == count:
            return None, arrays, count
        return mask, {attnum: array.filter(mask) for attnum, array in arrays.items()}, left

    def made(self, arrays: Mapping[int, Any], count: int) -> list[Any]:
        """The columns of the new rows, in the target's types and checked."""
        made = [self.column(n, arrays, count) for n in range(len(self.kinds))]
        if self.check is not None:
            by_number = {column.attnum: array for column, array in zip(self.part.columns, made, strict=True)}
            assert self.part.check is not None
            passed = self.check({attnum: by_number[attnum] for attnum in self.part.check.attnums}, count)
            if passed.true_count < count:
                raise PgError("23514", "a row violates a check constraint")
        return made

    def hold(self, made: list[Any], count: int) -> None:
        """Keep columns until there are enough rows for a row group. Row ids, if any, stand behind the columns."""
        self.held.append(made)
        self.count += count
        if self.count >= ROWS_IN_GROUP:
            self.write()

    def column(self, number: int, arrays: Mapping[int, Any], count: int) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        column, kind = self.part.columns[number], self.kinds[number]
        computed = self.computed[number]
        if computed is not None:
            array = computed(arrays, count)
        else:
            array = arrays[column.source] if column.source else repeated(column.value, count)
        if array.type != kind:
            try:
                array = array.cast(kind)
            except pa.ArrowInvalid as problem:
                raise PgError("22003", str(problem)) from problem
        if column.not_null and array.null_count:
            raise PgError("23502", "null value in a column that has none")
        if column.longest is not None and (pc.max(pc.utf8_length(array)).as_py() or 0) > column.longest:
            raise PgError("22001", "value too long")
        return array

    def write(self) -> None:
        import pyarrow as pa

        arrays = [pa.concat_arrays(chunks) for chunks in zip(*self.held, strict=True)]
        count, self.held, self.count = self.count, [], 0
        for key, attnum in zip(self.keys, self.part.keys, strict=True):
            at = next(n for n, column in enumerate(self.part.columns) if column.attnum == attnum)
            key.more(arrays[at])
        target = self.part.target
        row_ids = arrays.pop() if self.replaces else None
        if self.writer is None:
            known = repeating(target, arrays)
            self.writer = DataFileWriter(
                target, row_ids=self.replaces, repeating=known, folder=self.part.folder, bounds_by_footer=True
            )
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

    def more(self, array: Any) -> None:
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
