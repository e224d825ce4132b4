"""Input that is damaged, ambiguous or in another encoding: a clear error for each record, never another value."""

from __future__ import annotations

import codecs
import io
import json

import pytest

from pgrepl.ground.errors import PgError
from pgrepl.replication.formats.json_text import decompressed
from pgrepl.replication.formats.registry import reader
from pgrepl.replication.wire.messages import INSERT
from tests.replication.formats.reading import FILE, changes

# one record of each form with a text in it
DEBEZIUM = '{"before":null,"after":{"id":1,"v":%s},"source":{"schema":"public","table":"t"},"op":"c"}\n'
WAL2JSON = '{"action":"I","schema":"public","table":"t","columns":[{"name":"id","value":1},{"name":"v","value":%s}]}\n'
JSON_FORMS = {
    "debezium": DEBEZIUM,
    "maxwell": '{"database":"public","table":"t","type":"insert","data":{"id":1,"v":%s}}\n',
    "wal2json": WAL2JSON,
    "jsonl": '{"op":"insert","schema":"public","table":"t","new":{"id":"1","v":%s}}\n',
    "delta": '{"_change_type":"insert","_commit_version":1,"id":1,"v":%s}\n',
}
EACH_JSON = pytest.mark.parametrize("form", JSON_FORMS)


def problem(form: str, text: str | bytes) -> str:
    (found,) = changes(form, text)
    assert isinstance(found, str)
    return found.removeprefix("22P02: could not read in.txt, record 1: invalid JSON: ")


@EACH_JSON
def test_a_key_that_is_given_twice_has_no_value(form: str) -> None:
    name = "value" if form == "wal2json" else "v"
    assert problem(form, JSON_FORMS[form] % f'"x","{name}":"y"') == f'duplicate JSON object key "{name}"'


@EACH_JSON
def test_half_a_surrogate_pair_is_no_character(form: str) -> None:
    assert problem(form, JSON_FORMS[form] % '"\\ud800y"') == "Unicode low surrogate must follow a high surrogate"
    assert [each[2] and each[2]["v"] for each in changes(form, JSON_FORMS[form] % '"\\ud83d\\ude00"')] == ["😀"]


@EACH_JSON
def test_values_that_are_nested_too_deeply(form: str) -> None:
    assert problem(form, JSON_FORMS[form] % ("[" * 500 + "]" * 500)) == "it is nested too deeply"
    ((kind, *_),) = changes(form, JSON_FORMS[form] % ("[" * 200 + "]" * 200))
    assert kind == INSERT


@EACH_JSON
def test_control_characters_are_no_part_of_a_string(form: str) -> None:
    for character in ("\0", "\t", "\x1f"):
        assert problem(form, JSON_FORMS[form] % f'"x{character}y"').startswith("Invalid control character at column ")


@EACH_JSON
def test_lines_that_end_with_carriage_returns(form: str) -> None:
    text = JSON_FORMS[form] % '"x"' * 3
    assert changes(form, text.replace("\n", "\r\n")) == changes(form, text)


def test_a_byte_order_mark_is_no_part_of_the_file() -> None:
    for data in (b'{"op":1}\n', b"", b"\n"):
        assert decompressed(io.BytesIO(codecs.BOM_UTF8 + data), FILE).read() == data
    with pytest.raises(PgError) as caught:
        decompressed(io.BytesIO(codecs.BOM_UTF16_LE + "{}".encode("utf-16-le")), FILE)
    assert str(caught.value) == 'file "in.txt" is encoded in UTF-16 or UTF-32'
    assert caught.value.report.hint == "Convert it to UTF-8."


@pytest.mark.parametrize(("form", "options"), [("delta", {}), ("csv", {"op": "o"}), ("csv", {"before": "old"})])
def test_a_file_with_nothing_but_a_header_must_have_the_columns(form: str, options: dict[str, str]) -> None:
    with pytest.raises(PgError, match=r'column "\w+" does not exist in file "in.txt"'):
        changes(form, "id,v\n", **options)
    assert changes("csv", "o,id\n", op="o") == []


@pytest.mark.parametrize("end", ["", "\n", "\r\n", '""', '""\n', "\n4,ok\n"])
def test_a_csv_field_whose_closing_quote_is_missing_is_no_value(end: str) -> None:
    """Arrow lets it go on to the end of the file."""
    found = changes("csv", f'id,v\n1,x\n3,"half{end}')
    assert found[0][2] == {"id": "1", "v": "x"}
    assert found[1:] == ["22P04: could not read in.txt, record 3: unterminated CSV quoted field"]


def test_csv_fields_that_end_in_quotes_and_line_feeds() -> None:
    for field, value in (
        ('"a""b"', 'a"b'), ('"a\n"', "a\n"), ('"a""\n"', 'a"\n'), ('"""\n"', '"\n'), ('5" disk', '5" disk'), ('""', ""),
        ('x"', 'x"'), ('x"\r', 'x"'),
    ):  # fmt: skip
        for end in ("", "\n"):
            assert [each[2]["v"] for each in changes("csv", f"id,v\n1,{field}{end}")] == [value]


def test_arrays_of_several_dimensions_are_no_placeholders() -> None:
    ((_, _, new, _),) = changes("debezium", DEBEZIUM % "[[1,2]]")
    assert new == {"id": "1", "v": "{{1,2}}"}


def test_a_payload_that_is_no_object_behind_one_that_is() -> None:
    event = json.loads(DEBEZIUM % 1)
    text = "".join(json.dumps({"schema": {"fields": []}, "payload": each}) + "\n" for each in (event, 5))
    assert changes("debezium", text) == [
        (INSERT, "public.t", {"id": "1", "v": "1"}, None),
        "22P02: could not read in.txt, record 2: its payload is no object",
    ]


def test_the_placeholder_may_be_given_as_hexadecimal_digits() -> None:
    ((_, _, new, _),) = changes("debezium", DEBEZIUM % '"gone"', unavailable_value_placeholder="hex:676f6e65")
    assert new == {"id": "1"}
    with pytest.raises(PgError, match='invalid value for option "unavailable_value_placeholder": "hex:6"'):
        reader("debezium", {"unavailable_value_placeholder": "hex:6"})


def test_a_change_with_invalid_bytes_is_told_alone() -> None:
    change = b'{"kind":"insert","schema":"public","table":"t","columnnames":["v"],"columnvalues":["%b"]}'
    text = b'{"xid":7,"change":[' + b",\n".join([change % each for each in (b"a", b"\xffb", "ä".encode())]) + b"]}\n"
    assert changes("wal2json", text)[1:-1] == [
        (INSERT, "public.t", {"v": "a"}, None),
        '22021: could not read in.txt, record 2: invalid byte sequence for encoding "UTF8": 0xff',
        (INSERT, "public.t", {"v": "ä"}, None),
    ]


@EACH_JSON
def test_invalid_bytes_are_named(form: str) -> None:
    text = (JSON_FORMS[form] % '"x?y"').encode().replace(b"?", b"\xe4")
    wanted = '22021: could not read in.txt, record 1: invalid byte sequence for encoding "UTF8": 0xe4 0x79 0x22'
    assert changes(form, text) == [wanted]
