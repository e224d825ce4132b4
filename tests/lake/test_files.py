"""Which files of a table a condition concerns, where they are many."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.lake import storage
from pgrepl.lake.read.bounds import Bound
from pgrepl.lake.read.data_file import DataFile, NewFile
from pgrepl.lake.read.files import data_files
from pgrepl.lake.write.statistics import ColumnStatistics
from tests.lake.conftest import Lake

FILES, ROWS = 1500, 10


def test_few_files_of_many(lake: Lake) -> None:
    lake.sql("CREATE TABLE many (id bigint)")
    column = lake.table("many").columns[0]
    plain = NewFile("", ROWS, 500, 100, {}, footer_checksum=0, checksum=0)

    def named(at: int) -> NewFile:  # in the catalog; nobody reads them
        found = ColumnStatistics(ROWS, 0, str(at * ROWS), str(at * ROWS + ROWS - 1))
        return replace(plain, name=storage.new_name(), statistics={column.column_id: found})

    first = lake.write("many", lambda write: write.insert_files(map(named, range(FILES))))
    lake.write("many", lambda write: write.insert_files([named(7)]))

    def within(*bounds: Bound, snapshot: int | None = None) -> list[DataFile]:
        table = lake.table("many")
        with lake.statement():  # nothing is known yet
            return data_files(lake.session, table, snapshot, bounds)

    every = within()
    assert len(every) == FILES + 1
    assert within(Bound(1, 75, 75)) == [every[7], every[-1]]
    assert within(Bound(1, 75, 75), snapshot=first) == [every[7]]
    assert within(Bound(1, 75, 90)) == [*every[7:10], every[-1]]
    assert within(Bound(1, low=14_000)) == every[1400:FILES]
    assert within(Bound(1, high=13_000, high_inclusive=False)) == [*every[:1300], every[-1]]
    assert within(Bound(1, 20_000)) == []
    lake.sql("BEGIN; INSERT INTO many SELECT generate_series(70, 500)")  # kept aside until the end
    with lake.statement():
        aside = data_files(lake.session, lake.table("many"), bounds=[Bound(1, 75, 75)])
    assert aside[:2] == [every[7], every[-1]] and aside[2:] == within()[FILES + 1 :] and len(aside) == 3
    lake.sql("ROLLBACK")
