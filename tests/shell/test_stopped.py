"""A subscription that an error has stopped: what `status` and a shell say, and that it helps."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pexpect
import pytest

from pgrepl.replication.publisher.protocol import SlotLag
from pgrepl.replication.subscriber.advice import Failure
from pgrepl.replication.subscriber.state import Stop
from pgrepl.replication.subscriber.status import Status, TableStatus
from pgrepl.shell.commands.status import WIDTH, status_text
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
    return re.findall(r"(?:ALTER SUBSCRIPTION|DELETE|TRUNCATE) [^;]*;", text)


def test_status_says_what_to_type_and_it_helps(tmp_path: Path) -> None:
    stopped(tmp_path)
    shown = pgrepl("status", cwd=tmp_path).stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "    DETAIL:  Key (a)=(2) already exists.\n" in shown
    delete, skip = typed(shown)
    assert delete == "DELETE FROM public.t WHERE a = '2';"
    assert pgrepl("-d", "sub", "-c", skip, cwd=tmp_path).stdout == "ALTER SUBSCRIPTION\n"
    assert pgrepl("apply", cwd=tmp_path).returncode == 0
    assert "stopped" not in pgrepl("status", cwd=tmp_path).stdout
    assert pgrepl("-d", "sub", "-Atc", "TABLE t", cwd=tmp_path).stdout == "2\n"


def test_the_safe_cure_comes_first_and_loses_nothing(tmp_path: Path) -> None:
    stopped(tmp_path)
    delete, _ = typed(pgrepl("status", cwd=tmp_path).stdout)
    assert pgrepl("-d", "sub", "-c", delete, cwd=tmp_path).stdout == "DELETE 1\n"
    assert pgrepl("-d", "sub", "-Atc", "TABLE t", cwd=tmp_path).stdout == "1\n2\n"


def test_one_that_is_disabled_is_enabled_again(tmp_path: Path) -> None:
    stopped(tmp_path, "disable_on_error")
    shown = pgrepl("status", cwd=tmp_path).stdout
    assert " is disabled by an error of " in shown
    _, skip, enable = typed(shown)
    assert enable == "ALTER SUBSCRIPTION s ENABLE;"
    pgrepl("-d", "sub", "-c", skip, "-c", enable, cwd=tmp_path)
    assert pgrepl("apply", cwd=tmp_path).returncode == 0
    assert "ALTER SUBSCRIPTION" not in pgrepl("status", cwd=tmp_path).stdout


def test_one_that_its_owner_has_disabled_is_no_news(tmp_path: Path) -> None:
    stopped(tmp_path)
    done = pgrepl("-X", "-d", "sub", "-v", "ON_STALE=off", "-c", "ALTER SUBSCRIPTION s DISABLE", cwd=tmp_path)
    assert done.returncode == 0
    assert pgrepl("-X", "-d", "sub", "-c", "SELECT 1", cwd=tmp_path).stderr == ""
    shown = " ".join(pgrepl("status", cwd=tmp_path).stdout.split())
    assert 'Subscription "s" in database "sub" is disabled; before, it was stopped by an error of ' in shown
    assert shown.endswith("Then enable it again. ALTER SUBSCRIPTION s ENABLE;")


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
    stop = Stop(Failure("s", "22012", "division by zero"), True, "2024-02-29T12:00:00", "0/5")
    shown = status_text([a_status("dbname=shop", stop)])
    assert "key" not in shown
    assert "\nOr skip the transaction: all of its changes, to all tables, are then missing\nhere.\n" in shown


def test_the_terminal_s_width_is_used() -> None:
    publisher = "host=/var/run/postgresql_of_another port=54321 dbname=shop"
    assert publisher not in status_text([a_status(publisher)])
    shown = status_text([a_status(publisher)], width=160)
    assert publisher in shown
    assert max(map(len, shown.splitlines())) > WIDTH


def test_a_table_that_left_the_publication_is_named() -> None:
    left = TableStatus("public.gone", "r", 0, published=False)
    status = replace(a_status("dbname=shop"), tables=(TableStatus("public.orders", "r", 0), left), name="My s")
    shown = status_text([status], width=160)
    assert " public.gone r, not published |" in shown
    assert shown.endswith('    ALTER SUBSCRIPTION "My s" REFRESH PUBLICATION;\n\n')
    assert "public.gone is no longer published" in " ".join(shown.split())
    assert [table["published"] for table in status.as_json()["tables"]] == [True, False]


def test_a_publisher_that_is_away_is_waited_for() -> None:
    away = "could not receive data from WAL stream: FATAL:  terminating connection due to administrator command"
    status = a_status("dbname=shop", Stop(Failure("s", "08P01", away), True, "2024-02-29T12:00:00"))
    shown = " ".join(status_text([status]).split())
    assert "waits for its publisher since an error of 2024-02-29 12:00:00" in shown
    assert "stopped" not in shown and "It is tried again until the publisher answers." in shown
    assert status.exceeds(60) is None


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
    assert "Key (a)=(2) already exists." in said and len(typed(said)) == 2
    shell.sendline("\\q")
    shell.expect(pexpect.EOF)
    elsewhere = at_terminal(tmp_path, "-X", "-n", "-d", "pub")
    elsewhere.expect_exact("pub=# ")
    assert "WARNING" not in elsewhere.before.decode()
    elsewhere.sendline("\\q")
    elsewhere.expect(pexpect.EOF)


WARNING = """\
WARNING:  subscription "s" is stopped by an error
DETAIL:  duplicate key value violates unique constraint "t_pkey": Key (a)=(2) already exists.
HINT:  A row of public.t with this key was written here. Delete or change it, and the publisher's row comes. \
DELETE FROM public.t WHERE a = '2'; \
Or skip the transaction: all of its changes, to all tables, are then missing here. \
ALTER SUBSCRIPTION s SKIP (lsn = '0/9');
"""


def test_a_script_is_warned_once_on_standard_error(tmp_path: Path) -> None:
    stopped(tmp_path)
    done = pgrepl("-X", "-At", "-d", "sub", "-c", "SELECT 1", "-c", "TABLE t", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("1\n2\n", WARNING, 0)
    script = "SELECT 1;\n\\c pub\nSELECT 2;\n\\c sub\nSELECT 3;\nSELECT 4;\n"
    (tmp_path / "s.sql").write_text(script)
    done = pgrepl("-X", "-Atq", "-d", "sub", "-f", "s.sql", cwd=tmp_path)
    assert done.stdout == "1\n2\n3\n4\n"
    assert done.stderr == f"psql:s.sql:1: {WARNING}psql:s.sql:5: {WARNING}"
    assert pgrepl("-X", "-d", "sub", "-v", "ON_STALE=off", "-c", "SELECT 1", cwd=tmp_path).stderr == ""
    assert pgrepl("-X", "-d", "pub", "-c", "SELECT 1", cwd=tmp_path).stderr == ""


def test_a_script_can_refuse_to_read_what_is_out_of_date(tmp_path: Path) -> None:
    stopped(tmp_path)
    refuses = ("-X", "-At", "-d", "sub", "-v", "ON_STALE=error")
    done = pgrepl(*refuses, "-c", "TABLE t", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", WARNING.replace("WARNING", "ERROR"), 1)
    script = "SELECT 1;\n\\echo :SQLSTATE\nTABLE t;\n"
    done = pgrepl(*refuses, cwd=tmp_path, script=script)
    assert (done.stdout, done.stderr.count("ERROR:  "), done.returncode) == ("55000\n", 2, 0)
    assert pgrepl(*refuses, "-v", "ON_ERROR_STOP=1", cwd=tmp_path, script=script).returncode == 3
    (skip,) = re.findall("ALTER SUBSCRIPTION[^;]*", done.stderr)[:1]
    done = pgrepl(*refuses, "-c", skip, "-c", "TABLE t", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("ALTER SUBSCRIPTION\n2\n", 0)


def test_create_subscription_says_that_copies_failed(tmp_path: Path) -> None:
    script = (
        PUBLISHER.partition("CREATE SUBSCRIPTION")[0]
        + """
        \\c pub
        INSERT INTO t VALUES (1); INSERT INTO a_table_with_a_rather_long_name VALUES (1);
        \\c sub
        INSERT INTO t VALUES (1); INSERT INTO a_table_with_a_rather_long_name VALUES (1);
        CREATE SUBSCRIPTION s CONNECTION 'dbname=pub' PUBLICATION a_publication_with_a_long_name_too;"""
    )
    done = pgrepl("-q", cwd=tmp_path, script=script.replace("\\\\", "\\"))
    assert 'WARNING:  subscription "s" could not copy 2 of 2 tables\n' in done.stderr
    assert typed(done.stderr) == ["TRUNCATE public.a_table_with_a_rather_long_name;"]


def test_a_bad_file_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "1.json").write_text("no JSON\n")
    done = pgrepl(
        "-q", cwd=tmp_path, script="CREATE TABLE t (a int PRIMARY KEY);\n"
        "CREATE SUBSCRIPTION s CONNECTION 'files=changes format=debezium' PUBLICATION p WITH (copy_data = off);\n"
        "TABLE t;",
    )  # fmt: skip
    assert done.stderr.count('WARNING:  subscription "s" is stopped by an error\n') == 1
    assert "1.json" in done.stderr and "HINT:  Correct the file." in done.stderr


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
