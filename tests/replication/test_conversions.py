"""What a column of another type holds by columns is what it holds message by message, or the columns are declined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pgrepl.catalog.facts.relation import Attribute
from pgrepl.catalog.session.session import Session
from pgrepl.engine.copy_rows import RowMaker
from pgrepl.ground.errors import Declined, PgError
from pgrepl.replication.subscriber.apply.target import converted
from pgrepl.replication.wire.messages import SentColumn
from pgrepl.replication.wire.values import WIRE_STYLE
from pgrepl.types import oids
from pgrepl.types.lake.arrays import Form, annotated, plain_array
from pgrepl.types.lake.forms import form
from pgrepl.types.text import reader, writer
from tests.harness.database import visit

Type = tuple[int, int]  # OID and type modifier


def numeric(precision: int, scale: int) -> Type:
    return oids.NUMERIC, (precision << 16 | scale & 0x7FF) + 4


TEXTS = (
    "", "a", "ab", "abc", "abcd", "abc   ", "  abc", " ", "ä€", "t", "true", "1", " 12 ", "+7", "007", "0x1F", "1_000",
    "1.5", "-1", "1e3", "NaN", "-Infinity", "32768", "{1,2}", '{"b": 1, "a": [1.0, null]}', "null", "\\x00ff",
    "2024-02-30", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
)  # fmt: skip
NUMBERS = ("0", "1", "-1", "9", "10", "99", "127", "32767", "-32768")
WIDE = (*NUMBERS, "32768", "2147483647", "-2147483648")
NUMERICS = ("0", "1", "-1", "1.5", "-1.5", "0.005", "-0.005", "99.995", "1000000")
SMALL = ("0", "0.0000000001", "-0.0000001", "1.5", "123456.7")
FLOATS = ("0", "-0", "1", "0.1", "1.5", "-2.5", "1e20", "1e-7", "NaN", "Infinity", "-Infinity", "123456789")
VALUES: dict[Type, tuple[str, ...]] = {
    (oids.INT2, -1): NUMBERS,
    (oids.INT4, -1): WIDE,
    (oids.INT8, -1): (*WIDE, "2147483648", "9223372036854775807"),
    (oids.OID, -1): ("0", "1", "4294967295"),
    numeric(6, 2): NUMERICS[:-1],
    numeric(12, 4): NUMERICS,
    numeric(20, 10): SMALL,
    numeric(40, 2): NUMERICS,
    numeric(3, -2): ("0", "100", "-99900"),
    (oids.NUMERIC, -1): (*NUMERICS, *SMALL, "1.50", "NaN", "Infinity", "-Infinity", "1e30"),
    (oids.TEXT, -1): TEXTS,
    (oids.VARCHAR, -1): TEXTS,
    (oids.VARCHAR, 7): ("", "a", "abc", " "),
    (oids.BPCHAR, 7): ("", "a", "abc", " "),
    (oids.BPCHAR, 9): ("", "a", "abc", "abcde", "1", "t"),
    (oids.BPCHAR, -1): ("", "a", "abc  ", "1"),
    (oids.NAME, -1): ("", "a", "abcd"),
    (oids.CHAR, -1): ("", "a", "t", "1"),
    (oids.FLOAT4, -1): FLOATS,
    (oids.FLOAT8, -1): (*FLOATS, "1e300", "0.30000000000000004"),
    (oids.BOOL, -1): ("t", "f"),
    (oids.DATE, -1): ("2024-02-29", "infinity", "-infinity", "0044-03-15 BC"),
    (oids.TIME, -1): ("00:00:00", "23:59:59.999999", "24:00:00"),
    (oids.TIME, 0): ("12:34:56",),
    (oids.TIMESTAMP, -1): ("2024-02-29 23:59:59.999999", "infinity", "-infinity", "0044-03-15 00:00:00 BC"),
    (oids.TIMESTAMP, 0): ("2024-02-29 23:59:59",),
    (oids.TIMESTAMPTZ, -1): ("2024-02-29 23:59:59.987654+00", "infinity", "0044-03-15 00:00:00+00 BC"),
    (oids.TIMESTAMPTZ, 3): ("2024-02-29 23:59:59.987+00",),
    (oids.INTERVAL, -1): ("1 mon 2 days 03:04:05.6",),
    (oids.UUID, -1): ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
    (oids.JSON, -1): ('{"b": 1,   "a": [1.0, null]}', "1", "null", '"x"'),
    (oids.JSONB, -1): ('{"b": 1, "a": [1.0, null]}', "1", "null", '"x"'),
    (oids.BYTEA, -1): ("\\x", "\\x00ff", "\\x616263"),
    (oids.BIT, 4): ("1010",),
    (oids.BIT, 3): ("101",),
    (oids.VARBIT, 3): ("", "101"),
    (oids.INTERVAL, (0x7FFF << 16) | 0): ("1 day 00:00:01",),
    (oids.TIMETZ, 1): ("12:34:56.5+00",),
    (oids.VARBIT, -1): ("", "1", "1010"),
    (oids.TIMETZ, -1): ("12:34:56.5+05:30", "24:00:00+00"),
    (oids.MACADDR, -1): ("08:00:2b:01:02:03",),
    (oids.INET, -1): ("10.0.0.1", "10.0.0.0/24", "::1"),
    (oids.CIDR, -1): ("10.0.0.0/24",),
    (3904, -1): ("empty", "[1,5)", "(,5)"),  # int4range
    (3906, -1): ("[1.50,2]",),  # numrange
    (1187, -1): ('{"1 mon",NULL}', '{"1 day 01:00:00"}'),  # interval[]
    (1007, -1): ("{}", "{1,NULL,3}", "[0:1]={1,2}"),  # int4[]
    (1016, -1): ("{}", "{1,NULL,3}"),  # int8[]
    (1009, -1): ("{}", '{a,NULL,"b c"}', '{1,"NULL","","a\\\\b","x\\"y"}'),  # text[]
    (2951, -1): ("{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}",),  # uuid[]
}


@dataclass(frozen=True)
class Only:
    """A table of one column."""

    typoid: int
    form: Form

    def column(self, attnum: int) -> Only:
        return self


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder: Path = tmp_path_factory.mktemp("conversions")
    with visit(folder / "catalog.db") as session:
        yield session


def by_columns(session: Session, source: Type, target: Type, value: Any) -> Any:
    """The column that holds the value; None: it is declined, or the value has an error."""
    sent, kept = form(*source), form(*target)
    column = converted(session, SentColumn("c", *source, is_key=False), Attribute(1, "c", *target), 0)
    maker = RowMaker(Only(source[0], sent), Only(target[0], kept), [column], None)  # type: ignore[arg-type]
    return annotated(maker.made({1: plain_array(sent.to_array([value]))}, 1)[1], kept.arrow())


def by_message(source: Type, target: Type, value: Any) -> Any:
    """As `TargetTable` converts it."""
    if source != target and value is not None:
        value = reader(target[0])(writer(source[0])(value, WIRE_STYLE), target[1], WIRE_STYLE)
    return form(*target).to_array([value])


def outcome(make: Any, *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except (Declined, PgError):
        return None


@pytest.mark.parametrize("source", VALUES, ids=str)
def test_a_column_of_another_type(session: Session, source: Type) -> None:
    values = [None, *[reader(source[0])(text, source[1], WIRE_STYLE) for text in VALUES[source]]]
    wrong = []
    for target in VALUES:
        for value in values:
            found = outcome(by_columns, session, source, target, value)
            expected = outcome(by_message, source, target, value)
            if found is not None and not (expected is not None and same(found, expected)):
                wrong.append((target, value, f"{found}", f"{expected}"))
    assert wrong == []


def same(one: pa.Array, other: pa.Array) -> bool:
    if pa.types.is_floating(one.type):  # NaN is NaN
        one, other = one.cast(pa.string()), other.cast(pa.string())
    return bool(one.equals(other))
