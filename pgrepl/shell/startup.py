"""From the command line to the exit code: options, connection, start-up file, then commands, scripts or the prompt.

Modules that only some command lines need are imported for those, so that each starts quickly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgrepl import __version__
from pgrepl.api.opened import internal_error
from pgrepl.engine.choice import never_spark
from pgrepl.ground.errors import PgError
from pgrepl.shell import connection
from pgrepl.shell import shell as interrupt
from pgrepl.shell.connection import (
    CATALOG_FILE,
    DEFAULT_DATABASE,
    DEFAULT_USER,
    ConnectFailure,
    ConnectTarget,
    at_host,
    from_conninfo,
    is_conninfo,
    startup_settings,
)
from pgrepl.shell.scripts.lexer import Lexer
from pgrepl.shell.scripts.slash_lexer import Outcome
from pgrepl.shell.shell import FAILURE, NO_CONNECTION, PROGRAM, SCRIPT_ERROR, SPOKEN_VERSION, SUCCESS, Shell
from pgrepl.shell.streams import Stream, claim_standard_descriptors


class Exit(Exception):
    """The end of the program with this code, after a message."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class Invocation:
    """The options of the command line that take effect when all have been read."""

    catalog: str | None = None
    database: str | None = None
    user: str | None = None
    host: str | None = None
    port: str | None = None
    log_file: str | None = None
    no_line_editing: bool = False
    no_start_up_file: bool = False
    single_transaction: bool = False
    list_databases: bool = False
    ask_password: bool = False
    data_path: str | None = None
    master: str | None = None  # where Spark runs
    remote: str | None = None
    conf: list[str] = field(default_factory=list)
    actions: list[tuple[str, str | None]] = field(default_factory=list)  # ("command" or "file", its text or name)


def run(options: Sequence[tuple[str, str | None]], arguments: Sequence[str]) -> int:
    """Run the shell with options, in their order on the command line, and arguments; returns the exit code."""
    claim_standard_descriptors()
    shell = Shell()
    try:
        return _run(shell, options, arguments)
    except Exit as leaving:
        return leaving.code
    except Exception as problem:
        shell.report(internal_error(problem).report, None)
        return FAILURE
    finally:
        _close(shell)


def _close(shell: Shell) -> None:
    if shell.log_file is not None:
        shell.log_file.close()
    if shell.connection is not None:
        shell.connection.close()
    shell.send_output_to(None)
    shell.stdout.flush()


def _run(shell: Shell, options: Sequence[tuple[str, str | None]], arguments: Sequence[str]) -> int:
    invocation = Invocation()
    for name, value in options:
        _apply(shell, invocation, name, value)
    for argument in arguments:
        if invocation.database is None:
            invocation.database = argument
        elif invocation.user is None:
            invocation.user = argument
        elif not shell.quiet:
            shell.warning(f'extra command-line argument "{argument}" ignored')
    if not invocation.actions and shell.not_terminal:
        invocation.actions.append(("file", None))
    if invocation.single_transaction and not invocation.actions:
        raise _fatal(shell, "-1 can only be used in non-interactive mode")
    if invocation.master is not None or invocation.remote is not None or invocation.conf:
        _configure_spark(shell, invocation)
    _connect(shell, invocation)
    interrupt.watch_for_interrupts(shell)
    if invocation.list_databases:
        _run_start_up_file(shell, invocation)
        from pgrepl.shell import describe

        return SUCCESS if describe.run(shell, "l", []) else FAILURE
    if invocation.log_file is not None:
        try:
            descriptor = os.open(invocation.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise _fatal(shell, f'could not open log file "{invocation.log_file}": {error.strerror}') from error
        shell.log_file = Stream(descriptor)
    _run_start_up_file(shell, invocation)
    if invocation.actions:
        return _run_actions(shell, invocation)
    return _run_prompt(shell, invocation)


def _configure_spark(shell: Shell, invocation: Invocation) -> None:
    from pgrepl.engine import spark, spark_options

    try:
        given = spark_options.read_options(os.environ, invocation.master, invocation.remote, tuple(invocation.conf))
    except PgError as error:
        raise _fatal(shell, error.message) from error
    spark.configure(given)


def _fatal(shell: Shell, message: str, code: int = FAILURE) -> Exit:
    shell.error(message)
    return Exit(code)


# --- options ---------------------------------------------------------------------------------------------------------

_FLAGS = {
    "no-align": ("format", "unaligned"),
    "csv": ("format", "csv"),
    "html": ("format", "html"),
    "json": ("format", "json"),
    "ndjson": ("format", "ndjson"),
    "tuples-only": ("tuples_only", True),
    "expanded": ("expanded", "on"),
    "field-separator-zero": ("fieldsep_zero", True),
    "record-separator-zero": ("recordsep_zero", True),
}
_VARIABLES = {
    "echo-all": ("ECHO", "all"),
    "echo-errors": ("ECHO", "errors"),
    "echo-queries": ("ECHO", "queries"),
    "echo-hidden": ("ECHO_HIDDEN", "on"),
    "quiet": ("QUIET", "on"),
    "single-step": ("SINGLESTEP", "on"),
    "single-line": ("SINGLELINE", "on"),
}
_REMEMBERED = {
    "catalog": "catalog",
    "data-path": "data_path",
    "dbname": "database",
    "host": "host",
    "log-file": "log_file",
    "master": "master",
    "port": "port",
    "remote": "remote",
    "username": "user",
}
_SWITCHES = {
    "list": "list_databases",
    "no-psqlrc": "no_start_up_file",
    "no-readline": "no_line_editing",
    "password": "ask_password",
    "single-transaction": "single_transaction",
}


def _apply(shell: Shell, invocation: Invocation, name: str, value: str | None) -> None:
    """Apply one option to the shell, or remember it."""
    if name in _FLAGS:
        option, setting = _FLAGS[name]
        shell.set_options(**{option: setting})
    elif name in _VARIABLES:
        shell.variables.set(*_VARIABLES[name])
    elif name in _REMEMBERED:
        setattr(invocation, _REMEMBERED[name], value)
    elif name in _SWITCHES:
        setattr(invocation, _SWITCHES[name], True)
    elif name == "no-password":
        invocation.ask_password = False
    elif name in ("command", "file"):
        invocation.actions.append((name, value))
    elif name == "conf":
        invocation.conf.append(value or "")
    elif name == "field-separator":
        shell.set_options(fieldsep=value, fieldsep_zero=False)
    elif name == "record-separator":
        shell.set_options(recordsep=value, recordsep_zero=False)
    elif name == "table-attr":
        shell.set_options(tableattr=value)
    elif name == "output":
        if not shell.send_output_to(value):
            raise Exit(FAILURE)
    elif name == "set":
        variable, equals, text = (value or "").partition("=")
        if not shell.variables.set(variable, text if equals else None):
            raise Exit(FAILURE)
    elif name == "pset":
        from pgrepl.shell.backslash.formatting import set_option

        option, equals, text = (value or "").partition("=")
        if not set_option(shell, option, text if equals else None, quiet=True):
            raise _fatal(shell, f'could not set printing parameter "{option}"')
    elif name == "version":
        shell.say(f"{PROGRAM} {__version__} (PostgreSQL {SPOKEN_VERSION})")
        raise Exit(SUCCESS)
    elif name == "help":
        _show_help(shell, value)
        raise Exit(SUCCESS)


def _show_help(shell: Shell, topic: str | None) -> None:
    from pgrepl.shell.backslash.helping import show_commands, show_options, show_variables

    shell.set_options(pager=0)
    if topic in (None, "options"):
        show_options(shell)
    elif topic == "commands":
        show_commands(shell)
    elif topic == "variables":
        show_variables(shell)
    else:
        shell.hint(f'Try "{PROGRAM} --help" for more information.')
        raise Exit(FAILURE)


# --- connecting ------------------------------------------------------------------------------------------------------


# the environment variables that libpq turns into settings
_SETTINGS = {
    "PGAPPNAME": "application_name", "PGDATESTYLE": "datestyle", "PGTZ": "timezone", "PGGEQO": "geqo",
    "PGCLIENTENCODING": "client_encoding",
}  # fmt: skip


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    settings = {"application_name": PROGRAM, **startup_settings(environment.get("PGOPTIONS", ""))}
    settings.update((name, environment[variable]) for variable, name in _SETTINGS.items() if environment.get(variable))
    if settings.get("client_encoding") == "auto" or ("client_encoding" not in settings and _is_terminal()):
        settings["client_encoding"] = "UTF8"
    return settings


def _is_terminal() -> bool:
    """Whether psql would take the encoding of the terminal's locale."""
    return os.isatty(0) and os.isatty(1)


def _connect(shell: Shell, invocation: Invocation) -> None:
    environment = os.environ
    named = invocation.catalog or environment.get("PGREPL_CATALOG")
    try:
        own = ConnectTarget(
            catalog=named or CATALOG_FILE,
            announces=not named and not shell.quiet,
            database=DEFAULT_DATABASE,
            user=environment.get("PGUSER") or DEFAULT_USER,
            settings=_settings(environment),
            data_path=invocation.data_path or environment.get("PGREPL_DATA_PATH") or None,
        )
        shell.defaults = own
        target = replace(own, database=environment.get("PGDATABASE") or DEFAULT_DATABASE)
        if invocation.list_databases and invocation.database is None:
            target = replace(target, database=DEFAULT_DATABASE)
        if invocation.host is not None or invocation.port is not None:
            if invocation.host is not None and invocation.catalog is not None:
                raise ConnectFailure("--host and --catalog both name a catalog: give one of them")
            target = at_host(target, own, {"host": invocation.host or "", "port": invocation.port or ""})
        if invocation.database is not None:
            if is_conninfo(invocation.database):
                target = from_conninfo(target, own, invocation.database)
            else:
                target = replace(target, database=invocation.database or DEFAULT_DATABASE)
        if invocation.user is not None:
            target = replace(target, user=invocation.user or DEFAULT_USER)
        if invocation.list_databases:
            target = replace(target, makes=False)
        shell.connection = shell.connect(target)
        if invocation.ask_password:
            shell.connection.check_password(shell.ask("Password: ", echo=False))
    except ConnectFailure as failure:
        raise _fatal(shell, str(failure), NO_CONNECTION) from failure
    shell.sync_variables()


# --- what to run -----------------------------------------------------------------------------------------------------


def _run_start_up_file(shell: Shell, invocation: Invocation) -> None:
    if invocation.no_start_up_file:
        return
    name = os.environ.get("PGREPLRC") or os.path.join("~", ".pgreplrc")
    name = os.path.expanduser(name)
    if os.access(name, os.R_OK):
        from pgrepl.shell.scripts.mainloop import run_file

        run_file(shell, name)
        shell.terse_messages = True


def _run_actions(shell: Shell, invocation: Invocation) -> int:
    status = SUCCESS
    stops = shell.variables.on
    if invocation.single_transaction and not _run_hidden(shell, "BEGIN") and stops("ON_ERROR_STOP"):
        return SCRIPT_ERROR
    for kind, text in invocation.actions:
        if kind == "file":
            from pgrepl.shell.scripts.mainloop import run_file

            status = run_file(shell, text)
        else:
            shell.terse_messages = True
            assert text is not None
            status = SUCCESS if _run_command(shell, text) else FAILURE
        if status != SUCCESS and stops("ON_ERROR_STOP"):
            break
    if invocation.single_transaction:
        failed = status != SUCCESS and stops("ON_ERROR_STOP")
        if not _run_hidden(shell, "ROLLBACK" if failed else "COMMIT") and stops("ON_ERROR_STOP"):
            return SCRIPT_ERROR
    return status


def _run_hidden(shell: Shell, query: str) -> bool:
    from pgrepl.shell.scripts.execute import run_hidden

    return run_hidden(shell, query) is not None


def _run_command(shell: Shell, text: str) -> bool:
    """-c: one query string, or one backslash command."""
    text = _argument_text(text)
    slash = text.startswith("\\")
    if shell.variables.word("ECHO") == "all":
        shell.say(text[1:] if slash else text)
    if not slash:
        from pgrepl.shell.scripts.execute import send_query

        return send_query(shell, text)
    from pgrepl.shell.backslash import handle_slash

    def run_file(shell: Shell, name: str | None, *, relative: bool = False) -> int:
        from pgrepl.shell.scripts.mainloop import run_file

        return run_file(shell, name, relative=relative)

    lexer = Lexer(shell.lookup, shell.warning, shell.standard_strings)
    lexer.begin(text[1:])
    return handle_slash(shell, lexer, None, run_file) is not Outcome.FAILED


def _argument_text(text: str) -> str:
    """An argument from its bytes, whatever the locale."""
    return connection.decoded(os.fsencode(text))


def _run_prompt(shell: Shell, invocation: Invocation) -> int:
    from pgrepl.shell.scripts.execute import check_stale
    from pgrepl.shell.scripts.mainloop import MainLoop, PlainPerson

    shell.terse_messages = True
    if not shell.quiet:
        shell.say(f"{PROGRAM} {__version__} (PostgreSQL {SPOKEN_VERSION})")
        shell.say('Type "help" for help.\n')
    check_stale(shell, "")
    _start_spark(shell)
    if invocation.no_line_editing:
        return MainLoop(shell, person=PlainPerson(shell)).run()
    from pgrepl.shell.prompt.interactive import Terminal

    with Terminal(shell) as terminal:
        return MainLoop(shell, person=terminal).run()


def _start_spark(shell: Shell) -> None:
    """Start Spark in the background while the person types."""
    if shell.connection is not None and not never_spark(shell.connection.session):
        from pgrepl.engine import spark

        spark.start_in_background()


def unknown_command(word: str, command: str) -> int:
    """Report a first word that, by the options behind it, was meant to be a subcommand."""
    sys.stderr.write(f'{PROGRAM}: error: there is no command "{word}"\n')
    hint_at_similar_command(command)
    return NO_CONNECTION


def hint_at_similar_command(command: str) -> None:
    """A hint for a mistyped subcommand, which was taken for a database."""
    sys.stderr.write(f'{PROGRAM}: hint: Did you mean "{PROGRAM} {command}"?\n')


def hint_at_unknown_word(word: str) -> None:
    """A hint that a first word which is no subcommand was taken for a database."""
    sys.stderr.write(f'{PROGRAM}: hint: "{word}" is no command, and was taken for a database. ')
    sys.stderr.write(f'"{PROGRAM} --help" lists the commands.\n')


def usage_error(message: str, command: str | None = None) -> int:
    """Report a command line that is not valid. `command`: a word that would be a subcommand if it came first."""
    sys.stderr.write(f"{PROGRAM}: {message}\n")
    if command is not None:
        hint_at_command(command)
    else:
        sys.stderr.write(f'{PROGRAM}: hint: Try "{PROGRAM} --help" for more information.\n')
    return FAILURE


def hint_at_command(command: str) -> None:
    """A hint for options before a subcommand, as other programs allow."""
    sys.stderr.write(f'{PROGRAM}: hint: A command stands before its options: "{PROGRAM} {command} ...".\n')
