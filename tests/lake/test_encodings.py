"""Columns of files get a dictionary where their first values are often the same, and so do the words of arrays."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from tests.harness.database import Database


def test_dictionaries(tmp_path: Path) -> None:
    here = Database(tmp_path)
    here("CREATE TABLE t (n int, few text, many text, fews text[], manys text[], us uuid[], nothing int[], ns int[][])")
    here(
        "INSERT INTO t SELECT g, 'w' || g % 9, 'w' || g, ARRAY['a', 'w' || g % 9], ARRAY['a', 'w' || g, 'x' || g],"
        " ARRAY[md5(g::text)::uuid], NULL, '{{1}}' FROM generate_series(1, 2000) g"
    )
    (file,) = [each for each in tmp_path.rglob("*.parquet") if pq.ParquetFile(each).metadata.num_rows == 2000]
    group = pq.ParquetFile(file).metadata.row_group(0)
    found = [group.column(n) for n in range(group.num_columns)]
    names = [column.path_in_schema for column in found if "RLE_DICTIONARY" in column.encodings]
    assert names == ["few", "fews.list.element", "nothing.list.element", "ns"]
    here.close()
