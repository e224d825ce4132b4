"""Runs benchmarks and prints one table: what, measured, what it is measured beside, the limit it is held to.

    python -m benchmarks [NAME ...]      all of them, or these; how long each takes is said on stderr

name               what
start              the shortest commands, cold
answers            a key, count(*), sum and GROUP BY of a large table, GROUP BY of a small one, all cold without a JVM;
                   COPY of a CSV file; IN, EXISTS, LATERAL and joins of two tables of 10,000 rows; Spark's first answer
parse_rate         statements parsed a second
ddl_rate           definitions a second
catalog_size       describing one among 10,000 tables
catalog_queries    what drivers, ORMs and tools ask of the catalog, beside PostgreSQL
scale              the commit of 10,000 data files, a key among 100,000
iceberg            Iceberg metadata of many files; DuckDB's scan of an Iceberg table beside that of a DuckLake table
lake               COPY, INSERT, SELECT, UPDATE, single rows, beside bare Spark
statements         UPDATE, DELETE, INSERT of half as many rows as a table has, COPY of a Parquet file, beside DuckDB
types              COPY, INSERT, UPDATE, a condition and apply of columns of each type, beside text
replicate          a copy, changes in 500 transactions, small batches, many tables, beside bare Spark and PostgreSQL
replicate_copy     a copy of half of a table, warm and cold, beside DuckDB
replicate_batch    changes in one transaction, warm and cold, beside DuckDB
history            what the histories of tables cost such a batch
replicate_memory   four times as many of them: memory, time a change, in 2 GiB for all processes
replicate_cluster  changes on a standalone cluster with one worker and with two, the driver's memory
scattered          clustered and scattered changes of a table and of one ten times as large
triggers           a row trigger on the subscriber's table, the processor time of a row
files              files of changes, by format
files_cluster      the same on a standalone cluster
postgres           a copy and changes from a PostgreSQL server, beside its own subscriber
compare            equal rows compared with a server's, beside its own hash of them, and with a lake's, beside a copy
stream             how late rows from a server are, what they cost it, copies beside a binary COPY, also killed
server             `pgrepl serve` with its clients
iceberg_rest       Iceberg's REST catalog: an answer, and commits while it is asked

PGREPL_BENCH_ROWS (10 million) and, for a cluster, PGREPL_BENCH_CHANGES (10 million) make them smaller. Besides:
`python -m benchmarks.upkeep` draws the hour of a follower, `pytest -m slow tests/faults/test_killed_executors.py` kills
executors during copies and batches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import (
    answers,
    catalog_queries,
    catalog_size,
    compare,
    ddl_rate,
    files,
    files_cluster,
    history,
    iceberg,
    iceberg_rest,
    lake,
    parse_rate,
    postgres,
    replicate,
    replicate_batch,
    replicate_cluster,
    replicate_copy,
    replicate_memory,
    scale,
    scattered,
    server,
    start,
    statements,
    stream,
    triggers,
    types,
)

MODULES = (
    *(start, answers, parse_rate, ddl_rate, catalog_size, catalog_queries, scale, iceberg, lake, statements, types),
    *(replicate, replicate_copy, replicate_batch, history, replicate_memory, replicate_cluster, scattered),
    *(triggers, files, files_cluster, postgres, compare, stream, server, iceberg_rest),
)


@dataclass(frozen=True)
class Line:
    what: str
    measured: str
    floor: str
    limit: str
    holds: bool


def main(names: Sequence[str]) -> int:
    known = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    if not set(names) <= known.keys():
        print(__doc__)
        return 0 if set(names) & {"-h", "--help"} else 2
    lines = []
    for name in names or known:
        began = time.monotonic()
        lines += [Line(*values) for values in known[name].measure()]
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    headers = ("what", "measured", "beside", "limit", "")
    rows = [headers] + [(x.what, x.measured, x.floor, x.limit, "ok" if x.holds else "TOO SLOW") for x in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(headers))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
