"""The prompt's text, and a person at a terminal."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgrepl.shell.connection import Connection, ConnectTarget
from pgrepl.shell.prompt.interactive import prompts_of
from pgrepl.shell.prompt.prompt import prompt_text
from pgrepl.shell.scripts.execute import send_query
from pgrepl.shell.scripts.lexer import Lexer, Prompt
from pgrepl.shell.scripts.slash_lexer import Branch
from pgrepl.shell.shell import Shell
from tests.harness.dose import dose
from tests.harness.programs import PATIENCE, cpu_seconds, environment, eventually
from tests.shell.screen import Screen

pexpect = pytest.importorskip("pexpect")


# --- its text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("%/%R%x%# ", "!?> "),
        ("a%%b%", "a%b"),
        ("%101|%0x42|%303%251", "A|x42|é"),
        ("[%:name:]%:other:", "[value]"),
        ("%`echo one; echo two`>", "one>"),
        ("%l %? %z", "1  z"),
        ("%[\x1b[1m%]x%[\x1b[0m%]", "\x01\x1b[1m\x02x\x01\x1b[0m\x02"),
    ],
)
def test_escapes_without_a_connection(template: str, shown: str) -> None:
    shell = Shell()
    shell.variables.set("PROMPT1", template)
    shell.variables.set("name", "value")
    assert prompt_text(shell, Prompt.READY) == shown


def test_a_statement_sees_what_was_committed_after_its_prompt(tmp_path: Path) -> None:
    """The prompt asks whether the role is a superuser; a snapshot kept from that would be the next statement's."""

    def connected() -> Shell:
        shell = Shell()
        shell.connection = Connection(ConnectTarget(str(tmp_path / "catalog.db")), shell.on_notice)
        return shell

    def run(shell: Shell, query: str) -> list[tuple[str | None, ...]]:
        assert shell.connection is not None
        return [row for result in shell.connection.run(query) for row in result.rows]

    person, other = connected(), connected()
    run(other, "CREATE TABLE t (a int)")
    run(person, "BEGIN")
    assert prompt_text(person, Prompt.READY) == "postgres=*# "
    run(other, "INSERT INTO t VALUES (1)")
    assert run(person, "SELECT a FROM t") == [("1",)]
    for shell in (person, other):
        assert shell.connection is not None
        shell.connection.close()


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (Prompt.CONTINUE, "-"),
        (Prompt.COMMENT, "*"),
        (Prompt.SINGLE_QUOTE, "'"),
        (Prompt.DOUBLE_QUOTE, '"'),
        (Prompt.DOLLAR_QUOTE, "$"),
        (Prompt.PAREN, "("),
    ],
)
def test_the_second_prompt_says_what_is_open(status: Prompt, shown: str) -> None:
    shell = Shell()
    shell.variables.set("PROMPT2", "%R")
    assert prompt_text(shell, status) == shown


def test_the_prompt_of_a_branch_that_is_not_taken() -> None:
    shell = Shell()
    shell.variables.set("PROMPT1", "%R")
    shell.conditionals.push(Branch.FALSE)
    assert prompt_text(shell, Prompt.READY) == "@"


def test_an_unset_prompt_is_empty() -> None:
    shell = Shell()
    shell.variables.set("PROMPT1", None)
    assert prompt_text(shell, Prompt.READY) == ""


@pytest.mark.parametrize(
    ("text", "prompts", "complete"),
    [
        ("", [Prompt.READY], True),
        ("select 1;", [Prompt.READY], True),
        ("select", [Prompt.CONTINUE], False),
        ("select 'a\nb", [Prompt.SINGLE_QUOTE, Prompt.SINGLE_QUOTE], False),
        ("select (\n1\n);", [Prompt.PAREN, Prompt.PAREN, Prompt.READY], True),
        ("select 1; select", [Prompt.CONTINUE], False),
        ("\\d t", [Prompt.READY], True),
        ("select 1 \\g", [Prompt.CONTINUE], True),
        ("select '\\g", [Prompt.SINGLE_QUOTE], False),
        ("quit", [Prompt.CONTINUE], True),
        ("-- note", [Prompt.READY], True),
        ("/* note\n*/", [Prompt.COMMENT, Prompt.CONTINUE], False),
    ],
)
def test_enter_sends_what_is_complete(text: str, prompts: list[Prompt], complete: bool) -> None:
    lexer = Lexer(lambda name, quoting: None, lambda warning: None)
    assert prompts_of(lexer, text) == (prompts, complete)


# --- at a terminal ---------------------------------------------------------------------------------------------------


class Terminal:
    """pgrepl in a pseudo-terminal, and a screen that shows what it writes."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        variables = {**environment(folder), "TERM": "xterm", "NO_COLOR": "1", "PAGER": ""}
        variables["PGOPTIONS"] = "-c pgrepl.engine=local"  # no Spark in the background
        command = ["-m", "pgrepl", "-X", *arguments]
        self.child = pexpect.spawn(sys.executable, command, cwd=folder, env=variables, dimensions=(30, 100))
        self.screen = Screen()
        self.since = 0  # the line up to which everything has been seen

    def see(self, text: str) -> None:
        """Wait until this stands on the screen, below what was seen before."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen.text(self.since):
            try:
                self.screen.write(self.child.read_nonblocking(65536, timeout=1).decode())
            except pexpect.TIMEOUT:
                assert time.monotonic() < deadline, f"never seen: {text!r} in\n{self.screen.text(self.since)}"
            except pexpect.EOF:
                assert text in self.screen.text(self.since), f"never seen: {text!r} in\n{self.screen.text(self.since)}"
        shown = self.screen.text(self.since)
        self.since += shown[: shown.index(text) + len(text)].count("\n")

    def end(self) -> int:
        """Wait until it has left; its exit code."""
        self.child.expect(pexpect.EOF, timeout=PATIENCE)
        self.child.wait()
        return int(self.child.exitstatus)

    def enter(self, line: str) -> None:
        self.child.send(line + "\r")

    def press(self, keys: str) -> None:
        self.child.send(keys)

    def close(self) -> None:
        """End it, however long that takes: pexpect waits for a tenth of a second."""
        self.child.kill(signal.SIGKILL)
        self.child.wait()
        self.child.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    terminal.see('Type "help" for help.')
    terminal.see("postgres=#")
    yield terminal
    terminal.close()


def test_statements_and_transactions(terminal: Terminal) -> None:
    terminal.enter("create role ann login;")
    terminal.see("CREATE ROLE\n")
    terminal.see("postgres=#")
    terminal.enter("begin;")
    terminal.see("BEGIN\n")
    terminal.see("postgres=*#")
    terminal.enter("selec;")
    terminal.see('ERROR:  syntax error at or near "selec"\nLINE 1: selec;\n        ^\n')
    terminal.see("postgres=!#")
    terminal.enter("rollback;")
    terminal.see("ROLLBACK\n")
    terminal.see("postgres=#")
    terminal.enter("\\c - ann")
    terminal.see('You are now connected to database "postgres" as user "ann".\n')
    terminal.see("postgres=>")


@pytest.mark.slow
def test_a_statement_over_several_lines(terminal: Terminal) -> None:
    terminal.enter("create publication")
    terminal.see("postgres-#")
    terminal.enter('"my')
    terminal.see('postgres"#')
    terminal.enter('pub"')
    terminal.see("postgres-#")
    terminal.enter("for all tables with (")
    terminal.see("postgres(#")
    terminal.enter("publish = 'insert")
    terminal.see("postgres'#")
    terminal.enter("');")
    terminal.see("CREATE PUBLICATION\n")


@pytest.mark.slow
def test_a_failed_connection_keeps_the_old_one(terminal: Terminal) -> None:
    terminal.enter("\\c nodb")
    terminal.see(
        'connection to catalog "catalog.db" failed: FATAL:  database "nodb" does not exist\nPrevious connection kept\n'
    )
    terminal.see("postgres=#")


@pytest.mark.slow
def test_an_unknown_command_is_told_where_help_is(terminal: Terminal) -> None:
    terminal.enter("\\nothing")
    terminal.see("invalid command \\nothing\nTry \\? for help.\n")


def test_control_c_forgets_the_line_and_leaves_if_blocks(terminal: Terminal) -> None:
    terminal.enter("select (")
    terminal.see("postgres(#")
    terminal.press("\x03")
    terminal.see("postgres=#")
    terminal.enter("\\if false")
    terminal.see("postgres@#")
    terminal.enter("select 1;")
    terminal.see("query ignored; use \\endif or Ctrl-C to exit current \\if block\n")
    terminal.enter("\\x")
    terminal.see("\\x command ignored; use \\endif or Ctrl-C to exit current \\if block\n")
    terminal.press("\x03")
    terminal.see("\\if: escaped\n")
    terminal.see("postgres=#")


def test_control_c_cancels_what_runs(terminal: Terminal) -> None:
    terminal.enter("\\! echo begun")
    terminal.see("begun\n")
    terminal.enter("select count(*) from generate_series(1, 100000000);")
    begun = cpu_seconds(terminal.child.pid)
    terminal.see("100000000);\n")
    eventually(lambda: cpu_seconds(terminal.child.pid) > begun + 0.5)
    terminal.press("\x03")
    terminal.see("ERROR:  canceling statement due to user request\n")
    terminal.see("postgres=#")


def test_control_c_before_a_query_begins_cancels_it(tmp_path: Path) -> None:
    """Its modules may still be loading."""
    shell = Shell()
    shell.connection = Connection(ConnectTarget(str(tmp_path / "catalog.db")), shell.on_notice)
    shell.cancelled = True
    assert not send_query(shell, "CREATE TABLE t ()")
    shell.cancelled = False
    assert shell.variables.get("LAST_ERROR_MESSAGE") == "canceling statement due to user request"
    assert send_query(shell, "CREATE TABLE t ()")
    shell.connection.close()


@pytest.mark.parametrize("word", dose(["\\q", "quit", "exit;", "\x04"], 8))
def test_the_ways_out(terminal: Terminal, word: str) -> None:
    terminal.press(word if word == "\x04" else word + "\r")
    assert terminal.end() == 0


@pytest.mark.slow
def test_words_that_newcomers_try(terminal: Terminal) -> None:
    terminal.enter("help")
    terminal.see("Type:  \\copyright for distribution terms\n")
    terminal.see("       \\q to quit\n")
    terminal.enter("select 1")
    terminal.see("postgres-#")
    terminal.enter("quit")
    terminal.see("Use \\q to quit.\n")
    terminal.see("postgres-#")
    terminal.press("\x03")
    terminal.see("postgres=#")
    terminal.enter("\\set IGNOREEOF 2")
    terminal.see("\\set IGNOREEOF 2\npostgres=#")  # behind the line: in between the terminal reads ^D itself
    terminal.press("\x04")
    terminal.see('Use "\\q" to leave pgrepl.\n')


def test_tab_completes(terminal: Terminal) -> None:
    terminal.enter("create publication completed for all tables;")
    terminal.see("CREATE PUBLICATION\n")
    terminal.press("drop pub\t\tcomp\t;\r")
    terminal.see("DROP PUBLICATION\n")


def test_candidates_pop_up_while_you_type(terminal: Terminal) -> None:
    terminal.enter("create publication completed for all tables;")
    terminal.see("CREATE PUBLICATION\n")
    terminal.enter("\\set COMPLETION popup")
    terminal.see("postgres=#")
    terminal.press("drop publication cpld")
    terminal.see("completed")
    terminal.press("\t\r;\r")  # the candidate is chosen, then the statement is sent
    terminal.see("DROP PUBLICATION\n")


@pytest.mark.slow
def test_control_c_at_the_list_of_candidates_begins_a_new_line(terminal: Terminal) -> None:
    terminal.press("set \t")
    terminal.see("possibilities? (y or n)")
    terminal.press("\x03")
    terminal.see("postgres=#")
    terminal.press("set \t")
    terminal.see("possibilities? (y or n)")
    terminal.press("y")
    terminal.see("--More--")
    terminal.press("\x03")
    terminal.see("postgres=#")
    for keys in ("\x04", "y\x04"):  # Ctrl-D is a no
        terminal.press("set \t")
        terminal.see("possibilities? (y or n)")
        terminal.press(keys)
        terminal.see("postgres=# set")
        terminal.press("\x15")
    terminal.enter("select 'still' || 'there';")
    terminal.see(" stillthere\n")
    terminal.enter("\\q")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.screen.text(0)
    assert "WARNING" not in terminal.screen.text(0)  # of prompt_toolkit, whose questions nobody answers


@pytest.mark.slow
def test_what_is_typed_while_a_query_runs_stands_at_the_next_prompt(terminal: Terminal) -> None:
    terminal.enter("select pg_sleep(5), 'slept';")
    terminal.see("working")  # the line that shows it is at work
    terminal.enter("select 'typed' || 'ahead';")
    terminal.see(" | slept")
    terminal.see(" typedahead\n")
    shown = terminal.screen.text(0)
    assert shown.count("select 'typed' || 'ahead';") == 1
    assert "\x1b[" not in shown
    assert "1R" not in shown


def test_history_outlives_the_session_without_passwords(terminal: Terminal, tmp_path: Path) -> None:
    terminal.enter("create role kept;")
    terminal.see("CREATE ROLE\n")
    terminal.enter("create role hidden password 'secret';")
    terminal.see("CREATE ROLE\n")
    terminal.enter("select 1\r+ 1;")
    terminal.see("(1 row)\n")
    terminal.enter("\\s")
    terminal.see("create role hidden password 'secret';\n")
    terminal.enter("\\q")
    assert terminal.end() == 0
    history = tmp_path / ".pgrepl_history"
    assert history.read_bytes() == b"create role kept;\nselect 1\x01+ 1;\n\\s\n\\q\n"
    assert history.stat().st_mode & 0o777 == 0o600
    again = Terminal(tmp_path)
    again.see("postgres=#")
    again.press("\x1b[A\x1b[A\x1b[A\r")
    again.see("(1 row)\n")
    again.close()


@pytest.mark.slow
def test_long_results_go_through_the_pager(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.see("postgres=#")
    terminal.enter("\\setenv PAGER 'sed s/^/paged:/'")
    terminal.enter("select * from generate_series(1, 40);")
    terminal.see("paged: generate_series")
    terminal.see("paged:(40 rows)")
    terminal.enter("\\pset pager off")
    terminal.see("Pager usage is off.\n")
    terminal.enter("select 1 as unpaged;")
    terminal.see("\n unpaged\n")
    terminal.close()


@pytest.mark.slow
def test_without_line_editing(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "-n")
    terminal.see("postgres=#")
    terminal.enter("select 1\r+ 1 as sum;")
    terminal.see("postgres-#")
    terminal.see("-----\n   2\n(1 row)\n")
    terminal.see("postgres=#")
    terminal.close()
