r"""`\g` and its family, `\watch`, and the query buffer: `\e \p \r \w`."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace

from pgrepl.shell import shell as interrupt
from pgrepl.shell import streams
from pgrepl.shell.backslash.command import BackslashCommand, command, expand_tilde
from pgrepl.shell.backslash.definitions import edit_query
from pgrepl.shell.backslash.formatting import set_option
from pgrepl.shell.scripts.execute import watch_query
from pgrepl.shell.scripts.slash_lexer import Argument, Outcome
from pgrepl.shell.shell import Shell
from pgrepl.shell.streams import PipeStream, open_output
from pgrepl.writing.copy.endpoints import exit_reason


@dataclass(frozen=True, slots=True)
class Watch:
    interval: float = 2.0
    count: int = 0  # 0: without end
    min_rows: int = 0


def watch_query_buffer(shell: Shell, query: str, watch: Watch) -> bool:
    if not query:
        shell.error("\\watch cannot be used with an empty query")
        return False
    milliseconds = int(watch.interval * 1000)
    pager = _pager(shell)
    options = shell.options if pager is not None else replace(shell.options, pager=0)
    title = "" if options.title is None else options.title + "\t"
    left = watch.count
    status = 0
    due = time.monotonic()
    while True:
        now = time.strftime("%c")
        headed = replace(options, title=f"{title}{now} (every {milliseconds / 1000.0:g}s)\n")
        status = watch_query(shell, query, headed, pager, watch.min_rows)
        if status <= 0:
            break
        left -= 1
        if left == 0 or (pager is not None and pager.error is not None):
            break
        due += milliseconds / 1000.0
        if not _sleep(shell, due):
            break
    if pager is not None:
        pager.close()
    else:
        shell.stdout.write("\n")
        shell.stdout.flush()
    return status >= 0


def _pager(shell: Shell) -> PipeStream | None:
    """The program of PSQL_WATCH_PAGER; other pagers cannot show a stream of results."""
    program = os.environ.get("PSQL_WATCH_PAGER", "")
    if not program.strip(" \t\r\n") or not shell.options.pager or not streams.both_terminals():
        return None
    shell.stdout.flush()
    return PipeStream(program)


def _sleep(shell: Shell, until: float) -> bool:
    """Wait for the next round; False if Ctrl-C came first."""
    try:
        with interrupt.stops_waiting():
            time.sleep(max(until - time.monotonic(), 0))
    except KeyboardInterrupt:
        return False
    return not shell.cancelled


# --- queries ----------------------------------------------------------------------------------------------------------


@command("g", "gx", always=True)
def send(c: BackslashCommand) -> Outcome:
    """`\\g [(OPTION[=VALUE] …)] [FILE or |COMMAND]`."""
    name = c.word(Argument.FILE_OR_PIPE)
    if name is not None and name.startswith("("):
        if not _one_time_options(c, name[1:]):
            return Outcome.FAILED
        name = c.word(Argument.FILE_OR_PIPE)
    if not c.active:
        return Outcome.NEXT
    c.shell.next.output = expand_tilde(name) if name is not None else None
    if c.name == "gx":
        _save_options(c)
        c.shell.set_options(expanded="on")
    return Outcome.SEND


def _save_options(c: BackslashCommand) -> None:
    if c.shell.next.saved_options is None:
        c.shell.next.saved_options = c.shell.options


def _one_time_options(c: BackslashCommand, option: str | None) -> bool:
    ok, closed = True, False
    while not closed:
        if option is None:
            option = c.word()
        if option is None:
            if c.active:
                c.shell.error(f"\\{c.name}: missing right parenthesis")
                ok = False
            break
        closed = option.endswith(")")
        option = option.removesuffix(")")
        if option and c.active:
            name, equals, value = option.partition("=")
            _save_options(c)
            ok = set_option(c.shell, name, value if equals else None, quiet=True) and ok
        option = None
    if not ok and c.active and c.shell.next.saved_options is not None:
        c.shell.options, c.shell.next.saved_options = c.shell.next.saved_options, None
    return ok


@command("gset")
def store(c: BackslashCommand) -> Outcome:
    c.shell.next.set_prefix = c.word() or ""
    return Outcome.SEND


@command("gdesc")
def describe(c: BackslashCommand) -> Outcome:
    c.shell.next.describe = True
    return Outcome.SEND


@command("gexec")
def execute_result(c: BackslashCommand) -> Outcome:
    c.shell.next.execute = True
    return Outcome.SEND


@command("bind")
def bind(c: BackslashCommand) -> bool:
    c.shell.next.bind = c.words()
    return True


@command("crosstabview")
def crosstab(c: BackslashCommand) -> Outcome:
    c.shell.next.crosstab = [c.word(semicolon=True) for _ in range(4)]
    return Outcome.SEND


# --- the query buffer ------------------------------------------------------------------------------------------------


def _current_query(c: BackslashCommand) -> str:
    """The query that `\\g` would send."""
    return c.loop.query.text or c.loop.previous if c.loop is not None else ""


@command("p", "print")
def show(c: BackslashCommand) -> bool:
    text = _current_query(c)
    if text:
        c.shell.say(text)
    elif not c.shell.quiet:
        c.shell.say("Query buffer is empty.")
    return True


@command("r", "reset")
def reset(c: BackslashCommand) -> bool:
    c.lexer.query.text = ""
    c.lexer.reset()
    if not c.shell.quiet:
        c.shell.say("Query buffer reset (cleared).")
    return True


@command("w", "write", rest=Argument.FILE_OR_PIPE)
def write(c: BackslashCommand) -> bool:
    shell = c.shell
    name = c.word(Argument.FILE_OR_PIPE, semicolon=True)
    if c.loop is None:
        shell.error("no query buffer")
        return False
    if name is None:
        return c.missing_argument()
    name = expand_tilde(name)
    shell.stdout.flush()
    try:
        stream = open_output(name)
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return False
    text = _current_query(c)
    if text:
        stream.write(text + "\n")
    status = stream.close()
    if isinstance(stream, PipeStream):
        shell.set_shell_result(status)
        if status:
            shell.error(f"{name}: {exit_reason(status)}")
            return False
    elif stream.error is not None:
        shell.error(f"{name}: {stream.error.strerror}")
        return False
    return True


@command("e", "edit")
def edit(c: BackslashCommand) -> Outcome:
    shell, loop = c.shell, c.loop
    if loop is None:
        shell.error("no query buffer")
        return Outcome.FAILED
    name, line = c.word(semicolon=True), None
    if name is not None:
        line = c.word(semicolon=True)
        if line is None and re.fullmatch("[0-9]+", name):
            name, line = None, name
    if line is not None and not re.match(r"\s*\+?0*[1-9]", line):
        shell.error(f"invalid line number: {line}")
        loop.query.text = ""
        return Outcome.FAILED
    recalled = False
    if name is None and not loop.query:
        loop.query.text = loop.previous
        recalled = True
    number = int(re.sub(r"[^0-9].*", "", line.strip().lstrip("+"))) if line is not None else None
    file = expand_tilde(name) if name is not None else None
    edited = edit_query(shell, loop.query.text, file, number)
    if edited is None:
        loop.query.text = ""
        return Outcome.FAILED
    if edited.changed:
        loop.query.text = edited.text
    elif name is not None or recalled:
        loop.query.text = ""
    return Outcome.EDITED


# --- \watch ----------------------------------------------------------------------------------------------------------


@command("watch")
def watch(c: BackslashCommand) -> bool:

    settings = _watch_settings(c)
    ok = False
    if settings is not None:
        if c.loop is not None and not c.loop.query:
            c.loop.query.text = c.loop.previous
        text = c.loop.query.text if c.loop is not None else ""
        ok = watch_query_buffer(c.shell, text, Watch(**settings))  # type: ignore[arg-type]
    c.lexer.query.text = ""
    c.lexer.reset()
    return ok


# the long form of each parameter's name
_WATCH_PARAMETERS = {"i": "interval", "c": "count", "m": "min_rows"}
_WATCH_TWICE = {
    "interval": "interval value is specified more than once",
    "count": "iteration count is specified more than once",
    "min_rows": "minimum row count specified more than once",
}
_WATCH_WRONG = {
    "interval": "incorrect interval value",
    "count": "incorrect iteration count",
    "min_rows": "incorrect minimum row count",
}


def _watch_settings(c: BackslashCommand) -> dict[str, float | int] | None:
    """The arguments `[i=]SECONDS c=COUNT m=ROWS`; None after an error message."""
    settings: dict[str, float | int] = {}
    while (word := c.word(semicolon=True)) is not None:
        label, equals, value = word.partition("=")
        name = _WATCH_PARAMETERS.get(label, label) if equals else "interval"
        value = value if equals else word
        if name not in _WATCH_TWICE:
            c.shell.error(f'\\watch: unrecognized parameter "{word}"')
            return None
        if name in settings:
            c.shell.error(f"\\watch: {_WATCH_TWICE[name]}")
            return None
        number = _seconds(value) if name == "interval" else _positive(value)
        if number is None:
            c.shell.error(f'\\watch: {_WATCH_WRONG[name]} "{value}"')
            return None
        settings[name] = number
    return settings


_LONGEST_PAUSE = 2**63 // 10**9  # seconds that time.sleep can wait


def _seconds(value: str) -> float | None:
    """The number as strtod reads it; an empty text is 0."""
    try:
        seconds = float(value) if value else 0.0
    except ValueError:
        return None
    return seconds if 0 <= seconds <= _LONGEST_PAUSE and "_" not in value and not value[-1:].isspace() else None


def _positive(value: str) -> int | None:
    match = re.fullmatch(r"\s*\+?([0-9]+)", value)
    return int(match[1]) if match and 0 < int(match[1]) < 2**31 else None
