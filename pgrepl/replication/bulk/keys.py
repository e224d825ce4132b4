"""Keys as numbers: equal keys have equal numbers, in the messages and in the table's files alike.

The key of a single whole number is the number itself. Of other keys each column's distinct values are numbered, and the
numbers of a key's columns are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pgrepl.frozen import frozen
from pgrepl.lake import footers, inlined
from pgrepl.lake.bounds import Bound
from pgrepl.lake.dead import joined
from pgrepl.lake.file_scan import constant, locate
from pgrepl.lake.files import data_files
from pgrepl.lake.place import once
from pgrepl.replication.bulk.convert import NotInBulk
from pgrepl.types import oids
from pgrepl.types.lake_arrays import plain_array

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from pgrepl.catalog.session import Session
    from pgrepl.lake.files import DataFile
    from pgrepl.lake.table import LakeTable

    Codes = npt.NDArray[np.int64]

NOT_THERE = -1  # a row's key that no message has
_WHOLE = (oids.INT2, oids.INT4, oids.INT8)
# what is equal as it is kept exactly when the type says so
EQUAL_AS_KEPT = (*_WHOLE, oids.TEXT, oids.VARCHAR, oids.UUID, oids.DATE, oids.TIMESTAMP, oids.TIMESTAMPTZ, oids.BOOL,
                  oids.BYTEA)  # fmt: skip
_THREADS = 2


class Keys:
    """The keys of one table's messages."""

    def __init__(self, table: LakeTable, attnums: Sequence[int], columns: Sequence[Sequence[pa.Array]]) -> None:
        """`columns`: of each key column the parts (such as old and new keys), none of which has a NULL."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        self.table = table
        self.columns = [table.column(attnum) for attnum in attnums]
        for column in self.columns:
            if column.typoid not in EQUAL_AS_KEPT or column.form.element is not None:
                raise NotInBulk("the type of a key")
        self.whole = len(attnums) == 1 and self.columns[0].typoid in _WHOLE
        self._distinct: list[Any] = []
        self._codes: list[Codes] = []
        if self.whole:
            self._codes = [_numbers(part) for part in columns[0]]
        else:
            size = 1
            for parts in columns:
                distinct = pc.unique(pa.chunked_array(parts, parts[0].type))
                self._distinct.append(distinct)
                size *= max(len(distinct), 1)
            if size >= 2**62:
                raise NotInBulk("keys of too many columns")
            for n in range(len(columns[0])):
                self._codes.append(self._of([parts[n] for parts in columns]))
        self.distinct: Codes = once(np.concatenate(self._codes))

    def part(self, n: int) -> Codes:
        """The keys of a part, as places in `distinct`."""
        import numpy as np

        return np.searchsorted(self.distinct, self._codes[n])

    def _of(self, arrays: Sequence[pa.Array]) -> Codes:
        import numpy as np
        import pyarrow.compute as pc

        if self.whole:
            return _numbers(arrays[0])
        found = np.zeros(len(arrays[0]), np.int64)
        missing = np.zeros(len(arrays[0]), np.bool_)
        for array, distinct in zip(arrays, self._distinct, strict=True):
            places = pc.index_in(array, value_set=distinct)
            missing |= places.is_null().to_numpy(zero_copy_only=False)
            found = found * len(distinct) + places.fill_null(0).to_numpy(zero_copy_only=False)
        found[missing] = NOT_THERE
        return found

    # --- in the table -------------------------------------------------------------------------------------------------

    def find(self, session: Session, snapshot: int) -> Places:
        """The rows of the table that have these keys, at a snapshot."""
        import numpy as np

        count = len(self.distinct)
        nowhere = [np.full(count, NOT_THERE, np.int64) for _ in range(3)]
        places = Places(nowhere[0], nowhere[1], nowhere[2], np.zeros(count, np.bool_))
        if not count:
            return places
        bounds = []
        if self.whole:
            bounds.append(Bound(self.columns[0].attnum, int(self.distinct[0]), int(self.distinct[-1])))
        own: dict[int, list[tuple[int, int]]] = {}
        for file_id, position, begin in inlined.deletes(session, self.table, snapshot):
            own.setdefault(file_id, []).append((position, begin))
        files = data_files(session, self.table, snapshot, bounds)
        with ThreadPoolExecutor(_THREADS) as threads:
            found = threads.map(lambda file: self._in_file(file, own.get(file.data_file_id, []), snapshot), files)
            for file, (numbers, positions, row_ids) in zip(files, found, strict=True):
                places.enter(numbers, file.data_file_id, positions, row_ids)
        self._in_catalog(session, snapshot, bounds, places)
        return places

    def _in_file(self, file: DataFile, own: list[tuple[int, int]], snapshot: int) -> tuple[Codes, Codes, Codes]:
        """Numbers of keys, positions and row ids of the rows that have one."""
        import numpy as np
        import pyarrow as pa

        if file.partial_max is not None and file.partial_max > snapshot:
            raise NotInBulk("a file with later rows")
        footer = footers.footer(file.path)
        there = locate(file, footer)
        wanted = [there[c.column_id] for c in self.columns if c.column_id in there]
        with footers.Reader(footer) as reader:
            read = iter([plain_array(a) for a in reader.read(footer.row_groups, wanted)] if wanted else [])
            arrays = []
            for column in self.columns:
                kind = plain_array(column.form.to_array([])).type
                if column.column_id in there:
                    arrays.append(next(read).cast(kind))
                else:
                    value = constant(column, file)
                    arrays.append(plain_array(column.form.to_array([value])).take(pa.array([0] * file.record_count)))
            numbers, positions = self._hits(self._nullable(arrays))
            gone, _ = joined(file.delete_files, own, snapshot)
            if len(gone) and len(positions):
                dead = np.zeros(file.record_count, np.bool_)
                dead[gone] = True
                alive = ~dead[positions]
                numbers, positions = numbers[alive], positions[alive]
            row_ids = (file.row_id_start or 0) + positions
            ids = there.get(footers.ROW_ID)
            if ids is not None and len(positions):
                kept = plain_array(reader.read(footer.row_groups, [ids])[0])
                whole = kept.fill_null(-1).to_numpy(zero_copy_only=False)[positions]
                row_ids = np.where(whole < 0, row_ids, whole)
        return numbers, positions, row_ids

    def _nullable(self, arrays: Sequence[pa.Array]) -> Codes:
        """Keys of rows that may hold NULL; a table's rows with NULL have no key."""
        import numpy as np

        if not self.whole:
            return self._of(arrays)
        array = arrays[0]
        if array.null_count:
            known = array.is_valid().to_numpy(zero_copy_only=False)
            outside = int(self.distinct[-1]) + 1
            return np.where(known, _numbers(array.fill_null(0)), outside)
        return _numbers(array)

    def _hits(self, codes: Codes) -> tuple[Codes, Codes]:
        """Which of the keys stand where in a file: if it is sorted, by looking the keys up in it, else the other way
        round."""
        import numpy as np

        if not len(codes):
            return codes, codes
        ascending = self.whole and bool((np.diff(codes) > 0).all())
        if ascending:
            low, high = np.searchsorted(self.distinct, [codes[0], codes[-1] + 1])
            wanted = self.distinct[low:high]
            if not len(wanted):
                return wanted, wanted
            at = np.searchsorted(codes, wanted)
            hit = codes[np.minimum(at, len(codes) - 1)] == wanted
            return np.flatnonzero(hit) + low, at[hit]
        at = np.searchsorted(self.distinct, codes)
        at[at == len(self.distinct)] = 0
        positions = np.flatnonzero(self.distinct[at] == codes)
        return at[positions], positions

    def _in_catalog(self, session: Session, snapshot: int, bounds: Sequence[Bound], places: Places) -> None:
        import numpy as np

        rows = inlined.rows(session, self.table, self.columns, snapshot, bounds)
        if not rows:
            return
        arrays = [
            plain_array(column.form.to_array([row.values[n] for row in rows])) for n, column in enumerate(self.columns)
        ]
        numbers, positions = self._hits(self._nullable(arrays))
        row_ids = np.array([row.row_id for row in rows], np.int64)[positions]
        places.enter(numbers, NOT_THERE, positions, row_ids)


def _numbers(array: Any) -> Codes:
    import numpy as np

    found: Codes = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


@frozen
class Places:
    """Of each distinct key where its row stands: file (NOT_THERE: inlined), position, row id."""

    file: Codes
    position: Codes
    row_id: Codes
    exists: npt.NDArray[np.bool_]

    def enter(self, numbers: Codes, file_id: int, positions: Codes, row_ids: Codes) -> None:
        import numpy as np

        if self.exists[numbers].any():
            raise NotInBulk("a key that several rows have")
        self.exists[numbers] = True
        self.file[numbers] = file_id
        self.position[numbers] = positions
        self.row_id[numbers] = row_ids
        if not np.array_equal(self.row_id[numbers], row_ids):
            raise NotInBulk("a key that several rows have")
