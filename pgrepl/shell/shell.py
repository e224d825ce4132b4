"""The shell's state, psql's `pset`: connection, streams, variables, print options; Ctrl-C; and a connection that was
lost.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pgrepl import __version__
from pgrepl.ground import interrupts
from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.interrupts import user_request
from pgrepl.query import timeouts
from pgrepl.shell import streams
from pgrepl.shell.connection import CATALOG_FILE, PORT, ConnectFailure, Connection, ConnectTarget
from pgrepl.shell.formats.table import PrintOptions, TableContent, message_text
from pgrepl.shell.scripts.lexer import Lexer, QueryBuffer, Quoting
from pgrepl.shell.scripts.slash_lexer import Conditionals
from pgrepl.shell.streams import CopySource, LineReader, Stream, open_output, standard_input
from pgrepl.shell.variables import Variables

if TYPE_CHECKING:
    from pgrepl.shell.progress import StatementBar

SUCCESS, FAILURE, NO_CONNECTION, SCRIPT_ERROR = 0, 1, 2, 3  # exit codes
PROGRAM = "pgrepl"

# the version of PostgreSQL that SERVER_VERSION_NAME and the prompt show
SPOKEN_VERSION = "17.10"
SPOKEN_VERSION_NUM = "170010"

DEFAULT_PROMPTS = {"PROMPT1": "%/%R%x%# ", "PROMPT2": "%/%R%x%# ", "PROMPT3": ">> "}

_CONNECTION_VARIABLES = ("DBNAME", "USER", "HOST", "PORT", "ENCODING", "SERVER_VERSION_NAME", "SERVER_VERSION_NUM")

Severity = Literal["error", "warning", "info"]


@dataclass(slots=True)
class NextQuery:
    r"""The options of `\g` and its family for the query that they send."""

    output: str | None = None  # \g FILE
    saved_options: PrintOptions | None = None  # print options to return to
    set_prefix: str | None = None  # \gset
    describe: bool = False  # \gdesc
    execute: bool = False  # \gexec
    bind: list[str] | None = None  # \bind
    crosstab: list[str | None] | None = None  # \crosstabview
    copy_source: CopySource | None = None  # \copy … FROM
    copy_stream: Stream | None = None  # \copy … TO


class Shell:
    def __init__(self) -> None:
        self.stdout = Stream(1)
        self.stderr = Stream(2, buffered=False)
        self.query_out: Stream = self.stdout
        self.log_file: Stream | None = None
        self.options = PrintOptions()
        self.variables = Variables(self.error)
        self.connection: Connection | None = None
        self.defaults = ConnectTarget(CATALOG_FILE)  # for `\connect`
        self.conditionals = Conditionals()  # of the script being read
        self.next = NextQuery()
        self.last_error: tuple[Report, str] | None = None
        self.timing = False
        self.restrict_key: str | None = None
        self.not_terminal = not (os.isatty(0) and os.isatty(1))
        self.interactive = False  # a person types the commands
        self.source: LineReader | None = None  # the script with the commands
        self.source_name: str | None = None  # the script's name for messages
        self.line_number = 0
        self.statement_line = 1
        self.terse_messages = False  # without "pgrepl: error:"
        self.cancelled = False
        self.bar: StatementBar | None = None  # of the running statement
        self.query_buffer: QueryBuffer | None = None  # of the running script
        self.own_commands: dict[str, Callable[[Any], Any]] = {}  # backslash commands that are done in another way
        self.backticks: Callable[[str], str] = self.run_program
        self._set_up_variables()

    def _set_up_variables(self) -> None:
        for name, value in {
            "VERSION": f"pgrepl {__version__} (PostgreSQL {SPOKEN_VERSION})",
            "VERSION_NAME": SPOKEN_VERSION,
            "VERSION_NUM": SPOKEN_VERSION_NUM,
            "LAST_ERROR_MESSAGE": "",
            "LAST_ERROR_SQLSTATE": "00000",
            "AUTOAPPLY": "on",
            "AUTOCOMMIT": "on",
            "SHOW_ALL_RESULTS": "on",
            **DEFAULT_PROMPTS,
        }.items():
            self.variables.set(name, value)

    def prepare_lexer(self, lexer: Lexer) -> None:
        """Prepare the lexer of a script that is about to be read."""

    def connect(self, target: ConnectTarget) -> Connection:
        return Connection(target, self.on_notice)

    def run_program(self, text: str) -> str:
        """The output of a shell command in backticks, without its last line end."""
        self.stdout.flush()
        done = subprocess.run(text, shell=True, stdout=subprocess.PIPE, check=False)
        self.set_shell_result(done.returncode)
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    # --- messages ----------------------------------------------------------------------------------------------------

    def log(self, severity: Severity, text: str, *, label: str | None = None) -> None:
        """Write a message on standard error, with the script and its line if there is one (pg_log_generic)."""
        self.stdout.flush()
        if self.query_out is not self.stdout:
            self.query_out.flush()
        prefix = ""
        if self.source_name is not None:
            line = f"{self.line_number}:" if self.line_number > 0 else ""
            prefix = f"psql:{self.source_name}:{line} "
        elif not self.terse_messages:
            prefix = f"{PROGRAM}: "
        if not self.terse_messages:
            label = label or ("" if severity == "info" else severity)
            prefix += f"{label}: " if label else ""
        self.stderr.write(f"{prefix}{text.removesuffix(chr(10))}\n")

    def error(self, text: str) -> None:
        self.log("error", text)

    def warning(self, text: str) -> None:
        self.log("warning", text)

    def info(self, text: str) -> None:
        self.log("info", text)

    def hint(self, text: str) -> None:
        self.log("info", text, label="hint")

    def say(self, text: str) -> None:
        """Write a line on standard output."""
        self.stdout.write(text + "\n")

    @property
    def quiet(self) -> bool:
        return self.variables.on("QUIET")

    def report(self, report: Report, query: str | None) -> None:
        """Print an error or notice of the session (VERBOSITY, SHOW_CONTEXT)."""
        variables = self.variables
        self.info(message_text(report, query, variables.word("VERBOSITY"), variables.word("SHOW_CONTEXT")))

    def on_notice(self, report: Report) -> None:
        self.end_bar()
        query = self.connection.session.query if self.connection is not None else None
        self.report(report, query)

    def end_bar(self) -> None:
        """Remove the running statement's bar, before something is printed."""
        if self.bar is not None:
            self.bar.end()

    # --- printing ----------------------------------------------------------------------------------------------------

    def spoken(self, options: PrintOptions) -> PrintOptions:
        """The options for psql of the release that the connection speaks."""
        return (
            options if self.connection is None else replace(options, release=self.connection.session.settings.release)
        )

    def print_table(
        self, table: TableContent, options: PrintOptions | None = None, stream: Stream | None = None
    ) -> bool:
        r"""Print a table on the query output. False, after a message: that failed."""
        stream = stream or self.query_out
        streams.print_table(table, self.spoken(options or self.options), stream, log=self.log_file)
        stream.flush()
        if stream.error is not None:
            self.error(f"could not print result table: {stream.error.strerror}")
            return False
        return True

    def echo_hidden(self, query: str) -> bool:
        """Print a query of a backslash command, if ECHO_HIDDEN is set; False: it is not to be run."""
        mode = self.variables.word("ECHO_HIDDEN")
        if mode != "noexec" and not self.variables.on("ECHO_HIDDEN"):
            return True
        banner = f"/******** QUERY *********/\n{query}\n/************************/\n\n"
        self.stdout.write(banner)
        self.stdout.flush()
        if self.log_file is not None:
            self.log_file.write(banner)
            self.log_file.flush()
        return mode != "noexec"

    def send_output_to(self, name: str | None) -> bool:
        r"""Direct query results to a file or a command (`\o`, -o), or with None to standard output."""
        if name:
            self.stdout.flush()
            try:
                opened = open_output(name)
            except OSError as error:
                self.error(f"{name}: {error.strerror}")
                return False
        else:
            opened = self.stdout
        if self.query_out is not self.stdout:
            status = self.query_out.close()
            if self.query_out.is_pipe:
                self.set_shell_result(status)
        self.query_out = opened
        return True

    def set_shell_result(self, status: int) -> None:
        """Set SHELL_ERROR and SHELL_EXIT_CODE after a shell command; a signal counts as 128 and its number."""
        self.variables.set("SHELL_ERROR", "true" if status else "false")
        self.variables.set("SHELL_EXIT_CODE", str(128 - status if status < 0 else status))

    def set_options(self, **changes: object) -> None:
        self.options = replace(self.options, **changes)  # type: ignore[arg-type]

    # --- variables ---------------------------------------------------------------------------------------------------

    def lookup(self, name: str, quoting: Quoting) -> str | None:
        r"""A variable's value for `:name`; None: it has none, or the branch of \if is not taken."""
        value = self.variables.get(name) if self.conditionals.active else None
        if value is None or quoting == "plain":
            return value
        if quoting == "shell":
            if "\n" in value or "\r" in value:
                self.error(f'shell command argument contains a newline or carriage return: "{value}"')
                return None
            return shell_quoted(value)
        if self.connection is None:
            self.error("cannot escape without active connection")
            return None
        if any("\udc80" <= char <= "\udcff" for char in value):
            self.info("incomplete multibyte character" if _ends_early(value) else "invalid multibyte character")
            return None
        if quoting == "identifier":
            return '"' + value.replace('"', '""') + '"'
        return quote_literal(value)

    def sync_variables(self) -> None:
        """Set the variables that tell about the connection."""
        connection = self.connection
        known: dict[str, str] = {}
        if connection is not None:
            known = {
                "DBNAME": connection.database,
                "USER": connection.user,
                "HOST": connection.host,
                "PORT": PORT,
                "ENCODING": connection.setting("client_encoding"),
                "SERVER_VERSION_NAME": connection.setting("server_version"),
                "SERVER_VERSION_NUM": connection.setting("server_version_num"),
            }
        for name in _CONNECTION_VARIABLES:
            self.variables.set(name, known.get(name))

    @property
    def standard_strings(self) -> bool:
        return self.connection is not None and self.connection.setting("standard_conforming_strings") == "on"

    # --- input -------------------------------------------------------------------------------------------------------

    def ask(self, prompt: str, *, echo: bool) -> str:
        """The answer to a prompt from the terminal, or from standard input; passwords without echo."""
        self.stdout.flush()
        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        except OSError:
            self.stderr.write(prompt)
            answer = standard_input().read_line() or ""
            if not echo:
                self.stderr.write("\n")
            return answer
        with open(terminal, "rb", buffering=0) as reader:
            return ask_on_terminal(reader, terminal, prompt, echo=echo)


def ask_on_terminal(reader: BinaryIO, terminal: int, prompt: str, *, echo: bool) -> str:
    os.write(terminal, prompt.encode("utf-8", "surrogateescape"))
    if echo:
        return LineReader(reader).read_line() or ""
    import termios

    before = termios.tcgetattr(terminal)
    silent = list(before)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
    try:
        return LineReader(reader).read_line() or ""
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")


def quote_literal(value: str) -> str:
    """The value as a literal (PQescapeLiteral); with a backslash in it, ` E'…'`."""
    quoted = "'" + value.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if "\\" in value else quoted


def shell_quoted(value: str) -> str:
    """The value as a word of the shell, quoted if need be (appendShellString)."""
    if value and all(char.isascii() and (char.isalnum() or char in "-_./:") for char in value):
        return value
    return "'" + value.replace("'", "'\"'\"'") + "'"


def _ends_early(value: str) -> bool:
    raw = value.encode("utf-8", "surrogateescape")
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.end == len(raw) and error.reason == "unexpected end of data"
    return False


# --- interrupt --------------------------------------------------------------------------------------------------------


_doing: Literal["query", "input", "other"] = "other"


def watch_for_interrupts(shell: Shell) -> None:
    """Handle SIGINT as psql does."""

    def interrupted(_signal: int, frame: FrameType | None) -> None:
        if _doing == "input":
            raise KeyboardInterrupt
        shell.cancelled = True
        if _doing == "query":
            shell.end_bar()
            shell.stderr.write("Cancel request sent\n")
            timeouts.interrupt(user_request(), frame)

    signal.signal(signal.SIGINT, interrupted)


def cancels_query() -> _While:
    """A context in which Ctrl-C makes the statement fail, as a cancel request does."""
    return _While("query")


def stops_waiting() -> _While:
    """A context in which Ctrl-C raises KeyboardInterrupt, to end a wait for input."""
    return _While("input")


class _While:
    __slots__ = ("_before", "_doing")

    def __init__(self, doing: Literal["query", "input"]) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        global _doing
        self._before, _doing = _doing, self._doing

    def __exit__(self, *_: object) -> None:
        global _doing
        if self._doing == "query" and self._before != "query":
            timeouts.stop()  # a pending interrupt must not reach what follows
        _doing = self._before


def cancelled() -> PgError:
    """The error of Ctrl-C while the subscriptions catch up."""
    interrupts.cancel()
    return PgError("57014", "canceling statement due to user request")


_CLOSED = (
    "server closed the connection unexpectedly\n"
    "\tThis probably means the server terminated abnormally\n"
    "\tbefore or while processing the request."
)


def check_connection(shell: Shell, error: PgError) -> None:
    """After a FATAL error connect a person anew, and end a script."""
    connection = shell.connection
    if connection is None or error.report.severity != "FATAL":
        return
    shell.info(_CLOSED)
    if not shell.interactive:
        shell.error("connection to server was lost")
        raise SystemExit(NO_CONNECTION)
    shell.stderr.write("The connection to the server was lost. Attempting reset: ")
    try:
        shell.connection = Connection(connection.target, shell.on_notice)
        shell.stderr.write("Succeeded.\n")
    except ConnectFailure:
        shell.connection = None
        shell.stderr.write("Failed.\n")
    connection.close()
    shell.sync_variables()
