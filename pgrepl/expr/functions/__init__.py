"""PostgreSQL's built-in functions, by pg_proc.prosrc. Each module has one family of functions, registered as
registry.py describes. Families are imported in order until one of them has the function. Functions that need the
catalog are in other packages; the session knows them (context.Context.catalog_function).

How to add a SQL function to all engines:

1.  Ask how PostgreSQL declares it: `procs_by_name("in_range")` of types/builtin.py gives its prosrc, types, and whether
    it is strict.
2.  Write its form of rows in the module of its family, under `@implements(prosrc)`: a Python function of one row's
    values, which raises PgError with PostgreSQL's SQLSTATE and message. That is all that must be. Every engine now has
    the function: this process, the kernels over Arrow, and Spark, whose executors call it for each row of a batch, but
    for equal arguments once.
3.  Where one of Arrow's kernels gives the same for whole columns, name it: `columns="utf8_length"`. Where it takes
    more, write a function under `@in_columns(prosrc)` in expr/arrow/values.py. Both kernels and Spark's executors use
    it. It may raise Arrow's error for a batch, whose rows are then computed one by one.
4.  Where Spark's own SQL gives the same, and a query of millions of rows shows that it is faster, write it:
    `spark="char_length({})"`, or a function under `@in_spark(prosrc)` in expr/exchange.
5.  Write examples into tests/expr/expressions.txt, and ask a PostgreSQL 17 for the answers
    (tests/expr/make_expressions.py). tests/expr/test_function_forms.py and tests/expr/spark compare all forms over
    random values by themselves. Where 18 says something else, a psql script in tests/postgres/scripts_of_18 is played
    beside a real 18 in each run.
6.  Take its name out of docs/differences.md, "Functions", and tell of it in CHANGELOG.md.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from pgrepl.expr.functions.registry import COLUMNS, SPARK, Context, Implementation, missing, source_of
from pgrepl.types.builtin import Proc

FAMILIES = (
    "comparison",
    "arithmetic",
    "strings",
    "text_format",
    "pattern",
    "casts",
    "arrays",
    "times.datetime",
    "times.intervals",
    "times.zones",
    "times.date_fields",
    "numeric",
    "misc",
    "documents.json",
    "documents.json_changing",
    "documents.json_making",
    "math",
    "binary",
    "containers",
    "network",
    "times.date_formats",
    "number_format",
    "support_functions",
    "documents.json_populate",
)
# names with these prefixes are looked up in the catalog's functions first
_CATALOG_NAMES = (
    "pg", "PG_", "has_", "to_reg", "current", "session_user", "nextval", "currval", "lastval", "setval", "set_config",
    "show_config", "format_type", "getdatabaseencoding", "acl", "row_security", "col_desc", "obj_desc", "shobj_desc",
    "txid_", "xid_age",
)  # fmt: skip


@cache
def own(source: str) -> Implementation | None:
    """The implementation of a function that needs no catalog."""
    for name in FAMILIES:
        implements: Implementation | None = import_module(f"{__name__}.{name}").implements.get(source)
        if implements is not None:
            return implements
    return None


def columns_form(source: str) -> Any:
    """The form of columns: a function, or the name of Arrow's kernel. None: there is none."""
    row = own(source)
    return COLUMNS.get(source) or (None if row is None else row.columns or None)


def spark_form(source: str) -> Any:
    """The form in Spark's SQL: a function, or the SQL. None: there is none."""
    row = own(source)
    return SPARK.get(source) or (None if row is None else row.spark or None)


def find(proc: Proc, context: Context) -> Implementation | None:
    source = source_of(proc)
    if source.startswith(_CATALOG_NAMES):
        return context.catalog_function(source) or own(source)
    return own(source) or context.catalog_function(source)


def implementation(proc: Proc, context: Context) -> Implementation:
    """The implementation of a function; an error when pgrepl does not have it."""
    implements = find(proc, context)
    if implements is None:
        raise missing(proc)
    return implements
