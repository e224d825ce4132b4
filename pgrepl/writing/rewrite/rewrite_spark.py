"""ALTER TABLE over many rows: Spark rewrites them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.errors import Declined, PgError
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Query, Target
from pgrepl.rows.checks_table import own
from pgrepl.rows.routing_spark import condition_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.write import Write
    from pgrepl.writing.nextval_spark import Numbered
    from pgrepl.writing.rewrite.values import NewColumnValue, Rewrite

_ROW = "__row"


def new_rows(session: Session, each: Rewrite) -> DataFrame:
    """The rows of a table as they become, with their row ids; or Declined."""
    from pgrepl.expr.spark import Statement
    from pgrepl.lake import scan, spark
    from pgrepl.writing.nextval_spark import numbered

    statement = Statement(Context(session))
    rel = each.relation
    values, numbers = _without_numbers(each)
    try:
        plain = {v.attnum: condition_text(own(v.expr, rel), statement) for v in values if not v.generates}
        generated = {v.attnum: condition_text(own(v.expr, rel), statement) for v in values if v.generates}
    except PgError as error:
        if error.sqlstate != "0A000":
            raise
        raise Declined(error.message) from error
    attnums = [column.attnum for column in each.was.columns]
    frame = scan.frame(session, each.was, attnums, each.snapshot, places=True)
    columns = [f"c{attnum}" for attnum in attnums if attnum not in plain and not rel.attributes[attnum - 1].dropped]
    columns += [f"{text} AS c{attnum}" for attnum, text in plain.items()]
    text = f"SELECT {', '.join([*columns, f'place.row AS {_ROW}'])} FROM {{f}}"
    frame = statement.run(spark.session(), text, {"f": frame})
    if numbers:
        frame, _ = numbered(session, frame, numbers)
    if generated:
        kept = [name for name in frame.columns if name not in {f"c{attnum}" for attnum in generated}]
        made = [f"{text} AS c{attnum}" for attnum, text in generated.items()]
        frame = statement.run(spark.session(), f"SELECT {', '.join([*kept, *made])} FROM {{f}}", {"f": frame})
    return frame


def _without_numbers(each: Rewrite) -> tuple[list[NewColumnValue], list[Numbered]]:
    """The values with NULL in place of numbers of sequences, and the columns of these numbers."""
    from pgrepl.writing.nextval_spark import without_numbers

    query = Query(tuple(Target(v.expr, "", n) for n, v in enumerate(each.values, 1)))
    query, found = without_numbers(query)
    values = [replace(v, expr=t.expr) for v, t in zip(each.values, query.targets, strict=True)]
    return values, [replace(number, place=each.values[number.place - 1].attnum) for number in found]


def write_rows(session: Session, each: Rewrite, frame: DataFrame, write: Write) -> None:
    """Stage the files of the new rows and the deletion of the old ones."""
    from pgrepl.lake.stage import locate, row_ids_of, write_frame

    files = write_frame(session, write.table, frame, _ROW)
    write.insert_files(files)
    places = locate(session, each.was, row_ids_of(write.table, files), each.snapshot)
    for file_id, positions in places.files.items():
        write.delete_positions(file_id, positions)
    write.delete_inlined([int(row) for row in places.inlined])
