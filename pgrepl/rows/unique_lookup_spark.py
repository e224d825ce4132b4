"""Look-up by Spark of keys of an index over expressions in a large table, for which there are no statistics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pgrepl.engine import choose
from pgrepl.expr.context import Context
from pgrepl.expr.tree import Expr, Var
from pgrepl.lake.ctid import RowPlace
from pgrepl.lake.files import extent
from pgrepl.rows.checks_table_spark import python_rows
from pgrepl.rows.routing_spark import column_names
from pgrepl.types import oids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pgrepl.catalog.session import Session
    from pgrepl.lake.table import LakeTable


def is_large(session: Session, table: LakeTable) -> bool:
    return choose(session, lambda: extent(session, table), if_large=True).on_spark


def rows_with_keys(
    session: Session, table: LakeTable, keys: Sequence[Expr], wanted: Sequence[tuple[Any, ...]], attnums: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """The columns of the rows whose keys (expressions over the table) are among `wanted`, and last the RowPlace."""
    from pgrepl.expr.spark import Statement, equal_key
    from pgrepl.lake import scan, spark

    statement = Statement(Context(session))
    names = [f"c{attnum}" for attnum in attnums]
    made = [f"{equal_key(key, column_names, statement)} AS k{n}" for n, key in enumerate(keys)]
    rows = scan.frame(session, table, attnums, places=True)
    rows = statement.run(spark.session(), f"SELECT {', '.join([*names, 'place', *made])} FROM {{f}}", {"f": rows})
    shown = [Var(key.type, typmod=key.typmod, collation=key.collation, attnum=n) for n, key in enumerate(keys, 1)]
    made = [f"{equal_key(var, column_names, statement)} AS k{n}" for n, var in enumerate(shown)]
    few = statement.run(spark.session(), f"SELECT {', '.join(made)} FROM {{f}}", {"f": _values(keys, wanted)})
    on = " AND ".join(f"a.k{n} <=> b.k{n}" for n in range(len(keys)))
    columns = ", ".join(f"a.{name}" for name in [*names, "place.file", "place.pos", "place.row"])
    text = f"SELECT {columns} FROM {{rows}} a LEFT SEMI JOIN {{few}} b ON {on}"
    types = [(table.column(attnum).typoid, table.column(attnum).typmod) for attnum in attnums]
    place = [(oids.INT8, -1)] * 3
    for row in python_rows(statement.run(spark.session(), text, {"rows": rows, "few": few}), [*types, *place]):
        yield (*row[:-3], RowPlace(*row[-3:]))


def _values(keys: Sequence[Expr], wanted: Sequence[tuple[Any, ...]]) -> DataFrame:
    """The wanted keys, as columns c1 … cn."""
    import pyarrow as pa

    from pgrepl.lake.scan import arrow_frame, storage_array
    from pgrepl.types.lake_forms import form

    forms = [form(key.type, key.typmod) for key in keys]
    arrays = [storage_array(kind.to_array([each[n] for each in wanted])) for n, kind in enumerate(forms)]
    return arrow_frame(
        pa.table(arrays, names=[f"c{n}" for n in range(1, len(keys) + 1)]), [kind.spark for kind in forms]
    )
