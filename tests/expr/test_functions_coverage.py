"""Which functions there are: everything PostgreSQL has over the dialect's types, but for named exceptions."""

from __future__ import annotations

from pgrepl.expr.functions import own
from pgrepl.expr.functions.registry import source_of
from pgrepl.types import builtin, oids

DIALECT = {
    oids.BOOL, oids.INT2, oids.INT4, oids.INT8, oids.FLOAT4, oids.FLOAT8, oids.NUMERIC, oids.TEXT, oids.VARCHAR,
    oids.BPCHAR, oids.NAME, oids.BYTEA, oids.DATE, oids.TIME, oids.TIMETZ, oids.TIMESTAMP, oids.TIMESTAMPTZ,
    oids.INTERVAL, oids.UUID, oids.JSON, oids.JSONB, oids.PG_LSN, oids.OID, oids.BIT, oids.VARBIT, oids.INET, oids.CIDR,
    oids.MACADDR, oids.TEXT_ARRAY, oids.ANYARRAY, oids.ANYELEMENT, 5077, 5078, 5079,
}  # fmt: skip


def test_every_operator_over_the_dialect_s_types_can_be_computed() -> None:
    missing = []
    for operator in builtin.operators:
        if ({operator.left, operator.right} - {0}) <= DIALECT:
            proc = builtin.proc_by_oid(operator.code)
            assert proc is not None
            if own(source_of(proc)) is None:
                missing.append(f"{operator.name} {proc.src}")
    assert missing == ["@@ ts_match_tt"]  # full text search is not part of the dialect


def test_every_cast_between_the_dialect_s_types_can_be_computed() -> None:
    missing = []
    for cast in builtin.casts:
        if cast.func and {cast.source, cast.target} <= DIALECT:
            proc = builtin.proc_by_oid(cast.func)
            assert proc is not None
            if own(source_of(proc)) is None:
                missing.append(proc.src)
    assert missing == []
