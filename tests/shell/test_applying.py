"""`pgrepl sync`, `pgrepl apply` and `pgrepl status`, as a person and a script call them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgrepl.cli import run as command_line
from tests.harness.database import Rows, ask, visit
from tests.harness.dose import dose
from tests.harness.programs import PATIENCE, eventually, started

SETUP = """
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE u (a int PRIMARY KEY)
"""


class CommandLine:
    """A publisher and a subscriber, and the commands that a person calls there."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.catalog = str(folder / "catalog.db")
        self._capsys = capsys
        for name in ("pub", "sub"):
            self.play("postgres", f"CREATE DATABASE {name}")
            self.play(name, SETUP)
        self.play("pub", "INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 30) g; INSERT INTO u VALUES (1)")
        self.play("pub", "CREATE PUBLICATION p FOR TABLE t WHERE (a > 10), u WITH (publish = 'insert, delete')")
        connection = "host=localhost dbname=pub password=secret"
        self.play("sub", f"CREATE SUBSCRIPTION s CONNECTION '{connection}' PUBLICATION p")

    def play(self, database: str, text: str) -> Rows:
        with visit(Path(self.catalog), database) as session:
            return ask(session, text)

    def __call__(self, *arguments: str) -> tuple[str, str, int]:
        """Output, complaints and exit code of a command."""
        self._capsys.readouterr()
        code = command_line([arguments[0], "--catalog", self.catalog, *arguments[1:]])
        out, err = self._capsys.readouterr()
        return out, err, code


@pytest.fixture
def instance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_sync_and_apply_say_what_they_have_done(instance: CommandLine) -> None:
    out, err, code = instance("sync", "--tables", "u")
    assert (out, code) == ('subscription "s": table public.u copied, 1 row\n', 0)
    assert re.fullmatch(
        r'[-0-9:. ]+ UTC \[\d+\] LOG:  logical replication table synchronization worker for subscription "s", table '
        r'"u" has started\n[-0-9:. ]+ UTC \[\d+\] LOG:  logical .* has finished\n',
        err,
    )
    assert instance.play("sub", "SELECT count(*) FROM t") == [("0",)]
    assert instance("sync", "s")[0] == 'subscription "s": table public.t copied, 20 rows\n'
    instance.play("pub", "INSERT INTO t VALUES (40, 'new'), (-5, 'filtered')")
    instance.play("pub", "DELETE FROM t WHERE a < 13")
    out, err, code = instance("apply")
    assert re.fullmatch(r'subscription "s": 2 transactions with 3 changes applied, up to 0/[0-9A-F]+\n', out)
    assert (err, code) == ("", 0)
    assert instance("apply", "s", "-d", "sub") == ('subscription "s": nothing to do\n', "", 0)
    assert instance.play("sub", "SELECT min(a), max(a), count(*) FROM t") == [("13", "40", "19")]


def by_columns(instance: CommandLine) -> int:
    """How many batches have been applied so."""
    query = "SELECT sum(calls) FROM pgrepl_stat_engine WHERE work = 'apply' AND engine = 'columns'"
    return int(instance.play("sub", query)[0][0] or 0)


@pytest.mark.parametrize("setting", dose(["pgrepl.engine = local", "pgrepl.local_rows = 0"], 2))
def test_what_a_copy_has_and_what_is_skipped_are_not_counted_as_applied(instance: CommandLine, setting: str) -> None:
    instance.play("sub", f"ALTER DATABASE sub SET {setting}")
    instance("apply")
    for database in ("pub", "sub"):
        instance.play(database, "CREATE TABLE v (a int PRIMARY KEY)")
    instance.play("pub", "ALTER PUBLICATION p ADD TABLE v")
    instance.play("sub", "ALTER SUBSCRIPTION s REFRESH PUBLICATION")
    instance.play("pub", "INSERT INTO v VALUES (2), (3)")
    instance.play("pub", "INSERT INTO u VALUES (4)")
    taken = by_columns(instance)
    out = instance("apply")[0]
    assert "v copied, 2 rows" in out
    assert "2 transactions with 1 change applied" in out
    assert (by_columns(instance) > taken) == ("local_rows" in setting)
    instance.play("pub", "INSERT INTO u VALUES (5), (6)")
    lsn = instance.play("pub", "SELECT pg_current_wal_lsn() - 1")[0][0]
    instance.play("pub", "INSERT INTO u VALUES (7)")
    instance.play("sub", f"ALTER SUBSCRIPTION s SKIP (lsn = '{lsn}')")
    assert "2 transactions with 1 change applied" in instance("apply")[0]
    assert instance.play("sub", "SELECT string_agg(a::text, ' ' ORDER BY a) FROM u") == [("1 4 7",)]


def test_apply_goes_no_further_than_told(instance: CommandLine) -> None:
    instance("sync")
    lsns = []
    for number in (2, 3, 4, 5):
        instance.play("pub", f"INSERT INTO u VALUES ({number})")
        lsns.append(str(instance.play("pub", "SELECT pg_current_wal_lsn() - 1")[0][0]))  # of what was just inserted
    for number in (2, 3):
        assert "1 transaction with 1 change applied" in instance("apply", "--max-changes", "1")[0]
        assert instance.play("sub", "SELECT max(a) FROM u") == [(str(number),)]
    for upto, largest in (("0/1", "3"), (lsns[2], "4"), ("0/FFFF", "5")):
        assert instance("apply", "--upto", upto)[2] == 0
        assert instance.play("sub", "SELECT max(a) FROM u") == [(largest,)]
    instance.play("pub", "INSERT INTO u VALUES (6)")
    assert "1 transaction" in instance("apply")[0]


def test_a_dry_run_shows_the_plan_and_does_nothing(instance: CommandLine) -> None:
    instance("sync", "--tables", "public.u")
    instance.play("pub", "INSERT INTO u VALUES (2), (3); DELETE FROM u WHERE a = 1; UPDATE u SET a = 4 WHERE a = 3")
    before = instance.play("sub", "SELECT srsubstate, srsublsn FROM pg_subscription_rel ORDER BY srrelid")
    out, err, code = instance("apply", "--dry-run")
    assert (err, code) == ("", 0)
    title, headers, _, t, u = out.splitlines()[:5]
    assert re.search(r'Subscription "s": 1 transaction from 0/[0-9A-F]+ to 0/[0-9A-F]+', title)
    assert [cell.strip() for cell in headers.split("|")] == [
        "Table", "State", "Operations", "Columns", "Filter", "To copy", "Insert", "Update", "Delete", "Truncate",
        "Engine",
    ]  # fmt: skip
    assert [cell.strip() for cell in t.split("|")] == [
        "public.t", "i", "insert, delete", "a, b", "(a > 10)", "20", "0", "0", "0", "0",
        "local (20 rows, not more than 4999)",
    ]  # fmt: skip
    assert [cell.strip() for cell in u.split("|")] == [
        "public.u", "r", "insert, delete", "a", "", "", "2", "0", "1", "0", "local (3 changes, not more than 1000)",
    ]  # fmt: skip
    assert instance.play("sub", "SELECT srsubstate, srsublsn FROM pg_subscription_rel ORDER BY srrelid") == before
    assert instance.play("sub", "SELECT count(*) FROM u") == [("1",)]


def test_status(instance: CommandLine) -> None:
    instance("sync", "--tables", "u")
    instance.play("pub", "INSERT INTO u VALUES (2), (3)")
    (found,) = json.loads(instance("status", "--json")[0])
    assert found["tables"] == [
        {"name": "public.t", "state": "i", "lsn": None, "published": True, "copy": None},
        {"name": "public.u", "state": "r", "lsn": found["tables"][1]["lsn"], "published": True, "copy": None},
    ]
    assert (found["subscription"], found["database"], found["publications"]) == ("s", "sub", ["p"])
    assert (found["publisher"], found["enabled"], found["pid"], found["last_error"]) == ("pub", True, None, None)
    lag = found["lag"]
    assert (lag["transactions"], lag["rows"], lag["exact"]) == (1, 2, True)
    assert 0 <= lag["seconds"] < 60
    out, err, code = instance("status", "s")
    assert (err, code) == ("", 0)
    rows = [[cell.strip(" +") for cell in line.split("|")] for line in out.splitlines()[3:5]]
    assert [rows[0][at] for at in (0, 1, 2, 3, 5)] == ["s", "pub", "", "public.t i", "2 rows"]
    assert [rows[1][at] for at in (0, 1, 2, 3, 5)] == ["in sub", "p", "", "public.u r", "1 transaction"]
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "secret" not in out + json.dumps(found)


def test_status_shows_the_last_error_until_it_is_over(instance: CommandLine) -> None:
    instance("sync")
    instance.play("sub", "INSERT INTO u VALUES (2)")
    instance.play("pub", "INSERT INTO u VALUES (2)")
    out, err, code = instance("apply")
    assert (out, code) == ("", 1)
    assert 'ERROR:  duplicate key value violates unique constraint "u_pkey"\n' in err
    assert "DETAIL:  Key (a)=(2) already exists.\n" in err
    assert 'CONTEXT:  processing remote data for replication origin "pg_' in err
    (found,) = json.loads(instance("status", "--json")[0])
    assert found["last_error"]["sqlstate"] == "23505"
    assert found["last_error"]["detail"] == "Key (a)=(2) already exists."
    delete, skip = found["last_error"]["statements"]
    assert delete == "DELETE FROM public.u WHERE a = '2';"
    assert skip == f"ALTER SUBSCRIPTION s SKIP (lsn = '{found['last_error']['lsn']}');"
    shown = instance("status")[0]
    assert 'Subscription "s" in database "sub" is stopped by an error of ' in shown
    assert "    DETAIL:  Key (a)=(2) already exists.\n" in shown and f"    {skip}\n" in shown
    assert f"    The transaction finished at LSN {found['last_error']['lsn']}.\n" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert (found["apply_error_count"], found["sync_error_count"]) == (1, 0)
    instance.play("sub", "DELETE FROM u WHERE a = 2")
    assert instance("apply")[2] == 0
    assert json.loads(instance("status", "--json")[0])[0]["last_error"] is None


def test_a_log_file_takes_what_workers_say(instance: CommandLine, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    instance.play("sub", "INSERT INTO u VALUES (1)")
    _, err, code = instance("sync", "--log-file", str(log))
    assert code == 1
    assert err.startswith('ERROR:  duplicate key value violates unique constraint "u_pkey"\n')
    assert "ERROR:  duplicate key" in log.read_text()
    assert instance.play("sub", "SELECT sync_error_count FROM pg_stat_subscription_stats") == [("1",)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("apply", "nobody"), 'ERROR:  subscription "nobody" does not exist\n'),
        (("sync", "s", "--tables", "x"), 'ERROR:  subscription "s" has no table "x"\n'),
        (("status", "nobody"), 'ERROR:  subscription "nobody" does not exist\n'),
        (
            ("apply", "--log-file", "no/where.log"),
            'ERROR:  could not open log file "no/where.log": No such file or directory\n',
        ),
    ],
)
def test_mistakes(instance: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    assert instance(*arguments) == ("", message, 1)


@pytest.mark.parametrize("command", ["apply", "sync", "status"])
def test_no_catalog_is_made_by_mistake(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "catalog.db"
    assert command_line([command, "--catalog", str(file)]) == 2
    assert f'FATAL:  could not open catalog "{file}": No such file or directory\n' in capsys.readouterr().err
    assert not file.exists()


def test_a_dry_run_is_not_followed(instance: CommandLine) -> None:
    _, err, code = instance("apply", "--dry-run", "--follow")
    assert (err.splitlines()[-1], code) == ("Error: --dry-run and --follow exclude each other", 2)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("apply --interval 5", "--interval is for --follow"),
        ("changes p --interval 5", "--interval is for --follow"),
        ("status --interval 5", "--interval is for --watch"),
        ("standby sync x --interval 5", "--interval is for --follow"),
        ("run --temp --catalog c.db x.sql", "--temp and --catalog exclude each other"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    line: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line(line.split()) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"Error: {problem}"


def test_a_file_is_no_subscription(instance: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "changes.json"
    file.touch()
    hint = "HINT:  A file is given to a subscription with files=-: pgrepl apply SUBSCRIPTION --from FILE.\n"
    assert instance("apply", str(file)) == ("", f'ERROR:  subscription "{file}" does not exist\n{hint}', 1)


def test_a_disabled_subscription(instance: CommandLine) -> None:
    instance.play("sub", "ALTER SUBSCRIPTION s DISABLE")
    for command in (["apply"], ["apply", "--dry-run"], ["sync"]):
        assert instance(*command) == ("no subscription is enabled\n", "", 0)
    assert instance("apply", "s") == (
        "",
        'ERROR:  subscription "s" is disabled\nHINT:  Enable it with ALTER SUBSCRIPTION s ENABLE.\n',
        1,
    )
    assert "disabled" in instance("status")[0]


def test_only_for_those_who_may(instance: CommandLine) -> None:
    instance.play("sub", "CREATE ROLE somebody LOGIN")
    assert instance("apply", "s", "-U", "somebody", "-d", "sub") == ("", "ERROR:  must be owner of subscription s\n", 1)
    _, err, code = instance("status", "-U", "somebody")
    assert (err.partition("\n")[0], code) == ("ERROR:  permission denied to show the status of subscriptions", 1)


@pytest.mark.parametrize("number", dose([signal.SIGTERM, signal.SIGINT], 2))
def test_following_stops_cleanly(instance: CommandLine, number: signal.Signals) -> None:
    """Another process says who holds the slot, and takes over as soon as that one has stopped."""
    follow = ("apply", "--follow", "--interval", "0.05", "--catalog", instance.catalog)
    ready = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'"
    with started(*follow) as process:
        eventually(lambda: instance.play("sub", ready) == [("2",)])
        instance.play("pub", "INSERT INTO u VALUES (2)")
        eventually(lambda: instance.play("sub", "SELECT max(a) FROM u") == [("2",)])
        worker = json.loads(instance("status", "--json")[0])[0]["pid"]
        assert sys.platform != "linux" or Path(f"/proc/{process.pid}/task/{worker}").exists()
        held = f'ERROR:  could not start WAL streaming: ERROR:  replication slot "s" is active for PID {worker}\n'
        _, err, code = instance("apply", "s")
        assert (err.partition("] ")[2], code) == (held, 1)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "applied, up to" in out
    assert instance.play("sub", "SELECT pid FROM pg_stat_subscription") == [(None,)]
    assert instance("apply", "s") == ('subscription "s": nothing to do\n', "", 0)


def test_status_starts_no_jvm_and_loads_little(instance: CommandLine) -> None:
    code = (
        "import sys; from pgrepl.cli import run; code = run(['status', '--catalog', sys.argv[1]]);"
        "assert not {'pyspark', 'py4j', 'pyarrow', 'numpy', 'rich'} & set(sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, instance.catalog], env=os.environ, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
