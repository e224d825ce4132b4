"""COPY (FORMAT binary): the bytes and the errors are those of a real server."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import pytest

from pgrepl.types import oids
from pgrepl.types.arrays import array_of
from pgrepl.types.text import write_text
from tests.postgres.side_by_side import SideBySide

VALUES = {
    "bool": ["t", "f"],
    "smallint": ["-32768", "7"],
    "integer": ["-2147483648", "7"],
    "bigint": ["9223372036854775807", "-1"],
    "real": ["1.5", "NaN", "-Infinity", "-0", "3.4e38"],
    "double precision": ["1e-300", "NaN", "Infinity", "-0", "0.1"],
    "numeric": ["0", "0.000", "-1.50", "12345678901234567890.123456789", "1e40", "1e-5", "10000", "NaN", "-Infinity"],
    "numeric(10,3)": ["1234567.891", "-0.001", "0"],
    "text": ["", "a\tb\nc", "żółw 🐢", "\\N"],
    "varchar(5)": ["abc", ""],
    "char(4)": ["ab", ""],
    "name": ["a name"],
    '"char"': ["a", "", "\\377"],
    "bytea": ["\\x", "\\x00ff5c"],
    "date": ["2000-01-01", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity"],
    "time": ["00:00", "24:00", "12:34:56.789012"],
    "time(2)": ["12:34:56.789012"],
    "timetz": ["12:34:56.789+05:30", "00:00-15:59:59"],
    "timestamp": ["2024-02-29 12:34:56.789012", "4713-01-01 00:00 BC", "infinity", "-infinity"],
    "timestamptz": ["2024-02-29 12:34:56.789012+02", "infinity", "-infinity"],
    "interval": ["1 year -2 days 03:04:05.6", "-178000000 years", "0"],
    "interval day to hour": ["3 days 04:05:06"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"a":  [1, 2]}'],
    "jsonpath": ["$.a", '$."b c" ? (@ > 1)'],
    "jsonb": ['{"b": [1, 2], "a": "ż"}', "3.10"],
    "bit(3)": ["101"],
    "bit varying(20)": ["", "1", "10101010", "101010101"],
    "inet": ["192.168.1.5", "10.1.2.3/8", "::1", "2001:db8::1/32", "::ffff:1.2.3.4/120"],
    "cidr": ["192.168.0.0/16", "2001:db8::/32", "0.0.0.0/0"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "oid": ["4294967295"],
    "xid": ["4294967295"],
    "xid8": ["18446744073709551615"],
    "cid": ["5"],
    "tid": ["(4294967295,65535)"],
    "pg_lsn": ["16/B374D848"],
    "pg_snapshot": ["10:20:10,14,15", "10:10:"],
    "txid_snapshot": ["10:20:10,14,15"],
    "oidvector": ["1 2 4294967295"],
    "int2vector": ["1 -2"],
    "regclass": ["pg_class", "16000000"],
    "regtype": ["integer"],
    "regproc": ["now"],
    "regrole": ["postgres"],
    "regnamespace": ["pg_catalog"],
    "refcursor": ["c"],
    "int4range": ["[1,5)", "empty", "(,)", "[3,)", "(,7)"],
    "numrange": ["(1.5,2.50]", "[1,1]", "empty"],
    "tstzrange": ["[2024-01-01 00:00+00,infinity)", "(,)"],
    "daterange": ["[2024-01-01,infinity]"],
    "int8multirange": ["{}", "{[1,3),[5,7)}", "{(,)}"],
    "nummultirange": ["{[1.0,2.0],(3,4)}"],
    "integer[]": ["{}", "{1,NULL,3}"],
    "text[]": ['{a,"b c",NULL,""}'],
    "numeric(5,2)[]": ["{1.5,22.25}"],
    "int4range[]": ['{"[1,2)",empty}'],
}  # fmt: skip
ROW = "CREATE TABLE part (a integer, b text, c numeric(5,2)[], d date)"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def rows_of(typename: str) -> str:
    return ", ".join(f"({n}, {literal(text)})" for n, text in enumerate(VALUES[typename])) + ", (-1, NULL)"


def test_values_of_every_type_cross_in_both_directions(sides: SideBySide) -> None:
    for number, typename in enumerate(VALUES):
        table = f"t{number}"
        sides.run(f"CREATE TABLE {table} (n int, a {typename}); INSERT INTO {table} VALUES {rows_of(typename)}")
        there, here = sides.written(f"(SELECT * FROM {table} ORDER BY n)")
        assert (typename, here) == (typename, there)
        sides.ours(f"CREATE TABLE back{table} (LIKE {table})", f"COPY back{table} FROM '{sides.file}' (FORMAT binary)")
        sides.ours(f"COPY (SELECT * FROM back{table} ORDER BY n) TO '{sides.file}' (FORMAT binary)")
        assert (typename, sides.file.read_bytes()) == (typename, there)


def test_rows_are_records(sides: SideBySide) -> None:
    sides.run(f"{ROW}; CREATE TABLE whole (p part)")
    sides.run("INSERT INTO whole VALUES (ROW(1, 'a', '{1.5,NULL}', '2024-01-01')), (NULL), (ROW(NULL, '', NULL, NULL))")
    there, here = sides.written("(SELECT p FROM whole)")
    assert here == there
    sides.ours("CREATE TABLE again (p part)", f"COPY again FROM '{sides.file}' BINARY")
    assert sides.ours("TABLE again") == sides.ours("SELECT p FROM whole")


SLOT = """
CREATE TABLE sent (n int PRIMARY KEY, a numeric[], b int4range, c inet, d "char", e bit varying, f interval);
CREATE PUBLICATION sends FOR TABLE sent;
SELECT pg_create_logical_replication_slot('%s', 'pgoutput');
INSERT INTO sent VALUES (1, '{1.50,NULL}', '[1,5]', '10.0.0.1/8', 'x', '1011', '1 day');
INSERT INTO sent (n) VALUES (2);
"""
LOOK = (
    "SELECT substr(data, 6) FROM pg_logical_slot_get_binary_changes('%s', NULL, NULL, 'proto_version', '1',"
    " 'publication_names', 'sends', 'binary', 'true') WHERE get_byte(data, 0) = 73"
)


def test_a_slot_of_pgoutput_sends_values_in_binary(sides: SideBySide) -> None:
    slot = f"binary_of_{sides.link.info.dbname}"
    for statement in (SLOT % slot).strip().split("\n"):
        sides.run(statement)
    theirs = [bytes(data) for (data,) in sides.link.execute((LOOK % slot).encode())]
    assert [f"\\x{data.hex()}" for data in theirs] == [data for (data,) in sides.ours(LOOK % slot)]
    sides.run(f"SELECT pg_drop_replication_slot('{slot}')")


def field(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
INT4, INT4S = 23, struct.pack("!iiIii", 1, 0, 23, 1, 1)
WRONG = [
    ("int", b"PGCOPY\n"),
    ("int", b"nothing"),
    ("int", b"PGCOPY\n\xff\r\n\0" + b"\0"),
    ("int", b"PGCOPY\n\xff\r\n\0" + struct.pack("!iI", 1 << 16, 0)),
    ("int", b"PGCOPY\n\xff\r\n\0" + struct.pack("!iI", 1 << 17, 0)),
    ("int", b"PGCOPY\n\xff\r\n\0" + struct.pack("!i", 0)),
    ("int", b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, -1)),
    ("int", b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 5) + b"abc"),
    ("int", HEAD + struct.pack("!h", 2)),
    ("int", HEAD + struct.pack("!h", 1)),
    ("int", HEAD + struct.pack("!hi", 1, -2)),
    ("int", HEAD + struct.pack("!hi", 1, 4) + b"ab"),
    ("int", HEAD + struct.pack("!h", -1) + b"x"),
    ("int", HEAD + struct.pack("!h", 1) + field(bytes(4)) + struct.pack("!h", 1) + field(bytes(8))),
    ("int", HEAD + struct.pack("!h", 1) + field(bytes(2))),
    ("int NOT NULL", HEAD + struct.pack("!hi", 1, -1)),
    ("int CHECK (a > 0)", HEAD + struct.pack("!h", 1) + field(bytes(4))),
    ("text", HEAD + struct.pack("!h", 1) + field(b"a\xff")),
    ("text", HEAD + struct.pack("!h", 1) + field(b"a\0b")),
    ("varchar(2)", HEAD + struct.pack("!h", 1) + field(b"abc")),
    ("date", HEAD + struct.pack("!h", 1) + field(struct.pack("!i", 2**31 - 2))),
    ("time", HEAD + struct.pack("!h", 1) + field(struct.pack("!q", -1))),
    ("timetz", HEAD + struct.pack("!h", 1) + field(struct.pack("!qi", 0, 57600))),
    ("timestamp", HEAD + struct.pack("!h", 1) + field(struct.pack("!q", 2**63 - 2))),
    ("numeric", HEAD + struct.pack("!h", 1) + field(struct.pack("!4H", 0, 0, 1, 0))),
    ("numeric", HEAD + struct.pack("!h", 1) + field(struct.pack("!4H", 0, 0, 0, 0x4000))),
    ("numeric", HEAD + struct.pack("!h", 1) + field(struct.pack("!5H", 1, 0, 0, 0, 10000))),
    ("numeric(3,1)", HEAD + struct.pack("!h", 1) + field(struct.pack("!5H", 1, 0, 0, 0, 9999))),
    ("jsonb", HEAD + struct.pack("!h", 1) + field(b"\2{}")),
    ("json", HEAD + struct.pack("!h", 1) + field(b"{")),
    ("bit(3)", HEAD + struct.pack("!h", 1) + field(struct.pack("!i", 4) + b"\xf0")),
    ("bit varying(3)", HEAD + struct.pack("!h", 1) + field(struct.pack("!i", 4) + b"\xf0")),
    ("bit varying", HEAD + struct.pack("!h", 1) + field(struct.pack("!i", -1))),
    ("inet", HEAD + struct.pack("!h", 1) + field(b"\4\0\0\4abcd")),
    ("inet", HEAD + struct.pack("!h", 1) + field(b"\2\x21\0\4abcd")),
    ("inet", HEAD + struct.pack("!h", 1) + field(b"\2\0\0\5abcde")),
    ("cidr", HEAD + struct.pack("!h", 1) + field(b"\2\0\1\4abcd")),
    ("pg_snapshot", HEAD + struct.pack("!h", 1) + field(struct.pack("!iqq", 0, 5, 4))),
    ("aclitem", HEAD),
    ("int[]", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiI", -1, 0, 23))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiI", 7, 0, 23))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiI", 1, 2, 23))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiI", 1, 0, 25))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiIii", 1, 0, 23, 2**30, 1))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiIii", 1, 0, 23, 2, 2**31 - 1))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(INT4S + struct.pack("!i", 8) + bytes(8))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(INT4S + struct.pack("!i", 8) + bytes(4))),
    ("int[]", HEAD + struct.pack("!h", 1) + field(INT4S + struct.pack("!i", -1) + bytes(4))),
    ("int2vector", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiIii", 1, 0, 21, 1, 1) + field(bytes(2)))),
    ("oidvector", HEAD + struct.pack("!h", 1) + field(struct.pack("!iiIii", 1, 0, 26, 0, 0))),
    ("int4range", HEAD + struct.pack("!h", 1) + field(b"\2" + field(bytes(4)) + field(bytes(4)) + b"\0")),
    ("int4range", HEAD + struct.pack("!h", 1) + field(b"\2" + field(b"\0\0\0\2") + field(b"\0\0\0\1"))),
    ("int4multirange", HEAD + struct.pack("!h", 1) + field(struct.pack("!i", 1))),
    ("part", HEAD + struct.pack("!h", 1) + field(struct.pack("!i", 3))),
    ("part", HEAD + struct.pack("!h", 1) + field(struct.pack("!iI", 4, 25) + field(b"x"))),
]


def test_errors_are_the_servers(sides: SideBySide) -> None:
    sides.run(ROW)
    for number, (typename, data) in enumerate(WRONG):
        sides.run(f"CREATE TABLE w{number} (a {typename})")
        statement = f"COPY w{number} FROM STDIN (FORMAT binary)"
        assert (number, sides.error_of_ours(statement, data)) == (number, sides.error_of_theirs(statement, data))


def random_texts(random: Random) -> Iterator[tuple[str, str | None]]:
    """Types with random values."""
    digits = "".join(random.choices("0123456789", k=random.randint(1, 30)))
    number = f"{random.choice(['', '-'])}{digits}.{''.join(random.choices('0123456789', k=random.randint(0, 20)))}"
    usecs, days = random.randint(-(2**60), 2**60), random.randint(-2_000_000, 2_000_000)
    text = "".join(random.choices("ab\\\"{},' \tżŁ🐢", k=random.randint(0, 12)))
    low, high = sorted(random.choices(range(1, 50), k=2))
    yield "numeric", number
    yield "double precision", repr(struct.unpack("d", random.randbytes(8))[0])
    yield "text", text
    yield "bytea", "\\x" + random.randbytes(random.randint(0, 9)).hex()
    yield "interval", f"{random.randint(-9999, 9999)} months {days} days {usecs // 1000} microseconds"
    yield "timetz", f"{random.randint(0, 23)}:00:{random.random() * 59:.6f}+{random.randint(0, 15)}"
    yield "bit varying", f"{random.getrandbits(40):b}"
    yield "inet", f"{'.'.join(str(random.randint(0, 255)) for _ in range(4))}/{random.randint(0, 32)}"
    yield "inet", f"{random.getrandbits(112):x}"[:4] + f"::{random.getrandbits(16):x}/{random.randint(0, 128)}"
    yield "macaddr", random.randbytes(6).hex(":")
    yield "int4range", f"[{low},{high}{random.choice('])')}"
    yield "numrange", f"({low - 1}.5,{high}.75]"
    yield "int4multirange", f"{{[{low},{high}],[{high + 2},{high + 5})}}"
    yield "text[]", write_text(array_of(oids.TEXT, [text, None, digits, ""]), oids.TEXT_ARRAY)
    yield "numeric[]", f"{{{number},NULL,{digits}}}"


@pytest.mark.slow
def test_random_values_cross_in_both_directions(sides: SideBySide) -> None:
    random = Random(7)
    kinds = [typename for typename, _ in random_texts(random)]
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))
    sides.run(f"CREATE TABLE r ({columns}); CREATE TABLE back (LIKE r)")
    for _ in range(20):
        rows = [f"({', '.join(literal(text or '') for _, text in random_texts(random))})" for _ in range(50)]
        sides.run(f"TRUNCATE r, back; INSERT INTO r VALUES {', '.join(rows)}")
        there, here = sides.written("r")
        assert here == there
        sides.ours(f"COPY back FROM '{sides.file}' (FORMAT binary)")
        assert sides.written("back")[1] == there
