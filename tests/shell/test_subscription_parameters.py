r"""Parameters of subscriptions that PostgreSQL does not have are shown where they are set."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness.forked import pgrepl

CREATE = (
    "CREATE SUBSCRIPTION {} CONNECTION 'dbname=postgres' PUBLICATION p WITH (connect = false, slot_name = NONE{});\n"
)


def listed(folder: Path) -> list[list[str]]:
    shown = pgrepl("-X", "-A", cwd=folder, script="\\dRs+\n").stdout
    return [line.split("|") for line in shown.splitlines() if "|" in line]


def test_schema_changes_is_shown_where_it_is_set(tmp_path: Path) -> None:
    pgrepl("-X", "-q", cwd=tmp_path, script=CREATE.format("plain", ""))
    header, row = listed(tmp_path)
    assert (header[-1], row[-1]) == ("Skip LSN", "0/0")
    pgrepl("-X", "-q", cwd=tmp_path, script=CREATE.format("follows", ", schema_changes = columns"))
    header, follows, plain = listed(tmp_path)
    assert (header[-1], follows[-1], plain[-1]) == ("Schema changes", "columns", "none")
    described = json.loads(pgrepl("describe", "subscriptions", "--json", cwd=tmp_path).stdout)
    assert [each.get("schema_changes") for each in described] == ["columns", None]
    columns = pgrepl("-X", "-At", "-c", "SELECT * FROM pg_subscription WHERE false", "-c", r"\gdesc", cwd=tmp_path)
    assert "schema" not in columns.stdout


def test_conflict_log_is_shown_where_it_is_set(tmp_path: Path) -> None:
    pgrepl("-X", "-q", cwd=tmp_path, script=CREATE.format("plain", "") + CREATE.format("logs", ", conflict_log"))
    header, logs, plain = listed(tmp_path)
    assert (header[-1], logs[-1], plain[-1]) == ("Conflict log", "t", "f")
    described = json.loads(pgrepl("describe", "subscriptions", "--json", cwd=tmp_path).stdout)
    assert [each.get("conflict_log") for each in described] == [True, None]
    assert "slot_name = NONE, conflict_log = true)" in pgrepl("dump", cwd=tmp_path).stdout
    columns = pgrepl("-X", "-At", "-c", "SELECT * FROM pg_subscription WHERE false", "-c", r"\gdesc", cwd=tmp_path)
    assert "conflict" not in columns.stdout
