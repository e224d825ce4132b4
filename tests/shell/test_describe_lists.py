r"""Lists whose query is psql's own: what psql prints with -E, of operator classes, text search and foreign data.

`describe_lists.txt` is what psql printed of a server 16: `psql -X -E -c COMMAND`, standard output and error, behind a
line with the command. The lines are those that psql 17 prints, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.forked import pgrepl

RECORDED = dict(
    part.split("\n", 1)
    for part in Path(__file__).with_name("describe_lists.txt").read_text("utf-8").split("postgres=# ")[1:]
)


def without_oids(text: str) -> str:
    return re.sub(r"oid = '\d+'", "oid = '…'", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists")


@pytest.mark.parametrize("command", RECORDED)
def test_what_psql_prints(command: str, folder: Path) -> None:
    done = pgrepl("-X", "-E", "-c", command, cwd=folder)
    assert without_oids(done.stdout + done.stderr) == without_oids(RECORDED[command])
    assert done.returncode == (1 if done.stderr else 0)


@pytest.mark.parametrize("release, is_there", [("17", False), ("18", True)])
def test_leakproof_operators_are_told_in_18(folder: Path, release: str, is_there: bool) -> None:
    done = pgrepl("-X", "-c", f"SET pgrepl.postgres_version = {release}", "-c", r"\dAo+ hash float_ops", cwd=folder)
    assert ("Leakproof?" in done.stdout) is is_there
    assert "Sort opfamily" in done.stdout


def test_parsers_and_configurations_are_described_one_by_one(folder: Path) -> None:
    shown = pgrepl("-X", "-c", r"\dFp+", "-c", r"\dF+ s*", cwd=folder).stdout
    assert 'Text search parser "pg_catalog.default"\n     Method' in shown
    assert 'Token types for parser "pg_catalog.default"\n' in shown
    assert "(23 rows)" in shown
    names = re.findall(r'Text search configuration "pg_catalog\.(\w+)"\nParser: "pg_catalog\.default"\n', shown)
    assert names == ["serbian", "simple", "spanish", "swedish"]


@pytest.mark.parametrize("release", ["17", "18"])
def test_system_catalogs_are_described_with_the_columns_of_the_release(folder: Path, release: str) -> None:
    """Those of 19 are found by their names only."""
    names = [
        "pg_subscription", "pg_publication", "pg_publication_rel", "pg_stat_subscription_stats",
        "pg_replication_slots", "pg_stat_replication_slots",
    ]  # fmt: skip
    for name in names:
        which = f"attrelid = '{name}'::regclass AND attnum > 0"
        counting = f"SELECT attname FROM pg_attribute WHERE {which} ORDER BY attnum"
        commands = [f"SET pgrepl.postgres_version = {release}", counting, "\\echo", f"\\d {name}"]
        done = pgrepl("-XqAt", *[word for each in commands for word in ("-c", each)], cwd=folder)
        asked, described = done.stdout.split("\n\n")
        assert [line.split("|")[0] for line in described.splitlines()] == asked.splitlines()


def test_the_default_versions_of_extensions_are_told_in_18(folder: Path) -> None:
    """As psql 18 prints them."""
    done = pgrepl("-X", "-q", "-c", "SET pgrepl.postgres_version = 18", "-c", r"\dx", cwd=folder)
    assert done.stdout == (
        "                          List of installed extensions\n"
        "  Name   | Version | Default version |   Schema   |         Description          \n"
        "---------+---------+-----------------+------------+------------------------------\n"
        " plpgsql | 1.0     | 1.0             | pg_catalog | PL/pgSQL procedural language\n"
        "(1 row)\n\n"
    )


def test_ordered_set_aggregates_say_what_is_sorted(folder: Path) -> None:
    """As a server 17 says it; a VARIADIC parameter stands for both kinds."""
    done = pgrepl("-XAt", "-c", r"\da mode", "-c", r"\df percentile_disc float8", "-c", r"\da cume_dist", cwd=folder)
    assert done.stdout == (
        "pg_catalog|mode|anyelement|ORDER BY anyelement|\n"
        "pg_catalog|percentile_disc|anyelement|double precision ORDER BY anyelement|agg\n"
        'pg_catalog|cume_dist|double precision|VARIADIC "any" ORDER BY VARIADIC "any"|\n'
    )
