"""Many transactions on the publisher in little time: what UPDATE, DELETE and INSERT would write, written by columns.

Each transaction is one snapshot with a file of new versions, a file of new rows and the positions of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One transaction: ids from low to high are updated, deleted, inserted."""

    updated: tuple[int, int]
    deleted: tuple[int, int]
    inserted: tuple[int, int]


def play(session: Any, name: str, rows: int, steps: Iterable[Step]) -> None:
    """`name` has the ids from 0 to rows - 1, and has not been changed yet."""
    import numpy as np

    from pgrepl.catalog.facts.relation import find_relation, range_var
    from pgrepl.lake.read import footers
    from pgrepl.lake.read.files import data_files
    from pgrepl.lake.table import lake_table

    transaction = session.transaction
    transaction.begin_statement()
    table = lake_table(session, find_relation(session, range_var([name])).oid)
    file_of, position_of, row_id_of = (np.zeros(rows, np.int64) for _ in range(3))
    for file in data_files(session, table):
        footer = footers.footer(file.path)
        with footers.DataFileReader(footer) as reader:
            ids = reader.read(footer.row_groups, [footer.by_id[table.column(1).column_id]])[0].to_numpy()
        positions = np.arange(len(ids))
        file_of[ids], position_of[ids] = file.data_file_id, positions
        row_id_of[ids] = (file.row_id_start or 0) + positions
    transaction.end_statement()
    for step in steps:
        transaction.begin_statement(writes=True)
        _write(session, table, step, file_of, position_of, row_id_of)
        transaction.end_statement()


def _write(session: Any, table: Any, step: Step, file_of: Any, position_of: Any, row_id_of: Any) -> None:
    import numpy as np
    import pyarrow as pa

    from pgrepl.lake import commit
    from pgrepl.lake.write.file_writer import DataFileWriter
    from pgrepl.lake.write.statement import Write

    write = Write(session, table)
    gone = np.concatenate([np.arange(*step.updated), np.arange(*step.deleted)])
    for file in np.unique(file_of[gone]):
        write.delete_positions(int(file), np.sort(position_of[gone[file_of[gone] == file]]))
    for (low, high), word in ((step.updated, "changed"), (step.inserted, "new")):
        ids = np.arange(low, high)
        columns = {
            1: pa.array(ids),
            2: pa.array(ids % 1000 + 1, pa.int32()),
            3: pa.array([f"{word} {n}" for n in range(low, high)]),
            4: pa.array(ids * 0.5),
        }
        versions = word == "changed"
        writer = DataFileWriter(table, row_ids=versions)
        row_ids = pa.array(row_id_of[ids]) if versions else None
        writer.write_arrays([columns[column.attnum] for column in table.columns], row_ids, len(ids))
        write.insert_files([writer.close()])
    commit.record_writes(session, [write])
