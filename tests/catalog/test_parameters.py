"""Values of settings: units, ranges, words."""

from __future__ import annotations

import pytest

from pgrepl.catalog.session import parameters
from pgrepl.catalog.session.parameters import Parameter, parse, parse_bool
from pgrepl.ground.errors import PgError


def parameter(name: str) -> Parameter:
    found = parameters.find(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("work_mem", "64", "64kB"),
        ("work_mem", "1GB", "1GB"),
        ("work_mem", "1.5MB", "1536kB"),
        ("work_mem", " 0x100 ", "256kB"),
        ("work_mem", "1e3", "1000kB"),
        ("work_mem", "102400B", "100kB"),
        ("statement_timeout", "1.5s", "1500ms"),
        ("statement_timeout", "90min", "90min"),
        ("statement_timeout", "1d", "1d"),
        ("statement_timeout", "0", "0"),
        ("temp_buffers", "128MB", "128MB"),
        ("temp_buffers", "16384", "128MB"),
        ("vacuum_cost_delay", "0.5ms", "500us"),
        ("vacuum_cost_delay", "1500us", "1500us"),
        ("vacuum_cost_delay", "0.0003", "0.3us"),
        ("vacuum_cost_delay", "1.0005", "1000.5us"),
        ("seq_page_cost", "1e10", "1e+10"),
        ("wal_receiver_timeout", "5min", "5min"),
        ("enable_seqscan", "f", "off"),
        ("synchronous_commit", "yes", "on"),
        ("client_min_messages", "DEBUG", "debug2"),
    ],
)
def test_what_is_written_and_what_is_shown(name: str, text: str, shown: str) -> None:
    found = parameter(name)
    assert parameters.show(found, parse(found, text)) == shown


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("work_mem", "1", "1 kB is outside the valid range for parameter \"work_mem\" (64 kB .. 2147483647 kB)", None),
        ("work_mem", "1 pc", 'invalid value for parameter "work_mem": "1 pc"',
         'Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".'),
        ("statement_timeout", "1 GB", 'invalid value for parameter "statement_timeout": "1 GB"',
         'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".'),
        ("work_mem", "089", 'invalid value for parameter "work_mem": "089"', None),
        ("work_mem", "nan", 'invalid value for parameter "work_mem": "nan"', None),
        ("work_mem", "inf", 'invalid value for parameter "work_mem": "inf"', None),
        ("work_mem", "1e400GB", 'invalid value for parameter "work_mem": "1e400GB"', None),
        ("work_mem", "9" * 400, f'invalid value for parameter "work_mem": "{"9" * 400}"', None),
        ("work_mem", "1e300TB", 'invalid value for parameter "work_mem": "1e300TB"', "Value exceeds integer range."),
        ("work_mem", "٦٤", 'invalid value for parameter "work_mem": "٦٤"', None),
        ("vacuum_cost_delay", "1e400s", 'invalid value for parameter "vacuum_cost_delay": "1e400s"', None),
        ("work_mem", "9999TB", 'invalid value for parameter "work_mem": "9999TB"', "Value exceeds integer range."),
        ("max_replication_slots", "5 s", 'invalid value for parameter "max_replication_slots": "5 s"', None),
        ("bytea_output", "x", 'invalid value for parameter "bytea_output": "x"', "Available values: escape, hex."),
        ("enable_sort", "o", 'parameter "enable_sort" requires a Boolean value', None),
    ],
)  # fmt: skip
def test_what_is_refused(name: str, text: str, message: str, hint: str | None) -> None:
    with pytest.raises(PgError) as caught:
        parse(parameter(name), text)
    report = caught.value.report
    assert (report.sqlstate, report.message, report.hint) == ("22023", message, hint)


def test_booleans_by_their_beginnings() -> None:
    yes = ["t", "tr", "TRUE", "y", "ye", "yes", "on", "1"]
    no = ["f", "fal", "False", "n", "no", "of", "off", "0"]
    neither = ["", "o", "tru e", "2", "truee", "maybe"]
    assert [parse_bool(word) for word in yes + no + neither] == [True] * 8 + [False] * 8 + [None] * 6


def test_every_default_is_a_value_of_its_parameter() -> None:
    for found in parameters.all_parameters():
        if found.vartype in ("integer", "real", "enum"):
            assert parse(found, parameters.raw(found, found.default)) == found.default, found.name
