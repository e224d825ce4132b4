"""How types and their modifiers are written."""

from __future__ import annotations

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.names import INTERVAL_FIELDS, format_type, typmod_in

YEAR_TO_MONTH = next(mask for mask, words in INTERVAL_FIELDS.items() if words == " year to month")
DAY_TO_SECOND = next(mask for mask, words in INTERVAL_FIELDS.items() if words == " day to second")


@pytest.mark.parametrize(
    ("oid", "typmod", "written"),
    [
        (oids.INT4, None, "integer"),
        (oids.VARCHAR, 44, "character varying(40)"),
        (oids.VARCHAR, -1, "character varying"),
        (oids.BPCHAR, None, "character"),
        (oids.BPCHAR, -1, "bpchar"),
        (oids.BPCHAR, 7, "character(3)"),
        (oids.BIT, None, "bit"),
        (oids.BIT, -1, '"bit"'),
        (oids.BIT, 3, "bit(3)"),
        (oids.VARBIT, 3, "bit varying(3)"),
        (oids.CHAR, None, '"char"'),
        (oids.NUMERIC, (10 << 16 | 2) + 4, "numeric(10,2)"),
        (oids.NUMERIC, (5 << 16 | 2045) + 4, "numeric(5,-3)"),
        (oids.NUMERIC, -1, "numeric"),
        (oids.TIME, None, "time without time zone"),
        (oids.TIMETZ, 3, "time(3) with time zone"),
        (oids.TIMESTAMP, 0, "timestamp(0) without time zone"),
        (oids.TIMESTAMPTZ, -1, "timestamp with time zone"),
        (oids.INTERVAL, YEAR_TO_MONTH << 16 | 0xFFFF, "interval year to month"),
        (oids.INTERVAL, DAY_TO_SECOND << 16 | 3, "interval day to second(3)"),
        (oids.INTERVAL, 0x7FFF << 16 | 2, "interval(2)"),
        (1007, None, "integer[]"),
        (1015, 44, "character varying(40)[]"),
        (oids.OIDVECTOR, None, "oidvector"),
        (oids.TEXT, 5, "text(5)"),
        (oids.INT4, 5, "integer"),
        (oids.ANY, None, '"any"'),
        (0, None, "-"),
        (99999, None, "???"),
    ],
)
def test_a_type_is_written_as_format_type_writes_it(oid: int, typmod: int | None, written: str) -> None:
    assert format_type(oid, typmod) == written


def test_types_of_the_information_schema_are_qualified() -> None:
    from pgrepl.types.builtin import type_by_name

    row = type_by_name("sql_identifier", "information_schema")
    assert row is not None
    assert format_type(row.oid) == "information_schema.sql_identifier"
    assert format_type(row.array) == "information_schema.sql_identifier[]"


def test_a_type_that_is_not_built_in_is_named_by_who_knows_it() -> None:
    assert format_type(99999, None, {99999: "public.t"}.get) == "public.t"


def test_qualified_names_leave_the_words_of_the_grammar_alone() -> None:
    assert (format_type(oids.TEXT, qualify=True), format_type(oids.INT4, qualify=True)) == (
        "pg_catalog.text",
        "integer",
    )


@pytest.mark.parametrize(
    ("oid", "modifiers", "typmod"),
    [
        (oids.NUMERIC, ["10", "2"], (10 << 16 | 2) + 4),
        (oids.NUMERIC, ["10"], (10 << 16) + 4),
        (oids.NUMERIC, ["3", "-2"], (3 << 16 | 2046) + 4),
        (oids.VARCHAR, ["40"], 44),
        (oids.BPCHAR, ["1"], 5),
        (oids.BIT, ["8"], 8),
        (oids.TIMESTAMP, ["3"], 3),
        (oids.INTERVAL, [str(YEAR_TO_MONTH)], YEAR_TO_MONTH << 16 | 0xFFFF),
        (oids.INTERVAL, ["32767"], -1),
        (oids.INTERVAL, ["32767", "2"], 0x7FFF << 16 | 2),
    ],
)
def test_modifiers_are_read(oid: int, modifiers: list[str], typmod: int) -> None:
    assert typmod_in(oid, modifiers) == typmod


@pytest.mark.parametrize(
    ("oid", "modifiers", "sqlstate", "message"),
    [
        (oids.NUMERIC, ["1", "2", "3"], "22023", "invalid NUMERIC type modifier"),
        (oids.NUMERIC, ["0"], "22023", "NUMERIC precision 0 must be between 1 and 1000"),
        (oids.NUMERIC, ["5", "1001"], "22023", "NUMERIC scale 1001 must be between -1000 and 1000"),
        (oids.NUMERIC, ["x"], "22P02", 'invalid input syntax for type integer: "x"'),
        (oids.VARCHAR, ["0"], "22023", "length for type varchar must be at least 1"),
        (oids.VARCHAR, ["10485761"], "22023", "length for type varchar cannot exceed 10485760"),
        (oids.VARCHAR, ["1", "2"], "22023", "invalid type modifier"),
        (oids.BPCHAR, ["0"], "22023", "length for type char must be at least 1"),
        (oids.BIT, ["0"], "22023", "length for type bit must be at least 1"),
        (oids.VARBIT, ["83886081"], "22023", "length for type varbit cannot exceed 83886080"),
        (oids.TIME, ["-1"], "22023", "TIME(-1) precision must not be negative"),
        (oids.TIMESTAMPTZ, ["-1"], "22023", "TIMESTAMP(-1) WITH TIME ZONE precision must not be negative"),
        (oids.INTERVAL, ["5"], "22023", "invalid INTERVAL type modifier"),
        (oids.INTERVAL, ["32767", "-1"], "22023", "INTERVAL(-1) precision must not be negative"),
        (oids.TEXT, ["5"], "42601", 'type modifier is not allowed for type "text"'),
    ],
)
def test_wrong_modifiers_are_refused(oid: int, modifiers: list[str], sqlstate: str, message: str) -> None:
    with pytest.raises(PgError) as caught:
        typmod_in(oid, modifiers)
    assert (caught.value.sqlstate, caught.value.message) == (sqlstate, message)


def test_a_precision_that_is_too_large_is_cut_with_a_warning() -> None:
    told: list[tuple[str, str]] = []
    assert typmod_in(oids.TIMETZ, ["9"], lambda *warning: told.append(warning)) == 6
    assert told == [("22023", "TIME(9) WITH TIME ZONE precision reduced to maximum allowed, 6")]
