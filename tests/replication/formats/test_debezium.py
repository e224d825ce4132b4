"""Debezium's events, as its documentation shows them."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.registry import reader
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UPDATE
from pgrepl.types import oids
from pgrepl.types.builtin import array_type
from pgrepl.types.names import numeric_typmod
from tests.replication.formats.reading import changes, read, typed

SOURCE = {"version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1700000000123,
          "snapshot": "false", "db": "shop", "sequence": '["24023119","24023128"]', "ts_us": 1700000000123456,
          "schema": "public", "table": "t", "txId": 555, "lsn": 24023128, "xmin": None}  # fmt: skip
PLACEHOLDER = "__debezium_unavailable_value"


def event(op: str, after: Any = None, before: Any = None, **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE | source, "transaction": None, "op": op,
            "ts_ms": 1700000000200}  # fmt: skip


def lines(*records: Any, spaces: bool = False) -> str:
    separators = None if spaces else (",", ":")
    return "".join(json.dumps(each, separators=separators, ensure_ascii=False) + "\n" for each in records)


def schema(**fields: Any) -> dict[str, Any]:
    row = [{"optional": True, "field": name, **about} for name, about in fields.items()]
    sides = [{"type": "struct", "fields": row, "optional": True, "field": side} for side in ("before", "after")]
    return {"type": "struct", "fields": sides, "optional": False, "name": "shop.public.t.Envelope"}


def with_schema(about: dict[str, Any], *payloads: Any) -> str:
    return lines(*[{"schema": about, "payload": each} for each in payloads])


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("spaces", [False, True])
def test_each_operation(spaces: bool) -> None:
    row = {"id": 9223372036854775807, "name": 'it\'s "ä", \\ and\nso on', "f": 1.10, "ok": True, "none": None}
    text = lines(
        event("r", row), event("c", row), event("u", row, {"id": 1}), event("d", None, {"id": 1}), event("t"),
        spaces=spaces,
    )  # fmt: skip
    new = {"id": "9223372036854775807", "name": row["name"], "f": "1.1", "ok": "true", "none": None}
    assert changes("debezium", text) == [
        (INSERT, "public.t", new, None),
        (INSERT, "public.t", new, None),
        (UPDATE, "public.t", new, {"id": "1"}),
        (DELETE, "public.t", None, {"id": "1"}),
        (TRUNCATE, "public.t", None, None),
    ]
    snapshot, insert, *_ = read("debezium", text)
    assert not isinstance(insert, str) and not isinstance(snapshot, str)
    assert (insert.xid, insert.lsn, insert.at, insert.snapshot) == ("555", 24023128, 1700000000123456, False)
    assert snapshot.snapshot


def test_records_without_a_change_are_passed_over() -> None:
    metadata = {"status": "BEGIN", "id": "555:24023128", "ts_ms": 1, "event_count": None, "data_collections": None}
    message = event("m") | {"message": {"prefix": "p", "content": "YQ=="}}
    text = lines(event("c", {"id": 1}), None, metadata, {"ts_ms": 1}, message) + "\n\nnull\r\n" + lines(event("t"))
    assert [each[0] for each in changes("debezium", text)] == [INSERT, TRUNCATE]


def test_values_by_their_schema() -> None:
    about = schema(
        d={"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        v={"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
        day={"type": "int32", "name": "io.debezium.time.Date"},
        day2={"type": "int32", "name": "org.apache.kafka.connect.data.Date"},
        t3={"type": "int32", "name": "io.debezium.time.Time"},
        t6={"type": "int64", "name": "io.debezium.time.MicroTime"},
        t9={"type": "int64", "name": "io.debezium.time.NanoTime"},
        ts3={"type": "int64", "name": "io.debezium.time.Timestamp"},
        ts6={"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        ts9={"type": "int64", "name": "io.debezium.time.NanoTimestamp"},
        tsc={"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        tz={"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        i={"type": "int64", "name": "io.debezium.time.MicroDuration"},
        b={"type": "bytes"},
        bits={"type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "10"}},
        a={"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date", "optional": True}},
        s={"type": "array", "items": {"type": "string"}},
        j={"type": "string", "name": "io.debezium.data.Json"},
        p={"type": "struct", "name": "io.debezium.data.geometry.Point"},
    )
    row = {
        "d": encoded((12345).to_bytes(2, "big")), "v": {"scale": 3, "value": encoded(b"\xff")}, "day": 19782,
        "day2": -1, "t3": 3723004, "t6": 3723000004, "t9": 3723000004500, "ts3": 1529507596945,
        "ts6": 1529507596945104, "ts9": 1529507596945104400, "tsc": -1, "tz": "2018-06-20T13:37:03.123456Z",
        "i": 90061500000, "b": encoded(b"\x00\xff"), "bits": encoded(b"\x05\x02"), "a": [0, None], "s": ["a b", None],
        "j": '{"x": 1.10}', "p": {"x": 1.5, "y": 2, "wkb": "", "srid": None},
    }  # fmt: skip
    found = {
        "d": "123.45", "v": "-0.001", "day": "2024-02-29", "day2": "1969-12-31", "t3": "01:02:03.004",
        "t6": "01:02:03.000004", "t9": "01:02:03.000005", "ts3": "2018-06-20 15:13:16.945",
        "ts6": "2018-06-20 15:13:16.945104", "ts9": "2018-06-20 15:13:16.945104", "tsc": "1969-12-31 23:59:59.999",
        "tz": "2018-06-20T13:37:03.123456Z", "i": "25:01:01.5", "b": "\\x00ff", "bits": "1000000101",
        "a": "{1970-01-01,NULL}", "s": '{"a b",NULL}', "j": '{"x": 1.10}', "p": "(1.5,2)",
    }  # fmt: skip
    text = with_schema(about, event("c", row), event("u", row, dict.fromkeys(row)))
    assert changes("debezium", text) == [
        (INSERT, "public.t", found, None),
        (UPDATE, "public.t", found, dict.fromkeys(row)),
    ]


def test_decimals_of_every_size_read_by_columns() -> None:
    numbers = [0, 1, -1, 127, 128, -128, -129, 2**31, -(2**47), 2**63 - 1, -(2**63), 10**30, 999999999999]
    about = schema(d={"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}})

    def base64_of(number: int) -> str:
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return encoded(number.to_bytes(size, "big", signed=True))

    for part in (numbers, numbers[:10]):
        text = with_schema(about, *[event("c", {"d": base64_of(number)}) for number in [*part, *part]])
        shown = [f"{'-' if each < 0 else ''}{abs(each) // 100}.{abs(each) % 100:02}" for each in [*part, *part]]
        assert [each[2]["d"] for each in changes("debezium", text)] == shown


def test_infinities_and_years_before_christ() -> None:
    about = schema(
        ts={"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        tz={"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        d={"type": "int32", "name": "io.debezium.time.Date"},
    )
    rows = [
        {"ts": 9223372036825200000, "tz": "+294247-01-10T04:00:25.200Z", "d": 2147483647},
        {"ts": -9223372036832400000, "tz": "-290308-12-21T19:59:27.6Z", "d": -2147483648},
        {"ts": -63549360000000000, "tz": "-0043-03-15T00:00:00Z", "d": -735525},
        {"ts": 0, "tz": "0000-03-15T00:00:00Z", "d": 0},
        {"ts": 0, "tz": "+10000-03-15T00:00:00Z", "d": 0},
    ]
    found = changes("debezium", with_schema(about, *[event("c", row) for row in rows]))
    assert [list(each[2].values()) for each in found] == [
        ["infinity", "infinity", "infinity"],
        ["-infinity", "-infinity", "-infinity"],
        ["0045-03-15 00:00:00 BC", "0044-03-15T00:00:00Z BC", "0045-03-15 BC"],
        ["1970-01-01 00:00:00", "0001-03-15T00:00:00Z BC", "1970-01-01"],
        ["1970-01-01 00:00:00", "10000-03-15T00:00:00Z", "1970-01-01"],
    ]


TABLE = typed(
    n=(oids.NUMERIC, numeric_typmod(10, 2)), u=(oids.NUMERIC, -1), d=(oids.DATE, -1), t=(oids.TIME, -1),
    t3=(oids.TIME, 3), ts=(oids.TIMESTAMP, -1), ts3=(oids.TIMESTAMP, 3), b=(oids.BYTEA, -1), bit=(oids.BIT, 1),
    i=(oids.INTERVAL, -1), a=(array_type(oids.INT4), -1), j=(oids.JSONB, -1),
)  # fmt: skip


def test_values_without_a_schema_by_the_declared_columns() -> None:
    row = {
        "n": encoded((12345).to_bytes(2, "big")), "u": {"scale": 1, "value": encoded(b"\x0f")}, "d": 19782,
        "t": 3723000004, "t3": 3723004, "ts": 1529507596945104, "ts3": 1529507596945, "b": encoded(b"\xff"),
        "bit": True, "i": 1500000, "a": [1, None, 3], "j": '{"x":1}',
    }  # fmt: skip
    found = {
        "n": "123.45", "u": "1.5", "d": "2024-02-29", "t": "01:02:03.000004", "t3": "01:02:03.004",
        "ts": "2018-06-20 15:13:16.945104", "ts3": "2018-06-20 15:13:16.945", "b": "\\xff", "bit": "1",
        "i": "00:00:01.5", "a": "{1,NULL,3}", "j": '{"x":1}',
    }  # fmt: skip
    plain = {name: value for name, value in row.items() if name not in ("u", "a")}
    assert changes("debezium", lines(event("c", row)), TABLE) == [(INSERT, "public.t", found, None)]
    ((_, _, new, _),) = changes("debezium", lines(event("c", plain)), TABLE)
    assert new == {name: found[name] for name in plain}


def test_how_the_connector_encodes_is_said_by_options() -> None:
    row = {"n": "12.50", "ts": 1529507596945, "b": "00ff"}
    found = {"n": "12.50", "ts": "2018-06-20 15:13:16.945", "b": "\\x00ff"}
    options = {"decimal_handling_mode": "string", "time_precision_mode": "connect", "binary_handling_mode": "hex"}
    ((_, _, new, _),) = changes("debezium", lines(event("c", row)), TABLE, **options)
    assert new == found
    with pytest.raises(PgError) as caught:
        reader("debezium", {"decimal_handling_mode": "exact"})
    assert caught.value.report.hint == "Available values: precise, double, string."
    with pytest.raises(PgError, match='format "debezium" has no option "op"'):
        reader("debezium", {"op": "x"})


@pytest.mark.parametrize("mode", ["precise", "string", None])
def test_numerics_without_a_schema_read_by_columns(mode: str | None) -> None:
    options = {} if mode is None else {"decimal_handling_mode": mode}
    precise = mode == "precise"
    shown = ["-0.01", "12.50", "123456.78"]
    sent = [encoded(int(each.replace(".", "")).to_bytes(4, "big", signed=True)) for each in shown] if precise else shown
    found = changes("debezium", lines(*[event("c", {"n": each}) for each in sent]), TABLE, **options)
    assert [each[2]["n"] for each in found] == shown


def test_a_value_that_may_mean_two_things_is_not_guessed() -> None:
    assert changes("debezium", lines(event("c", {"n": "1250"}), event("c", {"n": "12.50"})), TABLE) == [
        '22P02: could not read in.txt, record 1: column "n": "1250" may be a number or its encoded bytes; '
        "set decimal_handling_mode as the connector has it",
        (INSERT, "public.t", {"n": "12.50"}, None),
    ]
    assert changes("debezium", with_schema(schema(b={"type": "string"}), event("c", {"b": "00ff"})), TABLE) == [
        '22P02: could not read in.txt, record 1: column "b": bytes are encoded as a text; '
        "set binary_handling_mode as the connector has it"
    ]


@pytest.mark.parametrize(
    "value", [PLACEHOLDER, encoded(PLACEHOLDER.encode()), [PLACEHOLDER], {PLACEHOLDER: PLACEHOLDER},
              list(PLACEHOLDER.encode())]
)  # fmt: skip
def test_unchanged_toast_values_are_not_sent(value: Any) -> None:
    text = lines(event("u", {"id": 1, "big": value}), event("u", {"id": 2, "big": "x"}))
    assert changes("debezium", text) == [
        (UPDATE, "public.t", {"id": "1"}, None),
        (UPDATE, "public.t", {"id": "2", "big": "x"}, None),
    ]
    assert changes("debezium", lines(event("u", {"a": "gone"})), unavailable_value_placeholder="gone") == [
        (UPDATE, "public.t", {}, None)
    ]


def test_flattened_rows() -> None:
    text = lines(
        {"id": 1, "name": "a", "__op": "c", "__table": "t", "__schema": "public", "__lsn": 26, "__source_ts_ms": 5},
        {"id": 1, "name": "b", "__op": "u", "__deleted": "false"},
        {"id": 1, "name": "b", "__deleted": "true"},
        {"id": 1, "name": "b"},
        {"id": 1, "name": "b", "__op": "x"},
    )
    assert changes("debezium", text) == [
        (INSERT, "public.t", {"id": "1", "name": "a"}, None),
        (UPDATE, None, {"id": "1", "name": "b"}, None),
        (DELETE, None, None, {"id": "1", "name": "b"}),
        "22P02: could not read in.txt, record 4: the record does not say its operation; add op to the add.fields of "
        "ExtractNewRecordState",
        "22P02: could not read in.txt, record 5: unrecognized operation x: __op is one of c, r, u, d, t",
    ]
    first = read("debezium", text)[0]
    assert not isinstance(first, str) and (first.lsn, first.at) == (26, 5000)
    about = {"type": "struct", "fields": [{"type": "int32", "name": "io.debezium.time.Date", "field": "d"}]}
    assert changes("debezium", with_schema(about, {"d": 0, "__op": "c"})) == [(INSERT, None, {"d": "1970-01-01"}, None)]


def test_other_databases_positions() -> None:
    mysql = {"connector": "mysql", "db": "inventory", "table": "t", "server_id": 1, "gtid": None,
             "file": "mysql-bin.000003", "pos": 154, "row": 0, "ts_ms": 5, "snapshot": "false"}  # fmt: skip
    (found,) = read("debezium", lines({"before": None, "after": {"id": 1}, "source": mysql, "op": "c"}))
    assert not isinstance(found, str)
    assert (found.schema, found.lsn, found.at, found.xid) == ("inventory", 3 << 32 | 154, 5000, None)
    block = event("c", {"id": 1}, txId=None) | {"transaction": {"id": "571:99", "total_order": 1}}
    (other,) = read("debezium", lines(block))
    assert not isinstance(other, str) and other.xid == "571"


def test_bad_records_are_told_one_by_one_among_good_ones() -> None:
    good = lines(event("c", {"id": 1}))
    text = good + '{"op":\n' + good + lines(event("c"), event("q", {"id": 1}), [1], {"op": 3, "after": {}}) + good
    assert changes("debezium", text) == [
        (INSERT, "public.t", {"id": "1"}, None),
        "22P02: could not read in.txt, record 2: invalid JSON: Expecting value at column 7",
        (INSERT, "public.t", {"id": "1"}, None),
        '22P02: could not read in.txt, record 4: the event has no "after", but "op" is c',
        '22P02: could not read in.txt, record 5: unrecognized operation q: "op" is one of c, r, u, d, t',
        "22P02: could not read in.txt, record 6: it is no JSON object",
        '22P02: could not read in.txt, record 7: unrecognized operation 3: "op" is one of c, r, u, d, t',
        (INSERT, "public.t", {"id": "1"}, None),
    ]


def test_many_events_of_several_tables_with_all_that_may_stand_in_strings() -> None:
    words = ["plain", "a, b", 'quote "', "back\\slash", "\\", '\\"', '","id":5,"', "ä €", "line\nfeed", "", "}", None,
             "\u0001", "tab\t", '"']  # fmt: skip
    records = []
    for number in range(3000):
        row = {"id": number, "a": words[number % 15], "b": words[number // 15 % 15], "n": number / 8}
        op = "cud"[number % 3]
        table = "t" if number % 7 else "other"
        after = None if op == "d" else row if table == "t" else {"x": number}
        records.append(event(op, after, {"id": number} if op != "c" else None, table=table, lsn=number))
        if number % 500 == 0:
            records.append(None)
    found = changes("debezium", lines(*records))
    wanted = [each for each in records if each is not None]
    assert len(found) == len(wanted)
    for each, record in zip(found, wanted, strict=True):
        assert each[1] == "public." + record["source"]["table"]
        row = record["after"]
        if row is not None and "a" in row:
            assert (each[2]["a"], each[2]["b"], float(each[2]["n"])) == (row["a"], row["b"], row["n"])


@pytest.mark.parametrize(
    "data", ["{" * 5000, "[" * 100000, '{"op":"c","after":{"a":' + "9" * 5000 + "}}", "\0", "\xff"]
)
def test_garbage_is_an_error_and_never_a_traceback(data: str) -> None:
    for form in ("debezium", "maxwell", "wal2json", "jsonl", "test_decoding", "pgoutput", "csv", "delta", "parquet"):
        with suppress(PgError):
            found = changes(form, data.encode("latin-1") + b"\n")
            assert all(isinstance(each, str) or each[0] == INSERT for each in found)
