"""COPY FROM by kernels over Arrow: columns go into the lake's files as they are, in this process or as tasks of
Spark's. A wrong row, and anything that kernels cannot do, raises `Declined`: another engine then copies, and reports
the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.engine import spark
from pgrepl.engine.choice import Choice
from pgrepl.engine.copy_rows import KernelColumn
from pgrepl.engine.run_kernels import KernelTarget, WrongRow, copy
from pgrepl.ground import interrupts
from pgrepl.ground.errors import Declined, PgError
from pgrepl.rows.changes import ModifyKind
from pgrepl.rows.checks_columns import check_program, columns_of, default_column, keys_differ, whole_keys
from pgrepl.rows.checks_spark import SparkChanges, check_fits
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.foreign.key import keys_of
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import unique_indexes
from pgrepl.writing.copy import load_spark

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Attribute
    from pgrepl.catalog.session.session import Session
    from pgrepl.lake.table import LakeColumn
    from pgrepl.writing.copy.source import RowSource
    from pgrepl.writing.copy.target import CopyTarget


def load(session: Session, open_source: Callable[[], RowSource], choice: Choice) -> int:
    """Read, check and write all rows; returns their number, or raises Declined."""
    return load_spark.load(session, open_source, partial(_stage, on_spark=choice.on_spark))


def _stage(session: Session, source: RowSource, *, on_spark: bool) -> SparkChanges:
    target = source.target
    rel = target.relation
    if rel.kind != "r" or keys_of(session, rel.oid):
        raise Declined("a partitioned table, or one with foreign keys")
    named = frozenset(target.attnums)
    check_fits(session, rel, ModifyKind.INSERT, named, by_kernels=True)
    staged = StagedRows(session, rel, session.transaction.numbering.last_snapshot())
    try:
        with source.kernel_source() as (files, longest), spark.described(f"COPY {rel.name}"):
            to = _target(session, target, staged, longest)
            copied = copy(session, [files], to, on_spark=on_spark, check=interrupts.check_for_interrupts)
    except WrongRow as reason:
        raise Declined(str(reason)) from None
    except PgError as error:
        if not error.is_of_data:
            raise
        raise Declined(error.message) from error
    changes = SparkChanges(session, rel, ModifyKind.INSERT, named, staged.snapshot)
    changes.add_files(copied.files)
    staged.inserted += copied.files
    if any(keys_differ(session, staged, info, copied.spans) is not True for info in unique_indexes(session, rel)):
        changes.discard()
        raise Declined("a unique key")
    return changes


def _target(session: Session, target: CopyTarget, staged: StagedRows, longest: dict[int, int | None]) -> KernelTarget:
    rel = target.relation
    rules = table_rules(session, rel)
    places = {attnum: place for place, attnum in enumerate(longest, 1)}

    def loaded(column: LakeColumn, attribute: Attribute) -> KernelColumn:
        attnum, not_null = column.attnum, attribute.notnull
        if attnum in places:
            return KernelColumn(attnum, places[attnum], None, not_null, longest[attnum])
        return default_column(session, column, target.defaults.get(attnum), not_null=not_null)

    columns = columns_of(session, staged.table.columns, rules, loaded)
    check = check_program(session, rules, bound=rel.is_partition)
    infos = unique_indexes(session, rel)
    return KernelTarget(staged.table, columns, check, tuple(whole_keys(infos, staged)))
