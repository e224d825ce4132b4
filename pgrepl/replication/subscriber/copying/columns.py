"""An initial copy from a lake by kernels over Arrow, in this process or as tasks of Spark; what they cannot do is
`Declined`.

Integers of another size and texts of another length are cast; other types are converted through the text of each
value. Columns that are not sent get NULL, or a default that is the same for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.catalog.facts.relation import Attribute, Relation
from pgrepl.engine import choice, spark
from pgrepl.engine.run_kernels import KernelTarget, WrongRow, copy
from pgrepl.ground.errors import Declined, PgError
from pgrepl.lake.read.files import last_snapshot
from pgrepl.replication.publisher.tables import LakeSources
from pgrepl.replication.subscriber.apply.target import converted, copied, is_same, match_columns
from pgrepl.replication.wire.messages import SentColumn, SentRelation
from pgrepl.rows.checks_columns import check_form, check_program, columns_of, keys_differ, whole_keys
from pgrepl.rows.checks_table import table_rules
from pgrepl.rows.keys_spark import SparkIndex
from pgrepl.rows.staged import StagedRows
from pgrepl.rows.unique import unique_indexes

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.engine.copy_rows import KernelColumn
    from pgrepl.engine.run_kernels import KernelSource
    from pgrepl.lake.table import LakeColumn


def stage_columns(
    session: Session,
    table: Relation,
    source: LakeSources,
    sent: SentRelation,
    *,
    on_spark: bool,
    check: Callable[[], None],
) -> StagedRows:
    """The rows as files. Raises Declined if kernels cannot copy the table, WrongRow if a row has an error."""
    if table.kind == "p":
        raise Declined("a partitioned table")
    staged = StagedRows(session, table, last_snapshot(session))
    sources = source.sources()
    target = _target(session, staged, sent, sources)
    copied = copy(session, sources, target, on_spark=on_spark, check=check)
    staged.add_files(copied.files)
    try:
        for info in unique_indexes(session, table):
            if info.immediate and staged.files:  # those of deferrable constraints are checked by triggers
                _check_keys(session, staged, info, copied.spans)
    except (PgError, Declined, WrongRow):
        staged.write.discard()
        raise
    return staged


def _check_keys(session: Session, staged: StagedRows, info: Any, spans: Any) -> None:
    differ = keys_differ(session, staged, info, spans)
    if differ is False:
        raise WrongRow(f'two rows have one key of index "{info.name}"')
    if differ is None:
        choice.require_spark(session, f'the keys of index "{info.name}"')

        with spark.described(f"unique index {info.name}"):
            SparkIndex(session, staged, info).check()


# --- columns ----------------------------------------------------------------------------------------------------------


def _target(session: Session, staged: StagedRows, sent: SentRelation, sources: list[KernelSource]) -> KernelTarget:
    table = staged.relation
    places = match_columns(session, table, sent)

    def received(column: LakeColumn, attribute: Attribute) -> KernelColumn | None:
        place = places[column.attnum - 1]
        return None if place < 0 else made_column(session, sent.columns[place], column, attribute, place, sources)

    rules = table_rules(session, table)
    columns = columns_of(session, staged.table.columns, rules, received)
    infos = [info for info in unique_indexes(session, table) if info.immediate]
    check = check_program(session, rules, bound=table.is_partition)
    return KernelTarget(staged.table, columns, check, tuple(whole_keys(infos, staged)))


def made_column(
    session: Session,
    sent: SentColumn,
    target: LakeColumn,
    attribute: Attribute,
    place: int,
    sources: Sequence[KernelSource],
) -> KernelColumn:
    """The column as it is, by a cast, or through the text of each value."""
    kept = [source.table.column(source.columns[place]) for source in sources]
    made = copied(sent, attribute, place)
    if made is not None:
        for source in kept:
            _check_form(source, target, same=is_same(sent, attribute))
        return made
    if len({(column.attnum, column.kept_alike) for column in kept}) > 1:
        raise Declined(f'column "{target.name}", which partitions keep in other ways')
    if target.has_dimensions:
        raise Declined("arrays of several dimensions")
    check_form(target, attribute.type, attribute.typmod)
    check_form(kept[0], sent.type, sent.typmod)
    return converted(session, replace(sent, kept=kept[0].kept_alike), attribute, kept[0].attnum - 1)


def _check_form(source: LakeColumn, target: LakeColumn, *, same: bool) -> None:
    """Declined unless both types have the same lake form, or are integers of two sizes."""
    kinds = {source.form.lake, target.form.lake}
    if len(kinds) > 1 and (same or not kinds <= {"int16", "int32", "int64"}):
        raise Declined(f'column "{target.name}" is kept as {source.form.lake}')
