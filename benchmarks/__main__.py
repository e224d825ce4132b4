"""Runs all benchmarks and prints one table: what, measured, its floor, the limit it is held to."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks import (
    catalog_size,
    ddl_rate,
    files,
    files_cluster,
    lake,
    parse_rate,
    postgres,
    replicate,
    replicate_cluster,
    replicate_copy,
    scale,
    server,
    start,
    statements,
)

MODULES = (
    *(start, parse_rate, ddl_rate, catalog_size, scale, lake),
    *(replicate, replicate_copy, replicate_cluster, statements, files),
    *(files_cluster, postgres, server),
)


@dataclass(frozen=True)
class Line:
    what: str
    measured: str
    floor: str
    limit: str
    holds: bool


def main() -> int:
    lines = [Line(*values) for module in MODULES for values in module.measure()]
    headers = ("what", "measured", "beside", "limit", "")
    rows = [headers] + [(x.what, x.measured, x.floor, x.limit, "ok" if x.holds else "TOO SLOW") for x in lines]
    widths = [max(len(row[i]) for row in rows) for i in range(len(headers))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
