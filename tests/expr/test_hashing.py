"""Hash functions: the numbers PostgreSQL 17 gives, which decide where rows of hash-partitioned tables are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.expr.functions import implementation
from pgrepl.expr.functions.registry import Context
from pgrepl.expr.functions.support_functions import hash_int8, type_hash
from pgrepl.expr.partition_hash import integer_hashes, row_hash
from pgrepl.ground.errors import PgError
from pgrepl.types.builtin import procs_by_name, type_by_name
from pgrepl.types.text import read_text

SEED = 8816678312871386365

# SELECT hash…extended(value, 8816678312871386365) in PostgreSQL 17.10
RECORDED = [
    ("int4", "0", -4403592609991167795),
    ("int4", "-1", -5017072347659237694),
    ("int4", "2147483647", -6050265599104649060),
    ("int8", "-5", 5466844944386338076),
    ("int8", "123456789012345", 1245190300417211467),
    ("text", "", -5700645584453517373),
    ("text", "a", -6705225459120232837),
    ("text", "abcdefghijkl", -7876791541613377658),
    ("text", "abcdefghijklm", -6785754114725280077),
    ("text", "äöü €", 3672525259920225528),
    ("numeric", "0", 8816678312871386364),
    ("numeric", "-1.5", 1234047083305210387),
    ("numeric", "10000", -3231555093127941537),
    ("numeric", "100000000.0001", 6699991889628871822),
    ("numeric", "0.00000001", 3231555093127941536),
    ("numeric", "123456.789", -8390360484730815567),
    ("numeric", "1e20", -3231555093127941541),
    ("numeric", "NaN", 8816678312871386365),
    ("numeric", "5000", -1392207227984804233),
    ("float8", "0", 8816678312871386365),
    ("float8", "1.5", -2826383321045882978),
    ("float8", "NaN", -6475869854796787835),
    ("float8", "Infinity", -4970436883654098436),
    ("float4", "1.1", 5226288866980618871),
    ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", 424513190990560493),
    ("timestamp", "2024-01-01 10:00:00.5", -1551277943840585828),
    ("time", "10:11:12", 9124512420139559553),
    ("timetz", "10:11:12+02", -2300680666953212553),
    ("interval", "1 mon 2 days", -1807441896948487867),
    ("interval", "-3 hours", -6697566284208309223),
    ("bpchar", "ab  ", 596009030900183869),
    ("inet", "10.1.2.3/8", -4436950161078454001),
    ("inet", "fe80::1/64", 2208996389506006358),
    ("macaddr", "08:00:2b:01:02:03", 1768134697032482061),
    ("int4[]", "{1,2,NULL}", -8125720686633348035),
    ("text[]", "{a,b}", 9012437789862321145),
    ("pg_lsn", "16/B374D848", -2929327351578850412),
]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


@pytest.mark.parametrize(("type_name", "text", "expected"), RECORDED)
def test_seeded_hashes_are_postgresql_s(type_name: str, text: str, expected: int) -> None:
    is_array = type_name.endswith("[]")
    found = type_by_name(type_name.removesuffix("[]"))
    assert found is not None
    oid = found.array if is_array else found.oid
    assert _signed(type_hash(oid)(read_text(text, oid), SEED)) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("hashtext", "hello world", 1021725223), ("hashint4", 42, 1509752520), ("hashint8", -7, -82204417)],
)
def test_without_a_seed_it_is_the_lower_half(name: str, value: object, expected: int) -> None:
    (proc,) = procs_by_name(name)
    assert implementation(proc, Context()).function(value) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50))
def test_many_integers_at_once_have_the_same_hashes(values: list[int]) -> None:
    together = [int(found) for found in integer_hashes(np.array(values, np.int64))]
    assert together == [row_hash([hash_int8], (value,)) for value in values]


def test_equal_values_have_equal_hashes() -> None:
    numeric = type_by_name("numeric")
    assert numeric is not None
    of = type_hash(numeric.oid)
    assert of(read_text("1.50", numeric.oid), SEED) == of(read_text("1.5", numeric.oid), SEED)
    double = type_by_name("float8")
    assert double is not None
    assert type_hash(double.oid)(0.0, SEED) == type_hash(double.oid)(-0.0, SEED)


def test_a_type_without_hash_function() -> None:
    point = type_by_name("point")
    assert point is not None
    with pytest.raises(PgError, match="could not identify an extended hash function for type point"):
        type_hash(point.oid)
