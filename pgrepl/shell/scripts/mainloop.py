"""Reading and running commands, from a script or a person (psql's MainLoop), and the prompt without line editing (-n).

A line is scanned up to a semicolon, a backslash or its end. A semicolon sends the query buffer; a backslash command
goes to `backslash`.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from pgrepl.query.timeouts import idle
from pgrepl.shell import shell as interrupt
from pgrepl.shell.backslash import handle_slash
from pgrepl.shell.prompt.prompt import INVISIBLE_BEGIN, INVISIBLE_END, prompt_text
from pgrepl.shell.scripts.execute import send_query
from pgrepl.shell.scripts.lexer import Lexer, Prompt, QueryBuffer, Stop
from pgrepl.shell.scripts.slash_lexer import Conditionals, Outcome
from pgrepl.shell.shell import FAILURE, NO_CONNECTION, SCRIPT_ERROR, SUCCESS, Shell
from pgrepl.shell.streams import LineReader, ReadFailure, standard_input


class Person(Protocol):
    """A person at a terminal, who types lines at the prompt."""

    def read_line(self, prompt: Prompt, loop: MainLoop) -> str | None:
        """The next line, None at the end of input. KeyboardInterrupt: Ctrl-C."""

    def history(self, *, for_file: bool) -> list[str] | None:
        """All entries, for a file those without passwords; None if none are kept."""


class MainLoop:
    """The loop of one script, or of a person's session. `\\i` runs another inside it."""

    def __init__(self, shell: Shell, source: LineReader | None = None, person: Person | None = None) -> None:
        self.shell = shell
        self.source = source
        self.person = person
        self.lexer = Lexer(shell.lookup, shell.warning)
        shell.prepare_lexer(self.lexer)
        self.previous = ""  # the query sent last, for \g on an empty buffer
        self.prompt = Prompt.READY

    @property
    def query(self) -> QueryBuffer:
        return self.lexer.query

    def run(self) -> int:
        """Run to the end of input, `\\q`, or an error with ON_ERROR_STOP; returns the exit code."""
        shell = self.shell
        kept = (shell.source, shell.interactive, shell.line_number, shell.conditionals, shell.query_buffer)
        shell.source, shell.interactive, shell.query_buffer = self.source, self.person is not None, self.query
        shell.line_number, shell.statement_line = 0, 1
        shell.conditionals = Conditionals()
        try:
            return self._run()
        finally:
            shell.source, shell.interactive, shell.line_number, shell.conditionals, shell.query_buffer = kept

    def _run(self) -> int:
        shell = self.shell
        status, stop_on_error = SUCCESS, False
        outcome = Outcome.NEXT
        end_of_files = 0
        while status == SUCCESS:
            if shell.cancelled:
                if self.person is None:
                    status = SCRIPT_ERROR
                    break
                shell.cancelled = False
            shell.stdout.flush()
            try:
                line = self._read_line()
            except KeyboardInterrupt:
                self._abandon()
                if self.person is None:
                    status = SCRIPT_ERROR
                end_of_files, outcome = 0, Outcome.NEXT
                continue
            except ReadFailure as failure:
                shell.error(f"could not read from input file: {failure}")
                status = FAILURE
                break
            if line is None:
                end_of_files += 1
                if self.person is not None:
                    if end_of_files < shell.variables.number("IGNOREEOF"):
                        if not shell.quiet:
                            shell.say('Use "\\q" to leave pgrepl.')
                        continue
                    shell.say("" if shell.quiet else "\\q")
                break
            end_of_files = 0
            shell.line_number += 1
            if shell.line_number == 1:
                line = line.removeprefix("\ufeff")
                if self.person is None and line.startswith("PGDMP"):
                    shell.say("The input is a PostgreSQL custom-format dump.")
                    shell.say("Use the pg_restore command-line client to restore this dump to a database.\n")
                    status = FAILURE
                    break
            if not line and not self.lexer.in_quotes:
                continue
            if self.person is not None:
                assisted = self._assist(line)
                if assisted is not None:
                    if assisted is Outcome.QUIT:
                        break
                    continue
            elif shell.variables.word("ECHO") == "all":
                shell.say(line)
                shell.stdout.flush()
            stop_on_error = shell.variables.on("ON_ERROR_STOP")
            try:
                ok, outcome = self._process(line, stop_on_error, outcome)
            except KeyboardInterrupt:  # while the line was read
                self._abandon()
                if self.person is None:
                    status = SCRIPT_ERROR
                continue
            if outcome is Outcome.QUIT:
                break
            if self.person is None:
                if not ok and stop_on_error:
                    status = SCRIPT_ERROR
                elif shell.connection is None:
                    status = NO_CONNECTION
        return self._end(status, stop_on_error, outcome)

    def _read_line(self) -> str | None:
        with interrupt.stops_waiting(), self._while_idle():
            if self.person is None:
                assert self.source is not None
                return self.source.read_line()
            if not self.query:
                self.prompt = Prompt.READY
            return self.person.read_line(self.prompt, self)

    def _while_idle(self) -> AbstractContextManager[None]:
        """A context that ends an idle session after its timeouts (idle_session_timeout, …)."""
        connection = self.shell.connection
        if connection is None or connection.lost is not None:
            return nullcontext()
        return idle(connection.session, connection.idle_since, connection.terminate)

    def _abandon(self) -> None:
        """After Ctrl-C forget the query buffer, and leave the innermost \\if."""
        shell = self.shell
        self.lexer.finish()
        self.lexer.reset()
        self.query.text = ""
        self.prompt = Prompt.READY
        shell.statement_line = 1
        shell.cancelled = False
        if self.person is not None:
            if shell.conditionals:
                shell.error("\\if: escaped")
                shell.conditionals.pop()

    def _assist(self, line: str) -> Outcome | None:
        """Run `help`, `quit` and `exit`, which a person may type alone on a line; None: the line is none of them."""
        shell = self.shell
        word = line.rstrip(" \t\n\r\f\v")
        word = word.removesuffix(";").rstrip(" \t\n\r\f\v").lower()
        begun = bool(self.query)
        in_text = self.prompt not in (Prompt.READY, Prompt.CONTINUE, Prompt.PAREN)
        if word == "help":
            if begun:
                shell.say("Use \\? for help or press control-C to clear the input buffer.")
                return None
            shell.say("You are using pgrepl, PostgreSQL's logical replication for tables in a lake.")
            shell.say("Type:  \\copyright for distribution terms")
            shell.say("       \\h for help with SQL commands")
            shell.say("       \\? for help with pgrepl commands")
            shell.say("       \\g or terminate with semicolon to execute query")
            shell.say("       \\q to quit")
            return Outcome.NEXT
        if word in ("quit", "exit"):
            if not begun:
                return Outcome.QUIT
            shell.say("Use control-D to quit." if in_text else "Use \\q to quit.")
        elif line.startswith("\\q") and begun and in_text:
            shell.say("Use control-D to quit.")
        return None

    def _process(self, line: str, stop_on_error: bool, outcome: Outcome) -> tuple[bool, Outcome]:
        """Scan one line and run its commands. The success of the last one, and its outcome."""
        shell, lexer = self.shell, self.lexer
        added_newline = -1
        if self.query:
            self.query.append("\n")
            added_newline = len(self.query)
        lexer.standard_strings = shell.standard_strings
        lexer.begin(line)
        ok = True
        while (ok or not stop_on_error) and not shell.cancelled:
            before = len(self.query)
            with interrupt.stops_waiting():
                stop, self.prompt = lexer.scan()
            if self.person is not None and len(self.query) > before:
                shell.statement_line += self.query.text.count("\n", before)
            if stop is Stop.END_OF_LINE:
                shell.statement_line += 1
            if stop is Stop.SEMICOLON or (stop is Stop.END_OF_LINE and shell.variables.on("SINGLELINE")):
                ok, outcome = self._send(counted=True), Outcome.SEND
                if shell.conditionals.active:
                    added_newline = -1
            elif stop is Stop.BACKSLASH:
                if len(self.query) == added_newline:
                    # a backslash command alone on its line leaves the query as it was
                    self.query.text = self.query.text[:-1]
                added_newline = -1
                outcome = handle_slash(shell, lexer, self, run_file)
                ok = outcome is not Outcome.FAILED
                shell.statement_line = 1
                if outcome is Outcome.SEND:
                    ok = self._send(counted=False)
                elif outcome is Outcome.EDITED:
                    self._rescan()
                elif outcome is Outcome.QUIT:
                    break
            if stop in (Stop.INCOMPLETE, Stop.END_OF_LINE):
                break
        lexer.finish()
        return ok, outcome

    def _send(self, *, counted: bool) -> bool:
        """Send the query buffer, unless its branch of \\if is not taken. `counted`: the lexer has read it."""
        shell = self.shell
        shell.statement_line = 1
        if not shell.conditionals.active:
            if self.person is not None:
                shell.error("query ignored; use \\endif or Ctrl-C to exit current \\if block")
            return True
        text = self.query.text
        with interrupt.stops_waiting():
            copies = self.lexer.count_copies() if counted else None
        ok = send_query(shell, text, copies)
        self.previous = text
        self.query.text = ""
        self.lexer.reset()
        return ok

    def _rescan(self) -> None:
        r"""Scan the edited text after `\e`."""
        text = self.query.text
        if text and not text.endswith("\n"):
            text += "\n"
        self.lexer.finish()
        self.query.text = ""
        self.lexer.reset()
        self.lexer.begin(text)
        self.prompt = Prompt.READY
        if self.person is not None and text:
            self.shell.stdout.write(prompt_text(self.shell, Prompt.READY) + text)

    def _end(self, status: int, stop_on_error: bool, outcome: Outcome) -> int:
        """At the end of input send a script's last query without a semicolon; an error if an `\\if` is open."""
        shell = self.shell
        if self.query and self.person is None and status == SUCCESS:
            ok = self._send(counted=True)
            if not ok and stop_on_error:
                status = SCRIPT_ERROR
            elif shell.connection is None:
                status = NO_CONNECTION
        if outcome is not Outcome.QUIT and status != SCRIPT_ERROR and shell.conditionals:
            shell.error("reached EOF without finding closing \\endif(s)")
            if stop_on_error and self.person is None:
                status = SCRIPT_ERROR
        return status


def run_file(shell: Shell, name: str | None, *, relative: bool = False) -> int:
    r"""Run a script (`-f`, `\i`); `-` or None is standard input. `relative`: its path is relative to the running script
    (`\ir`)."""
    if name is None or name == "-":
        shown = None if name is None else "<stdin>"
        return _run_named(shell, standard_input(), shown)
    name = os.path.normpath(name) if name else name
    if relative and shell.source_name is not None and not os.path.isabs(name):
        name = os.path.normpath(os.path.join(os.path.dirname(shell.source_name), name))
    try:
        file = None if os.path.isdir(name) else open(name, "rb")  # noqa: SIM115
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return FAILURE
    if file is None:
        # a directory can be opened but not read, as with fopen(3)
        return _run_named(shell, _Directory(), name)
    with file:
        return _run_named(shell, LineReader(file), name)


class _Directory(LineReader):
    def __init__(self) -> None:
        pass

    def read_line(self) -> str | None:
        raise ReadFailure("Is a directory")


def _run_named(shell: Shell, reader: LineReader, name: str | None) -> int:
    kept = shell.source_name
    shell.source_name = name
    shell.terse_messages = name is None
    try:
        return MainLoop(shell, reader).run()
    finally:
        shell.source_name = kept
        shell.terse_messages = kept is None


class PlainPerson:
    def __init__(self, shell: Shell) -> None:
        self.shell = shell

    def read_line(self, prompt: Prompt, loop: MainLoop) -> str | None:
        shown = prompt_text(self.shell, prompt).replace(INVISIBLE_BEGIN, "").replace(INVISIBLE_END, "")
        self.shell.stdout.write(shown)
        self.shell.stdout.flush()
        try:
            return standard_input().read_line()
        except KeyboardInterrupt:
            self.shell.say("")
            raise

    def history(self, *, for_file: bool) -> list[str] | None:
        return None
