"""Options, exit codes, and where messages say they come from; the outputs are those of psql 17."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pgrepl import __version__
from pgrepl.shell.options import OPTIONS
from tests.harness.programs import environment
from tests.shell.conftest import Run

ONE = " ?column? \n----------\n        1\n(1 row)\n\n"
SYNTAX = 'syntax error at or near "selec"\nLINE 1: selec\n        ^\n'
CONNECT = 'pgrepl: error: connection to catalog "catalog.db" failed: FATAL: '
MISSING = 'DETAIL:  There is no catalog "catalog.db".\n'
FIRST = 'pgrepl: hint: A command stands before its options: "pgrepl {} ...".\n'
HINT = 'pgrepl: hint: Try "pgrepl --help" for more information.\n'


def shown(run: Run, *arguments: str, script: str = "") -> tuple[str, int]:
    done = run(*arguments, script=script)
    return done.stdout.decode(), done.returncode


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "inner.sql").write_text("select 1;\n\n\nselec;\nselec")
    (tmp_path / "inc.sql").write_text("\\echo inc\n\\bar\n\\ir sub/inner.sql\n")
    path = tmp_path / "outer.sql"
    path.write_text("\\i inc.sql\n\\echo after\n\\if x\n")
    return path


INNER = ONE + (
    "psql:sub/inner.sql:4: ERROR:  "
    + SYNTAX.replace("selec\n", "selec;\n", 1)
    + "psql:sub/inner.sql:5: ERROR:  "
    + SYNTAX
)
OUTER = "inc\npsql:inc.sql:2: error: invalid command \\bar\n" + INNER + "after\n"
IF = (
    'psql:outer.sql:3: error: unrecognized value "x" for "\\if expression": Boolean expected\n'
    "psql:outer.sql:3: error: reached EOF without finding closing \\endif(s)\n"
)


def test_messages_from_files_say_file_and_line(pgrepl: Run, script: Path) -> None:
    assert shown(pgrepl, "-f", "outer.sql") == (OUTER + IF, 0)


def test_on_error_stop_ends_the_script_with_3(pgrepl: Run, script: Path) -> None:
    printed = "inc\npsql:inc.sql:2: error: invalid command \\bar\n"
    assert shown(pgrepl, "-v", "ON_ERROR_STOP=1", "-f", "outer.sql") == (printed, 3)


def test_standard_input_has_no_prefix_but_a_dash_has(pgrepl: Run) -> None:
    assert shown(pgrepl, script="selec") == (f"ERROR:  {SYNTAX}", 0)
    assert shown(pgrepl, "-f", "-", script="selec") == (f"psql:<stdin>:1: ERROR:  {SYNTAX}", 0)


def test_commands_and_files_run_in_their_order(pgrepl: Run, script: Path) -> None:
    printed = "a\nselect 1\n" + ONE + OUTER + IF + f"ERROR:  {SYNTAX}"
    arguments = ("-c", "\\echo a", "-e", "-c", "select 1", "-c", "\\set ECHO none", "-f", "outer.sql", "-c", "selec")
    assert shown(pgrepl, *arguments) == (printed, 1)


def test_the_last_command_decides_the_exit_code(pgrepl: Run) -> None:
    assert shown(pgrepl, "-c", "selec", "-c", "select 1") == (f"ERROR:  {SYNTAX}" + ONE, 0)
    assert shown(pgrepl, "-v", "ON_ERROR_STOP=1", "-c", "selec", "-c", "select 1") == (f"ERROR:  {SYNTAX}", 1)
    assert shown(pgrepl, "-c", "\\nothing") == ("invalid command \\nothing\n", 1)


def test_a_command_is_one_query_string_and_one_transaction(pgrepl: Run) -> None:
    shown(pgrepl, "-c", "create schema a; create schema a")
    printed = " count \n-------\n     0\n(1 row)\n\n"
    assert shown(pgrepl, "-c", "select count(*) from pg_namespace where nspname = 'a'") == (printed, 0)


def test_one_commits_or_rolls_back_everything(pgrepl: Run) -> None:
    count = "select count(*) from pg_namespace where nspname in ('a', 'b')"
    assert shown(pgrepl, "-1", "-q", "-c", "create schema a", "-c", "create schema b", "-tAc", count) == ("2\n", 0)
    assert shown(pgrepl, "-q", "-c", "drop schema a", "-c", "drop schema b") == ("", 0)
    stopped = shown(pgrepl, "-1", "-q", "-v", "ON_ERROR_STOP=1", "-c", "create schema a", "-c", "selec")
    assert stopped == (f"ERROR:  {SYNTAX}", 1)
    assert shown(pgrepl, "-tAc", count) == ("0\n", 0)


def test_echo_options(pgrepl: Run) -> None:
    script = "-- comment\nselect\n1;\nselec;\n"
    line = f"ERROR:  {SYNTAX}".replace("selec\n", "selec;\n", 1)
    assert shown(pgrepl, "-a", script=script) == ("-- comment\nselect\n1;\n" + ONE + "selec;\n" + line, 0)
    assert shown(pgrepl, "-e", script=script) == ("select\n1;\n" + ONE + "selec;\n" + line, 0)
    assert shown(pgrepl, "-b", script=script) == (ONE + line + "STATEMENT:  selec;\n", 0)


def test_output_options(pgrepl: Run) -> None:
    query = "select 1 as a, 'x' as b union all select 2, null"
    assert shown(pgrepl, "-tAc", query) == ("1|x\n2|\n", 0)
    assert shown(pgrepl, "-A", "-F", ", ", "-R", ";", "-c", query) == ("a, b;1, x;2, ;(2 rows)\n", 0)
    assert shown(pgrepl, "-zA0tc", query) == ("1\0x\0002\0\0", 0)
    assert shown(pgrepl, "--csv", "-P", "null=none", "-c", query) == ("a,b\n1,x\n2,none\n", 0)
    assert shown(pgrepl, "-x", "-c", "select 1 as a") == ("-[ RECORD 1 ]\na | 1\n\n", 0)
    html = '<table border="1" a=b>\n  <tr>\n    <th align="center">a</th>\n  </tr>\n  <tr valign="top">\n'
    html += '    <td align="right">1</td>\n  </tr>\n</table>\n<p>(1 row)<br />\n</p>\n'
    assert shown(pgrepl, "-H", "-T", "a=b", "-c", "select 1 as a") == (html, 0)


def test_output_goes_to_a_file_but_messages_do_not(pgrepl: Run, tmp_path: Path) -> None:
    assert shown(pgrepl, "-o", "out", "-c", "select 1", "-c", "\\echo said", "-c", "selec") == (
        f"said\nERROR:  {SYNTAX}",
        1,
    )
    assert (tmp_path / "out").read_text() == ONE


def test_the_log_file_has_queries_and_results(pgrepl: Run, tmp_path: Path) -> None:
    shown(pgrepl, "-L", "log", "-A", "-c", "select 1")
    banner = "/******** QUERY *********/\nselect 1\n/************************/\n\n"
    assert (tmp_path / "log").read_text() == banner + ONE


def test_quiet_leaves_only_results(pgrepl: Run) -> None:
    assert shown(pgrepl, "-q", script="create schema q;\n\\x\n\\timing off\n\\r\nselect 1 as a;\n") == (
        "-[ RECORD 1 ]\na | 1\n\n",
        0,
    )


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["-k"], f"pgrepl: invalid option -- 'k'\n{HINT}", 1),
        (["--foo"], f"pgrepl: unrecognized option '--foo'\n{HINT}", 1),
        (["-c"], f"pgrepl: option requires an argument -- 'c'\n{HINT}", 1),
        (["--command"], f"pgrepl: option '--command' requires an argument\n{HINT}", 1),
        (["--csv=1"], f"pgrepl: option '--csv' doesn't allow an argument\n{HINT}", 1),
        (["--field"], "pgrepl: option '--field' is ambiguous; possibilities: '--field-separator'"
         f" '--field-separator-zero'\n{HINT}", 1),
        (["--help=foo"], HINT, 1),
        (["-o", "/nodir/x"], "pgrepl: error: /nodir/x: No such file or directory\n", 1),
        (["-L", "/nodir/x"], 'pgrepl: error: could not open log file "/nodir/x": No such file or directory\n', 1),
        (["-f", "nofile"], "pgrepl: error: nofile: No such file or directory\n", 1),
        (["-P", "format=foo"], "pgrepl: error: \\pset: allowed formats are aligned, asciidoc, csv, html, latex,"
         ' latex-longtable, troff-ms, unaligned, wrapped\npgrepl: error: could not set printing parameter'
         ' "format"\n', 1),
        (["-v", "AUTOCOMMIT=x"], 'pgrepl: error: unrecognized value "x" for "AUTOCOMMIT": Boolean expected\n', 1),
        (["-v", "a-b=1"], 'pgrepl: error: invalid variable name: "a-b"\n', 1),
        (["-d", "nodb"], f'{CONNECT} database "nodb" does not exist\n{MISSING}', 2),
        (["-U", "nobody"], f'{CONNECT} role "nobody" does not exist\n{MISSING}', 2),
        (["-q", "status"], f'{CONNECT} database "status" does not exist\n{MISSING}{FIRST.format("status")}', 2),
        (["-q", "apply", "--follow"], f"pgrepl: unrecognized option '--follow'\n{FIRST.format('apply')}", 1),
        (["-p", "99999"], 'pgrepl: error: invalid port number: "99999"\n', 2),
        (["-d", "dbname=postgres nosuch=1"], 'pgrepl: error: invalid connection option "nosuch"\n', 2),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(pgrepl: Run, arguments: list[str], message: str, code: int) -> None:
    assert shown(pgrepl, *arguments) == (message, code)


def test_long_options_may_be_shortened(pgrepl: Run) -> None:
    assert shown(pgrepl, "--tup", "--no-al", "--comm", "select 1") == ("1\n", 0)


def test_words_are_database_and_role_and_more_are_ignored(pgrepl: Run) -> None:
    warning = 'pgrepl: warning: extra command-line argument "extra" ignored\n'
    words = ("postgres", "postgres", "extra", "-c", "\\echo :DBNAME :USER")
    assert shown(pgrepl, *words) == (warning + "postgres postgres\n", 0)


def test_the_environment_names_database_role_settings_and_catalog(pgrepl: Run, tmp_path: Path) -> None:
    shown(pgrepl, "-q", "-c", "create database other", "-c", "create role ann login")
    done = pgrepl("-tAc", "show work_mem", "-c", "\\echo :DBNAME :USER", PGDATABASE="other", PGUSER="ann",
                  PGOPTIONS="-c work_mem=8MB")  # fmt: skip
    assert done.stdout.decode() == "8MB\nother ann\n"
    (tmp_path / "elsewhere").mkdir()
    done = pgrepl("-c", "\\echo :HOST", PGREPL_CATALOG="elsewhere/catalog.db")
    assert done.stdout.decode() == f"{tmp_path}/elsewhere\n"
    assert pgrepl("-h", f"{tmp_path}/elsewhere", "-c", "\\echo :HOST").stdout.decode() == f"{tmp_path}/elsewhere\n"


def test_a_start_up_file_is_read_unless_told_not_to(pgrepl: Run, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("\\set from_rc yes\n\\foo\n")
    done = subprocess.run(
        [sys.executable, "-m", "pgrepl", "-c", "\\echo :from_rc"],
        cwd=tmp_path,
        env={**environment(tmp_path), "PGREPLRC": str(tmp_path / "rc")},
        capture_output=True,
        check=False,
    )
    assert done.stderr.decode() == f"psql:{tmp_path}/rc:2: error: invalid command \\foo\n"
    assert done.stdout.decode() == "yes\n"
    assert pgrepl("-c", "\\echo :from_rc", PGREPLRC=str(tmp_path / "rc")).stdout == b":from_rc\n"


def test_list_lists_databases(pgrepl: Run) -> None:
    shown(pgrepl, "-c", "select 1")
    printed, code = shown(pgrepl, "-l", "-A", "-t")
    assert code == 0
    assert [line.split("|")[0] for line in printed.splitlines() if not line.startswith("postgres=")] == [
        "postgres", "template0", "template1",
    ]  # fmt: skip


def test_version_and_help(pgrepl: Run) -> None:
    assert shown(pgrepl, "-V") == (f"pgrepl {__version__} (PostgreSQL 17.10)\n", 0)
    page, code = shown(pgrepl, "--help")
    assert (code, page.splitlines()[4]) == (0, "  pgrepl [OPTION]... [DBNAME [USERNAME]]")
    assert shown(pgrepl, "-?") == (page, 0)
    assert "\\dRp[+] [PATTERN]      list replication publications" in shown(pgrepl, "--help=commands")[0]
    assert "  ON_ERROR_STOP\n    stop batch execution after error\n" in shown(pgrepl, "--help=variables")[0]


def test_every_option_is_on_the_help_page(pgrepl: Run) -> None:
    page = shown(pgrepl, "--help")[0]
    missing = [
        name for name, (short, _) in OPTIONS.items() if f"--{name}" not in page or (short and f"-{short}" not in page)
    ]
    assert missing == []


def test_bytes_that_are_no_utf8_are_echoed_and_refused(pgrepl: Run) -> None:
    done = pgrepl("-a", script=b"select '\xff\xe2\x28\xa1';\n\\echo '\xff'\nselect '\xe2\x28\xa1';\n")
    assert done.stdout == (
        b"select '\xff\xe2\x28\xa1';\n"
        b'ERROR:  invalid byte sequence for encoding "UTF8": 0xff\n'
        b"\\echo '\xff'\n\xff\n"
        b"select '\xe2\x28\xa1';\n"
        b'ERROR:  invalid byte sequence for encoding "UTF8": 0xe2 0x28 0xa1\n'
    )


def test_a_nul_hides_the_rest_of_its_line(pgrepl: Run) -> None:
    done = pgrepl("-A", "-t", script=b"select 1\0, 2\n;select 3;\n")
    assert done.stdout == b"1\n3\n"


def test_line_ends_of_windows_and_a_byte_order_mark(pgrepl: Run) -> None:
    done = pgrepl("-A", "-t", script=b"\xef\xbb\xbfselect 1\r\n+ 1;\r\n")
    assert done.stdout == b"2\n"


def test_a_reader_that_goes_away_ends_it_quietly(pgrepl: Run) -> None:
    program = shlex.join([sys.executable, "-m", "pgrepl", "-X"])
    done = pgrepl("-c", f"\\! yes 'select 1;' | head -20000 | {program} | head -1")
    assert done.stdout.decode() == " ?column? \n"


def test_rows_of_a_refused_copy_are_not_commands(pgrepl: Run) -> None:
    script = "copy t from stdin;\n1\t2\nselect 'data';\n\\.\n\\echo after\n"
    done = pgrepl(script=script, apart=True)
    assert done.stdout.decode() == "after\n"
    assert done.stderr.decode().count("\n") == 1


def test_failed_connect_ends_a_script_with_2(pgrepl: Run) -> None:
    printed = '\\connect: connection to catalog "catalog.db" failed: FATAL:  database "nodb" does not exist\n'
    assert shown(pgrepl, script="\\c nodb\n\\echo not reached\n") == (printed, 2)


def test_connect_keeps_what_is_not_said(pgrepl: Run) -> None:
    shown(pgrepl, "-q", "-c", "create database other", "-c", "create role ann login superuser")
    script = (
        "\\c other\n\\c - ann\n\\c postgres -\n\\c \"other\"\n\\c 'dbname=postgres'\n"
        "\\c -reuse-previous=on 'dbname=other'\n"
        "\\c -reuse-previous=maybe x\n\\c dbname=x y\n\\c - postgres localhost 5432\n\\conninfo\n"
    )
    assert shown(pgrepl, script=script) == (
        'You are now connected to database "other" as user "postgres".\n'
        'You are now connected to database "other" as user "ann".\n'
        'You are now connected to database "postgres" as user "ann".\n'
        'You are now connected to database "other" as user "ann".\n'
        'You are now connected to database "postgres" as user "postgres".\n'
        'You are now connected to database "other" as user "postgres".\n'
        'unrecognized value "maybe" for "-reuse-previous": Boolean expected\n'
        "Do not give user, host, or port separately when using a connection string\n"
        'You are now connected to database "other" as user "postgres".\n'
        'You are connected to database "other" as user "postgres" in catalog "catalog.db".\n',
        0,
    )


def test_connect_to_another_folder(pgrepl: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    script = f"\\c - - {tmp_path}/there\n\\c - - - 5432\n\\c - - server.example.com\n"
    assert shown(pgrepl, script=script) == (
        f'You are now connected to database "postgres" as user "postgres" in catalog "{tmp_path}/there/catalog.db".\n'
        'You are now connected to database "postgres" as user "postgres" in catalog "catalog.db".\n'
        '\\connect: connection to server at "server.example.com", port 5432 failed: pgrepl opens a catalog, it is no'
        " client for servers\n\tGive a folder with a catalog.db as host, or the catalog with --catalog.\n",
        2,
    )


def test_a_folder_as_host_may_be_a_relative_one(pgrepl: Run, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert shown(pgrepl, "-q", "--catalog", "there/catalog.db", "-c", "create database shop") == ("", 0)
    asked = ("-d", "shop", "-Atc", "select current_database()")
    for host in ("./there", "there/", f"../{tmp_path.name}/there", str(there), "./there/catalog.db"):
        assert shown(pgrepl, "-h", host, *asked) == ("shop\n", 0)
    script = "\\c shop - ./there\n\\cd there\n\\c 'host=./there dbname=shop'\nselect current_database();"
    assert shown(pgrepl, "-qAt", script=script) == ("shop\n", 0)
    refused = (
        'pgrepl: error: connection to server at "{0}", port 5432 failed: pgrepl opens a catalog, it is no client for '
    )
    near = "servers\n\tIs it meant to be a folder? Then write ./there, or the catalog with --catalog.\n"
    far = "servers\n\tGive a folder with a catalog.db as host, or the catalog with --catalog.\n"
    assert shown(pgrepl, "-h", "there", *asked) == (refused.format("there") + near, 2)
    assert shown(pgrepl, "-h", "nosuch", *asked) == (refused.format("nosuch") + far, 2)


def test_conninfo_of_18_is_a_table(pgrepl: Run) -> None:
    script = "\\pset tuples_only\nSET pgrepl.postgres_version = 18;\n\\conninfo\n"
    lines = shown(pgrepl, "-q", "-A", script=script)[0].splitlines()
    assert [line for line in lines if "PID" not in line] == [
        "Database|postgres", "Client User|postgres", "Catalog|catalog.db", "Superuser|on", "Hot Standby|off",
    ]  # fmt: skip


def test_connecting_after_cd_finds_the_same_catalog(pgrepl: Run, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    script = "\\cd sub\n\\c template1\n\\conninfo\n\\echo :HOST\n"
    connected = 'connected to database "template1" as user "postgres" in catalog "catalog.db".\n'
    assert shown(pgrepl, "-q", "--data-path", "files", script=script) == (f"You are {connected}{tmp_path}\n", 0)
    assert list((tmp_path / "sub").iterdir()) == []


def test_password_is_neither_shown_nor_remembered(pgrepl: Run, tmp_path: Path) -> None:
    """It is hashed as often as scram_iterations says; \\errverbose does not repeat the statement."""
    (tmp_path / "s.sql").write_text(
        "set scram_iterations = 5000;\n\\set ECHO_HIDDEN noexec\n\\password postgres\n\\password nosuch\n\\errverbose\n"
        "select substr(rolpassword, 1, 18) from pg_authid where rolname = 'postgres';\n"
    )
    asked = 'Enter new password for user "{}": \nEnter it again: \n'
    assert shown(pgrepl, "-Atq", "-f", "s.sql", script="a\na\nb\nb\n") == (
        asked.format("postgres")
        + asked.format("nosuch")
        + 'psql:s.sql:4: ERROR:  role "nosuch" does not exist\nThere is no previous error.\nSCRAM-SHA-256$5000\n',
        0,
    )


@pytest.mark.parametrize("interval", ["1e400", "-1", "1x"])
def test_watch_refuses_what_is_no_interval(pgrepl: Run, interval: str) -> None:
    printed = f'\\watch: incorrect interval value "{interval}"\n'
    assert shown(pgrepl, "-v", "ON_ERROR_STOP=1", script=f"select 1 \\watch {interval}\n") == (printed, 3)


def test_an_editor_that_removes_the_file(pgrepl: Run, tmp_path: Path) -> None:
    done = pgrepl(script="select 1\n\\e\n\\echo after\n\\r\n", PSQL_EDITOR="rm", TMPDIR=str(tmp_path))
    lines = done.stdout.decode().splitlines()
    assert [line.partition(": ")[2] for line in lines[:2]] == ["No such file or directory"] * 2
    assert lines[2:] == ["after", "Query buffer reset (cleared)."]


def test_roles_show_until_when_a_password_is_valid_in_the_sessions_zone_and_style(pgrepl: Run) -> None:
    script = (
        "create role a valid until '2030-01-01 00:00+00';\ncreate role b valid until 'infinity';\n"
        "set timezone = 'Asia/Tokyo';\nset datestyle = 'German';\n\\du [ab]\n"
    )
    assert shown(pgrepl, "-Atq", script=script) == (
        "a|Cannot login\nPassword valid until 01.01.2030 09:00:00 JST\nb|Cannot login\nPassword valid until infinity\n",
        0,
    )


def test_control_c_while_modules_are_loaded(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pgrepl.shell.startup': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hook())\n"
        "from pgrepl.cli import main\n"
        "main(['-c', 'SELECT 1'])\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
