"""A subscription that an error has stopped: what `status` and a shell say, and that it helps."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pexpect
import pytest

from pgrepl.replication.publisher.protocol import SlotLag
from pgrepl.replication.subscriber.status import Status, TableStatus
from pgrepl.replication.subscriber.stopped import Stop
from pgrepl.shell.status_text import WIDTH, status_text
from tests.harness.forked import pgrepl
from tests.harness.programs import PATIENCE, environment

PUBLISHER = """
CREATE DATABASE pub;
CREATE DATABASE sub;
\\c pub
CREATE TABLE a_table_with_a_rather_long_name (id int PRIMARY KEY);
CREATE TABLE t (a int PRIMARY KEY);
CREATE PUBLICATION a_publication_with_a_long_name_too FOR ALL TABLES;
\\c sub
CREATE TABLE a_table_with_a_rather_long_name (id int PRIMARY KEY);
CREATE TABLE t (a int PRIMARY KEY);
CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION a_publication_with_a_long_name_too WITH ({});
INSERT INTO t VALUES (2);
\\set AUTOAPPLY off
\\c pub
INSERT INTO t VALUES (1), (2);
"""


def stopped(folder: Path, options: str = "streaming = off") -> None:
    made = pgrepl("-q", cwd=folder, script=PUBLISHER.format(options))
    assert made.returncode == 0, made.stderr
    assert pgrepl("apply", cwd=folder).returncode == 1


def typed(text: str) -> list[str]:
    """The statements that a text says to type."""
    return re.findall(r"ALTER SUBSCRIPTION [^;]*;", text)


def test_status_says_what_to_type_and_it_helps(tmp_path: Path) -> None:
    stopped(tmp_path)
    shown = pgrepl("status", cwd=tmp_path).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "    DETAIL:  Key (a)=(2) already exists.\n" in shown
    (skip,) = typed(shown)
    assert pgrepl("-d", "sub", "-c", skip, cwd=tmp_path).stdout == "ALTER SUBSCRIPTION\n"
    assert pgrepl("apply", cwd=tmp_path).returncode == 0
    assert "stopped" not in pgrepl("status", cwd=tmp_path).stdout
    assert pgrepl("-d", "sub", "-Atc", "TABLE t", cwd=tmp_path).stdout == "2\n"


def test_one_that_is_disabled_is_enabled_again(tmp_path: Path) -> None:
    stopped(tmp_path, "disable_on_error")
    shown = pgrepl("status", cwd=tmp_path).stdout
    assert " is disabled by an error of " in shown
    skip, enable = typed(shown)
    assert enable == "ALTER SUBSCRIPTION s ENABLE;"
    pgrepl("-d", "sub", "-c", skip, "-c", enable, cwd=tmp_path)
    assert pgrepl("apply", cwd=tmp_path).returncode == 0
    assert "ALTER SUBSCRIPTION" not in pgrepl("status", cwd=tmp_path).stdout


def a_status(publisher: str, stop: Stop | None = None) -> Status:
    lag = SlotLag(0x1FFFFFFFF, 0x1FFFFFFFF, 0x1FFFFFFFF)
    tables = (TableStatus("public.orders", "r", 0),)
    return Status("reports", "orders_of_the_shop", ("p",), publisher, True, "s", 12345, tables, 0x1FFFFFFFF, lag, None,
                  0, 0, stop, None)  # fmt: skip


def test_names_are_broken_where_80_columns_do_not_do_and_numbers_are_not() -> None:
    shown = status_text([a_status("host=/var/run/postgresql_of_another port=54321 dbname=shop")])
    assert max(map(len, shown.splitlines())) <= WIDTH
    for text in ("12345", "1/FFFFFFFF", "of 1/FFFFFFFF", "0 bytes"):
        assert text in shown, shown


def test_a_key_is_named_only_where_there_is_one() -> None:
    stop = Stop("s", True, "2024-02-29T12:00:00", "22012", "division by zero", None, None, None, "0/5")
    assert "Fix what is in its way here, or skip the transaction." in status_text([a_status("dbname=shop", stop)])


def at_terminal(folder: Path, *arguments: str) -> pexpect.spawn[bytes]:
    variables = {**environment(folder), "TERM": "xterm", "NO_COLOR": "1", "PGOPTIONS": "-c pgrepl.engine=local"}
    return pexpect.spawn(
        sys.executable, ["-m", "pgrepl", *arguments], cwd=folder, env=variables, dimensions=(40, 80), timeout=PATIENCE
    )


def test_a_shell_says_so_once_at_its_start(tmp_path: Path) -> None:
    stopped(tmp_path)
    shell = at_terminal(tmp_path, "-X", "-n", "-d", "sub")
    shell.expect_exact("sub=# ")
    said = shell.before.decode().replace("\r\n", "\n")
    assert 'WARNING:  subscription "s" is stopped by an error\n' in said
    assert "Key (a)=(2) already exists." in said and len(typed(said)) == 1
    shell.sendline("\\q")
    shell.expect(pexpect.EOF)
    elsewhere = at_terminal(tmp_path, "-X", "-n", "-d", "pub")
    elsewhere.expect_exact("pub=# ")
    assert "WARNING" not in elsewhere.before.decode()
    elsewhere.sendline("\\q")
    elsewhere.expect(pexpect.EOF)
    assert "WARNING" not in pgrepl("-d", "sub", "-c", "SELECT 1", cwd=tmp_path).stderr


@pytest.mark.slow
def test_watch_shows_the_same(tmp_path: Path) -> None:
    stopped(tmp_path)
    plain = pgrepl("status", cwd=tmp_path).stdout
    watching = at_terminal(tmp_path, "status", "--watch")
    deadline = time.monotonic() + PATIENCE
    seen = ""
    wanted = [line.rstrip() for line in plain.splitlines()[1:] if line.strip() and " s" not in line[-8:]]
    while not all(line in seen for line in wanted):
        seen += watching.read_nonblocking(65536, timeout=PATIENCE).decode()
        assert time.monotonic() < deadline, seen
    watching.sendintr()
    watching.expect(pexpect.EOF)
    watching.wait()
    assert watching.exitstatus == 0
