"""Variables with rules, and the readings of words as values; the messages are those of psql 17."""

from __future__ import annotations

import pytest

from pgrepl.shell.variables import Variables, parse_bool, parse_integer


@pytest.mark.parametrize("text", ["t", "tr", "TRUE", "y", "Yes", "on", "ON", "1"])
def test_words_for_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["f", "False", "n", "NO", "of", "off", "0"])
def test_words_for_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "o", "truex", "2", "onn", " on"])
def test_words_for_neither(text: str) -> None:
    assert parse_bool(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), (" 12", 12), ("-5", -5), ("+5", 5), ("0x1F", 31), ("010", 8), ("2147483647", 2147483647),
        ("-2147483648", -(2**31)),
    ],
)  # fmt: skip
def test_integers_as_c_reads_them(text: str, number: int) -> None:
    assert parse_integer(text) == number


@pytest.mark.parametrize("text", ["", "x", "1 ", "1.5", "08", "0x", "2147483648", "1e3"])
def test_what_is_no_integer(text: str) -> None:
    assert parse_integer(text) is None


def test_defaults_are_set_and_come_back_when_unset() -> None:
    variables = Variables(lambda text: None)
    assert (variables.get("ECHO"), variables.get("HISTSIZE"), variables.get("QUIET")) == ("none", "500", "off")
    for name, value in (("ECHO", "ALL"), ("HISTSIZE", "0x10"), ("QUIET", "")):
        assert variables.set(name, value)
    assert (variables.word("ECHO"), variables.number("HISTSIZE"), variables.on("QUIET")) == ("all", 16, True)
    for name in ("ECHO", "HISTSIZE", "QUIET"):
        assert variables.set(name, None)
    assert (variables.get("ECHO"), variables.get("HISTSIZE"), variables.get("QUIET")) == ("none", "500", "off")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("QUIET", "x", 'unrecognized value "x" for "QUIET": Boolean expected'),
        ("FETCH_COUNT", "x", 'invalid value "x" for "FETCH_COUNT": integer expected'),
        ("ECHO", "", 'unrecognized value "" for "ECHO"\nAvailable values are: none, errors, queries, all.'),
        ("ECHO_HIDDEN", "x", 'unrecognized value "x" for "ECHO_HIDDEN"\nAvailable values are: on, off, noexec.'),
        ("a-b", "x", 'invalid variable name: "a-b"'),
        ("", "x", 'invalid variable name: ""'),
    ],
)
def test_a_bad_value_is_refused_and_the_old_one_stays(name: str, value: str, message: str) -> None:
    said: list[str] = []
    variables = Variables(said.append)
    before = variables.get(name)
    assert not variables.set(name, value)
    assert (said, variables.get(name)) == ([message], before)


def test_any_value_of_ignoreeof_counts() -> None:
    variables = Variables(lambda text: None)
    assert variables.set("IGNOREEOF", "many")
    assert variables.number("IGNOREEOF") == 10


def test_names_are_listed_by_their_bytes() -> None:
    variables = Variables(lambda text: None)
    for name in ("é", "a", "Z", "_"):
        variables.set(name, "x")
    names = [name for name, _ in variables]
    assert [name for name in names if name in "éaZ_"] == ["Z", "_", "a", "é"]
