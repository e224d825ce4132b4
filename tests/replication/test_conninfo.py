"""Connection strings: libpq itself is the judge."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgrepl.ground.errors import PgError
from pgrepl.replication.conninfo import OPTIONS, ConninfoError, check_conninfo, parse_conninfo

KEYWORD_PARTS = [
    "host", "=", "localhost", " ", "'", "\\", "dbname", "user", "requiressl", "1", "x", "é", "\t", "password", "port",
    "5432", ",", "''", "nosuch", "sslmode",
]  # fmt: skip
URI_PARTS = [
    "a", "@", ":", "/", "?", "=", "&", "%41", "%", "%00", "%c3%a9", "[", "]", "::1", ",", "host", "dbname", "x", "ssl",
    "true", "application_name", "5432", "postgresql://", "password",
]  # fmt: skip


def ours(text: str) -> dict[str, str] | str:
    try:
        return parse_conninfo(text)
    except ConninfoError as error:
        return f"{error}\n"


def libpq(text: str) -> dict[str, str] | str:
    pq = pytest.importorskip("psycopg.pq")
    psycopg = pytest.importorskip("psycopg")
    try:
        found = pq.Conninfo.parse(text.encode())
    except psycopg.OperationalError as error:
        return str(error)
    return {o.keyword.decode(): o.val.decode("utf-8", "surrogateescape") for o in found if o.val is not None}


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(KEYWORD_PARTS), max_size=12))
def test_keywords_and_values_are_read_as_libpq_reads_them(parts: list[str]) -> None:
    text = "".join(parts)
    assert ours(text) == libpq(text)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["postgresql://", "postgres://"]), st.lists(st.sampled_from(URI_PARTS), max_size=12))
def test_uris_are_read_as_libpq_reads_them(prefix: str, parts: list[str]) -> None:
    text = prefix + "".join(parts)
    assert ours(text) == libpq(text)


def test_every_option_is_one_of_libpqs() -> None:
    pq = pytest.importorskip("psycopg.pq")
    assert {o.keyword.decode() for o in pq.Conninfo.get_defaults()} >= OPTIONS


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("  host = 'a b'  dbname=x\\ y ", {"host": "a b", "dbname": "x y"}),
        ("user='it\\'s' password=", {"user": "it's", "password": ""}),
        ("dbname=a dbname=b", {"dbname": "b"}),
        ("requiressl=1", {"sslmode": "require"}),
        ("requiressl=0", {"sslmode": "prefer"}),
        ("postgresql://", {}),
        ("postgresql:///x", {"dbname": "x"}),
        (
            "postgres://u%40d:p%3Aw@h1:1,[::1]:2,h3/db?application_name=a%20b&ssl=true",
            {"user": "u@d", "password": "p:w", "host": "h1,::1,h3", "port": "1,2,", "dbname": "db"}
            | {"application_name": "a b", "sslmode": "require"},
        ),
        ("postgresql://?host=/var/run&dbname=x", {"host": "/var/run", "dbname": "x"}),
        ("postgresql://%2Ffolder/db", {"host": "/folder", "dbname": "db"}),
    ],
)  # fmt: skip
def test_strings_and_what_they_mean(text: str, options: dict[str, str]) -> None:
    assert parse_conninfo(text) == options
    assert libpq(text) == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", 'missing "=" after "foo" in connection info string'),
        ("host localhost", 'missing "=" after "host" in connection info string'),
        ("host='x", "unterminated quoted string in connection info string"),
        ("host='x\\", "unterminated quoted string in connection info string"),
        ("hst=x", 'invalid connection option "hst"'),
        ("=x", 'invalid connection option ""'),
        ("postgresql://h/d?hst=x", 'invalid URI query parameter: "hst"'),
        ("postgresql://h/d?host", 'missing key/value separator "=" in URI query parameter: "host"'),
        ("postgresql://h/d?host=a=b", 'extra key/value separator "=" in URI query parameter: "host"'),
        ("postgresql://h/d%zz", 'invalid percent-encoded token: "d%zz"'),
        ("postgresql://h/d%0", 'invalid percent-encoded token: "d%0"'),
        ("postgresql://h/d%00", 'forbidden value %00 in percent-encoded value: "d%00"'),
        (
            "postgresql://[::1/d",
            'end of string reached when looking for matching "]" in IPv6 host address in URI: "postgresql://[::1/d"',
        ),
        ("postgresql://[]/d", 'IPv6 host address may not be empty in URI: "postgresql://[]/d"'),
        (
            "postgresql://[::1]z/d",
            'unexpected character "z" at position 19 in URI (expected ":" or "/"): "postgresql://[::1]z/d"',
        ),
    ],
)
def test_strings_that_mean_nothing(text: str, message: str) -> None:
    assert ours(text) == f"{message}\n"
    assert libpq(text) == f"{message}\n"


def test_a_password_in_a_string_that_means_nothing_is_not_shown() -> None:
    """libpq shows it."""
    message = 'IPv6 host address may not be empty in URI: "postgresql://me:{0}@[]/d?password={0}&user=x"\n'
    text = "postgresql://me:secret@[]/d?password=secret&user=x"
    assert ours(text) == message.format("***")
    assert libpq(text) == message.format("secret")


def test_a_bad_string_is_an_error_that_keeps_libpqs_line_end() -> None:
    with pytest.raises(PgError) as caught:
        check_conninfo("host", must_use_password=False)
    assert caught.value.sqlstate == "42601"
    assert (
        caught.value.message == 'invalid connection string syntax: missing "=" after "host" in connection info string\n'
    )


@pytest.mark.parametrize("text", ["dbname=x", "password=", "postgresql://u:@h/d"])
def test_a_password_must_stand_in_the_string(text: str) -> None:
    with pytest.raises(PgError) as caught:
        check_conninfo(text, must_use_password=True)
    report = caught.value.report
    assert (report.sqlstate, report.message, report.detail) == (
        "2F003",
        "password is required",
        "Non-superusers must provide a password in the connection string.",
    )
    assert check_conninfo(text + "", must_use_password=False) is not None


def test_a_password_in_the_string_is_enough() -> None:
    assert check_conninfo("dbname=x password=y", must_use_password=True) == {"dbname": "x", "password": "y"}
