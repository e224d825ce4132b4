"""What PostgreSQL's output plugins write: test_decoding's text, pgoutput's messages, wal2json's records."""

from __future__ import annotations

import json

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.event import BEGIN, COMMIT
from pgrepl.replication.wire.messages import DELETE, INSERT, TRUNCATE, UPDATE
from pgrepl.types import oids
from tests.replication.formats.reading import DATA, changes, read, typed

WEIRD = 'public.We ird"s'
TEXT = "table public.t: INSERT: id[bigint]:1\nCOMMIT 7\n"


def rows(form: str, file: str) -> list[object]:
    """The changes of a recorded file, with boolean values as pgoutput has them."""
    found = [each for each in changes(form, (DATA / file).read_bytes()) if each[0] not in (BEGIN, COMMIT)]
    for _, _, new, _ in found:
        if new and new.get("b") == "true":
            new["b"] = "t"
    return found


def test_both_plugins_of_a_real_server_tell_the_same_changes() -> None:
    found = rows("pgoutput", "pgoutput.bin")
    assert rows("test_decoding", "test_decoding.txt") == found
    inserted, empty, changed, moved, deleted, *others = found
    assert inserted[2] | {"big": ""} == {
        "id": "1", "name": 'it\'s\na "line" \\ x\'', "n": "1234567890123456789.00012300", "f": "-0", "b": "t",
        "by": "\\x00ff0a", "d": "0044-03-15 BC", "ts": "infinity", "tz": "2024-02-29 07:00:00.123456+00",
        "arr": "{1,NULL,3}", "tarr": '{"a b","x\\"y","n\nl",NULL,"null"}', "j": '{"a": 1.10}',
        "i": "1 mon -2 days +03:00:00.5", "bits": "101", "vb": "0011010",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "r": "[1,5)", "ch": "ab   ", "big": "",
    }  # fmt: skip
    assert inserted[2]["big"] == "x" * 5000
    assert set(empty[2].values()) == {"2", None}
    assert changed[:2] == (UPDATE, "public.t") and changed[2]["name"] == "changed"
    assert "big" not in changed[2]  # an unchanged TOAST value is not sent
    assert (moved[0], moved[2]["id"], moved[3]) == (UPDATE, "3", {"id": "2"})
    assert deleted == (DELETE, "public.t", None, {"id": "3"})
    weird = {"c]:d": "x", "e'f": TEXT}
    assert others == [
        (INSERT, WEIRD, {"a b": "1", **weird}, None),
        (UPDATE, WEIRD, {"a b": "2", **weird}, {"a b": "1", **weird}),
        (INSERT, "public.nok", {"x": "1"}, None),
        (TRUNCATE, "public.t", None, None),
        (TRUNCATE, "public.nok", None, None),
    ]


def test_transactions_have_xids_lsns_and_times() -> None:
    begin, insert, commit, *_ = read("pgoutput", (DATA / "pgoutput.bin").read_bytes())
    assert not isinstance(begin, str) and not isinstance(insert, str) and not isinstance(commit, str)
    assert (begin.kind, begin.xid, begin.lsn) == (BEGIN, "761", 0x18EA7D0)
    assert (insert.xid, insert.at, insert.place.number) == ("761", 1795460614754463, 3)
    assert (commit.kind, commit.lsn, commit.at) == (COMMIT, begin.lsn, 1795460614754463)


def test_test_decoding_with_lsns_in_front_and_without_xids() -> None:
    text = "0/1A|7|BEGIN 7\n0/1B|7|table public.t: INSERT: a[integer]:1\n0/1C|7|COMMIT 7\n"
    _, insert, commit = read("test_decoding", text)
    assert not isinstance(insert, str) and not isinstance(commit, str)
    assert (insert.xid, insert.lsn, commit.lsn) == ("7", 0x1B, 0x1C)
    assert changes("test_decoding", "BEGIN\ntable public.t: DELETE: (no-tuple-data)\nCOMMIT\n")[1] == (
        DELETE, "public.t", None, None,
    )  # fmt: skip


def test_a_line_that_is_not_test_decodings_is_told_and_the_next_one_is_read() -> None:
    text = (
        "BEGIN 7\ntable public.t: INSERT: a[integer]\nnonsense\ntable public.t: INSERT: a[integer]:2\nCOMMIT 7\n"
        "table public.t: INSERT: a[text]:'no end\n"
    )
    assert changes("test_decoding", text) == [
        (BEGIN, None, None, None),
        "22P02: could not read in.txt, record 2: a column is expected at character 24",
        "22P02: could not read in.txt, record 3: it is no line of test_decoding",
        (INSERT, "public.t", {"a": "2"}, None),
        (COMMIT, None, None, None),
        "22P02: could not read in.txt, record 6: a quoted value has no end",
    ]


@pytest.mark.parametrize(
    ("form", "data", "hint"),
    [
        ("test_decoding", "PREPARE TRANSACTION 'g', txid 7\n", "Create the slot without two_phase."),
        ("test_decoding", "opening a streamed block for transaction\n", "Read from the slot without stream-changes."),
        ("pgoutput", b"S\0\0\0\1\1\n", "Run pg_recvlogical without -o streaming."),
        ("pgoutput", b"b" + b"\0" * 40 + b"\n", "Run pg_recvlogical without --two-phase and -o two_phase."),
    ],
)
def test_what_is_not_supported_is_refused_by_name(form: str, data: bytes | str, hint: str) -> None:
    with pytest.raises(PgError) as caught:
        read(form, data)
    assert (caught.value.sqlstate, caught.value.report.hint) == ("0A000", hint)


@pytest.mark.parametrize("cut", [1, 20, 22, 40, 300, 7000])
def test_a_damaged_pgoutput_file_is_an_error_and_never_a_traceback(cut: int) -> None:
    data = (DATA / "pgoutput.bin").read_bytes()
    for damaged in (data[:cut], data[:cut] + b"\xff" + data[cut + 1 :], data[cut:]):
        try:
            read("pgoutput", damaged)
        except PgError as problem:
            assert problem.sqlstate in ("08P01", "0A000", "54000")


VERSION_1 = {
    "xid": 7, "nextlsn": "0/2A", "timestamp": "2024-02-29 12:00:00.5+01",
    "change": [
        {
            "kind": "insert", "schema": "public", "table": "t", "columnnames": ["a", "b", "c", "d"],
            "columntypes": ["integer", "bytea", "boolean", "numeric"], "columnvalues": [1, "00ff", True, None],
        },
        {
            "kind": "update", "schema": "public", "table": "t", "columnnames": ["a"], "columntypes": ["integer"],
            "columnvalues": [2], "oldkeys": {"keynames": ["a"], "keytypes": ["integer"], "keyvalues": [1]},
        },
        {"kind": "delete", "schema": "public", "table": "t",
         "oldkeys": {"keynames": ["a"], "keytypes": ["integer"], "keyvalues": [2]}},
        {"kind": "message", "transactional": True, "prefix": "p", "content": "x"},
        {"kind": "truncate", "schema": "public", "table": "t"},
    ],
}  # fmt: skip
FOUND_1 = [
    (BEGIN, None, None, None),
    (INSERT, "public.t", {"a": "1", "b": "\\x00ff", "c": "true", "d": None}, None),
    (UPDATE, "public.t", {"a": "2"}, {"a": "1"}),
    (DELETE, "public.t", None, {"a": "2"}),
    (TRUNCATE, "public.t", None, None),
    (COMMIT, None, None, None),
]


@pytest.mark.parametrize("indent", [None, 8])
def test_wal2json_1_wherever_its_lines_end(indent: int | None) -> None:
    text = json.dumps(VERSION_1, indent=indent) + "\n"
    assert changes("wal2json", text + text) == FOUND_1 + FOUND_1
    begin = read("wal2json", text)[0]
    assert not isinstance(begin, str)
    assert (begin.xid, begin.lsn, begin.at) == ("7", 0x2A, 1709204400500000)


def test_wal2json_1_in_chunks_and_with_a_damaged_change() -> None:
    text = (
        '{"change":[\n\t{"kind":"insert","table":"t","columnnames":["a"],"columnvalues":[12345678901234567890.10]}\n'
        ',{"kind":"upsert","table":"t"}\n,{"kind":"delete","table":"t"}\n]}\n{"change":[{"kind":}]}\n{"change":[]}\n'
    )
    assert changes("wal2json", text) == [
        (BEGIN, None, None, None),
        (INSERT, "t", {"a": "12345678901234567890.10"}, None),
        '22P02: could not read in.txt, record 3: unrecognized kind upsert: "kind" is one of insert, update, delete, '
        "truncate, message",
        (DELETE, "t", None, None),
        (COMMIT, None, None, None),
        (BEGIN, None, None, None),
        "22P02: could not read in.txt, record 6: invalid JSON: Expecting value at column 20",
        (BEGIN, None, None, None),
        (COMMIT, None, None, None),
    ]


def test_wal2json_1_larger_than_what_is_read_at_once() -> None:
    record = dict(VERSION_1, change=[VERSION_1["change"][0]] * 3000)  # type: ignore[index]
    found = changes("wal2json", json.dumps(record) + "\n")
    assert found == [FOUND_1[0], *[FOUND_1[1]] * 3000, FOUND_1[-1]]


def test_wal2json_2() -> None:
    text = """{"action":"B","xid":7,"timestamp":"2024-02-29 12:00:00+00","lsn":"0/1A","nextlsn":"0/1B"}
{"action":"I","schema":"public","table":"t","columns":[{"name":"a","type":"bigint","value":9223372036854775807},\
{"name":"b","type":"bytea","value":"00ff"},{"name":"j","type":"jsonb","value":"{\\"x\\": 1.10}"}]}
{"action":"U","schema":"public","table":"t","columns":[{"name":"a","value":2}],"identity":[{"name":"a","value":1}]}
{"action":"D","schema":"public","table":"t","identity":[{"name":"a","type":"bigint","value":2}]}
{"action":"M","transactional":true,"prefix":"p","content":"x"}
{"action":"T","schema":"public","table":"t"}
{"action":"X"}
{"action":"I","schema":"public","table":"t"}
[1
{"action":"C","xid":7,"lsn":"0/1A"}
"""
    assert changes("wal2json", text) == [
        (BEGIN, None, None, None),
        (INSERT, "public.t", {"a": "9223372036854775807", "b": "\\x00ff", "j": '{"x": 1.10}'}, None),
        (UPDATE, "public.t", {"a": "2"}, {"a": "1"}),
        (DELETE, "public.t", None, {"a": "2"}),
        (TRUNCATE, "public.t", None, None),
        '22P02: could not read in.txt, record 7: unrecognized action X: "action" is one of B, I, U, D, T, M, C',
        '22P02: could not read in.txt, record 8: it has no "columns"',
        "22P02: could not read in.txt, record 9: invalid JSON: Expecting ',' delimiter at column 3",
        (COMMIT, None, None, None),
    ]


def test_wal2json_2_whatever_stands_first() -> None:
    insert = {"schema": "public", "table": "t", "action": "I", "columns": [{"name": "a", "value": 1}]}
    text = json.dumps(insert) + "\n"
    found = [(INSERT, "public.t", {"a": "1"}, None)]
    assert changes("wal2json", text) == found
    assert changes("wal2json", '{"xid": 7, "timestamp": "2024-02-29 12:00:00+00", "lsn": "0/1A",' + text[1:]) == found
    assert changes("wal2json", "oops\n" + text) == [
        "22P02: could not read in.txt, record 1: invalid JSON: Expecting value at column 1", *found,
    ]  # fmt: skip
    assert changes("wal2json", '{"table": "t"}\n{"xid": 7}\n') == [
        '22P02: could not read in.txt, record 1: it has no "action"',
        '22P02: could not read in.txt, record 2: it has no "action"',
    ]
    assert changes("wal2json", '{"xid": 7}\n') == [
        '22P02: could not read in.txt, record 1: it has neither "action" nor "change"'
    ]
    assert changes("wal2json", '{"change": []}\n' + text)[2:] == [
        "22P02: could not read in.txt, record 2: it is of format version 2, and what stands before it is not"
    ]


def test_wal2json_without_types_asks_for_those_of_the_table() -> None:
    text = '{"action":"I","table":"t","columns":[{"name":"b","value":"00ff"},{"name":"x","value":"00ff"}]}\n'
    assert changes("wal2json", text, typed(b=(oids.BYTEA, -1))) == [(INSERT, "t", {"b": "\\x00ff", "x": "00ff"}, None)]


def test_a_message_of_wal2json_may_have_any_bytes() -> None:
    """pg_logical_emit_message() takes a bytea, and wal2json writes it as it is."""
    version_2 = (
        b'{"action":"B"}\n{"action":"M","transactional":true,"prefix":"p","content":"\xff"}\n'
        b'{"action":"I","table":"t","columns":[{"name":"id","value":7}]}\n{"action":"C"}\n'
    )
    version_1 = (
        b'{"change":[{"kind":"message","transactional":true,"prefix":"p","content":"\xff"},'
        b'{"kind":"insert","table":"t","columnnames":["id"],"columnvalues":[7]}]}\n'
    )
    another = version_2.replace(b'{"action":"M","transactional":true,', b'{"transactional":true,"action":"M",')
    for data in (version_2, another, version_1):
        assert [each[:3] for each in changes("wal2json", data)] == [
            (BEGIN, None, None), (INSERT, "t", {"id": "7"}), (COMMIT, None, None),
        ]  # fmt: skip
    assert changes("wal2json", version_2.replace(b":7", b':"\xff"')) == [
        (BEGIN, None, None, None),
        '22021: could not read in.txt, record 3: invalid byte sequence for encoding "UTF8": 0xff',
        (COMMIT, None, None, None),
    ]
