"""What PostgreSQL knows from birth."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pgrepl.types import builtin, oids
from tests.harness.programs import PATIENCE


def test_every_named_oid_is_the_type_of_that_name() -> None:
    named = {
        name: oid
        for name, oid in vars(oids).items()
        if name.isupper() and isinstance(oid, int) and not name.endswith(("COLLATION", "USER_OID"))
    }
    for name, oid in named.items():
        row = builtin.type_by_oid(oid)
        assert row is not None, name
        assert row.name.upper() == (f"_{name.removesuffix('_ARRAY')}" if name.endswith("_ARRAY") else name)


def test_every_row_of_every_catalog_can_be_read() -> None:
    tables = (
        builtin.types,
        builtin.procs,
        builtin.operators,
        builtin.casts,
        builtin.aggregates,
        builtin.collations,
        builtin.ranges,
        builtin.access_methods,
        builtin.opfamilies,
        builtin.opclasses,
        builtin.amops,
        builtin.amprocs,
    )
    assert [len(list(table)) for table in tables] == [617, 3359, 799, 235, 161, 6, 6, 7, 146, 177, 333, 197]


def test_what_rows_refer_to_is_there() -> None:
    types = {row.oid for row in builtin.types}
    procs = {row.oid for row in builtin.procs}
    operators = {row.oid for row in builtin.operators}
    assert {t.array for t in builtin.types} - types == {0}
    assert {p.rettype for p in builtin.procs} - types == set()
    assert {t for p in builtin.procs for t in p.argtypes} - types == set()
    assert {o.code for o in builtin.operators} - procs == set()
    assert {o.negator for o in builtin.operators} - operators == {0}
    assert {c.func for c in builtin.casts} - procs == {0}


def test_functions_are_found_by_name() -> None:
    assert [p.argtypes for p in builtin.procs_by_name("lower")] == [(25,), (3831,), (4537,)]
    (proc,) = builtin.procs_by_name("make_interval")
    assert (proc.argnames, proc.defaults) == (
        ("years", "months", "weeks", "days", "hours", "mins", "secs"),
        ("0", "0", "0", "0", "0", "0", "0.0"),
    )


def test_operators_and_casts_are_found_by_their_types() -> None:
    found = builtin.operator("=", oids.INT4, oids.INT8)
    assert found is not None
    assert (found.result, found.canmerge, found.canhash) == (oids.BOOL, True, True)
    cast = builtin.cast(oids.INT4, oids.INT8)
    assert cast is not None
    assert (cast.context, cast.method) == ("i", "f")
    assert builtin.cast(oids.INT4, oids.DATE) is None


def test_elements_arrays_and_domains() -> None:
    assert builtin.element_type(1007) == oids.INT4
    assert builtin.element_type(oids.OIDVECTOR) == oids.OID
    assert builtin.element_type(oids.NAME) == 0  # has elements, but is no array
    assert builtin.array_type(oids.TEXT) == oids.TEXT_ARRAY
    domain = builtin.type_by_name("cardinal_number", "information_schema")
    assert domain is not None
    assert builtin.base_type(domain.oid) == oids.INT4


def test_operator_classes() -> None:
    opclass = builtin.default_opclass(oids.INT4, 403)
    assert opclass is not None
    assert opclass.name == "int4_ops"
    assert builtin.amproc(opclass.family, oids.INT4, oids.INT4, 1) == 351  # btint4cmp
    strategies = [a.strategy for a in builtin.amops_of_family(opclass.family) if (a.lefttype, a.righttype) == (23, 23)]
    assert sorted(strategies) == [1, 2, 3, 4, 5]


def test_threads_that_ask_first_at_once_all_get_the_whole_answer() -> None:
    interval, threads = sys.getswitchinterval(), 4
    wanted = len(builtin.procs.named("lower"))
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(3):
                table, together = builtin.BuiltinCatalog("pg_proc", builtin.Proc), Barrier(threads)

                def ask(
                    number: int, table: builtin.BuiltinCatalog[builtin.Proc] = table, start: Barrier = together
                ) -> int:
                    start.wait(PATIENCE)
                    return len(table.named("lower"))

                assert list(pool.map(ask, range(threads))) == [wanted] * threads
    finally:
        sys.setswitchinterval(interval)
