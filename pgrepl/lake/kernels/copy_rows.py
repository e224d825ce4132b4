"""The kernel of a copy: filters rows of a table and writes them, whole columns at a time, to data files of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.errors import Declined, PgError
from pgrepl.frozen import frozen
from pgrepl.lake.file_writer import DataFileWriter
from pgrepl.lake.footers import ROWS_IN_GROUP
from pgrepl.lake.kernels.part import PartRows, PartWatch, forms_of
from pgrepl.lake.kernels.row_maker import KernelColumn, KernelCondition, RowMaker

if TYPE_CHECKING:
    from pgrepl.lake.data_file import NewFile
    from pgrepl.lake.kernels.part import SourceColumns
    from pgrepl.lake.table import LakeTable


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
        made = self.maker.made(arrays, count)
        return [made[column.attnum] for column in self.part.columns]

    def hold(self, made: list[Any], count: int) -> None:
        """Keep columns until there are enough rows for a row group. Row ids, if any, stand behind the columns."""
        self.held.append(made)
        self.count += count
        if self.count >= ROWS_IN_GROUP:
            self.write()

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
