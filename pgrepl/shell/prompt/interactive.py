"""The prompt with line editing: statements of any number of lines are edited, recalled and completed.

Enter sends a complete text (a semicolon, a backslash command, `quit`), and else begins another line. The lines then go
to the main loop one by one, as a script's do. The tab key is readline's. The history is in ~/.pgrepl_history, which
only its owner can read; a statement that may contain a password is recalled in its own session, but never written.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import termios
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import IO, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.lexers import Lexer as PromptLexer
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth

from pgrepl.shell.prompt.completion import completions
from pgrepl.shell.prompt.prompt import prompt_text
from pgrepl.shell.scripts.lexer import Lexer, Prompt, Stop
from pgrepl.shell.scripts.mainloop import MainLoop
from pgrepl.shell.shell import Shell
from pgrepl.sql.keywords import KEYWORDS, KeywordClass
from pgrepl.sql.passwords import holds_password

_ASSISTANCE = frozenset({"help", "quit", "exit"})


def prompts_of(lexer: Lexer, text: str) -> tuple[list[Prompt], bool]:
    """The prompt after each line of a text, and whether the text can be sent now."""
    trial = lexer.copy()
    prompts: list[Prompt] = []
    complete = False
    for line in text.split("\n"):
        if trial.query:
            trial.query.append("\n")
        trial.begin(line)
        complete = False
        while True:
            stop, prompt = trial.scan()
            if stop is Stop.SEMICOLON:
                trial.query.text = ""
                trial.reset()
                continue
            complete = stop is Stop.BACKSLASH or (not trial.query and not trial.in_quotes)
            break
        if stop is Stop.BACKSLASH:
            prompt = Prompt.CONTINUE if trial.query.text.strip() else Prompt.READY
        trial.finish()
        if line.strip().removesuffix(";").rstrip().lower() in _ASSISTANCE:
            complete = True
        prompts.append(prompt)
    return prompts, complete


def _output() -> Output:
    """prompt_toolkit's output, without requests for the cursor's position: a late answer would count as typed."""
    output = create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _terminal_modes() -> list[Any] | None:
    """The terminal's modes, which are restored at the end."""
    try:
        return termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):
        return None


class _Completer(Completer):
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        loop = self.terminal.loop
        query = loop.query.text if loop is not None else ""
        popup = self.terminal.has_popup()
        before, after = document.text_before_cursor, document.text_after_cursor
        if popup and not complete_event.completion_requested and not before[-1:].strip():
            return  # nothing pops up before a letter is typed
        word, candidates = completions(self.terminal.shell, before, query, after, fuzzily=popup)
        for candidate in candidates:
            # no space after a name that more text follows, nor where a person goes on typing
            open_ended = popup or candidate.endswith(("(", "/", ".", "'", "=")) or candidate.startswith(":")
            shown = candidate.rpartition("/")[2] or candidate
            yield Completion(candidate if open_ended else candidate + " ", -len(word), display=shown)


class Terminal:
    """A terminal with line editing (the main loop's `Person`)."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.loop: MainLoop | None = None
        self._waiting: list[str] = []  # lines that were entered together, and are not read yet
        self._status = Prompt.READY
        self._history = StatementHistory(shell)
        self._session: PromptSession[str] = PromptSession(
            history=self._history,
            completer=_Completer(self),
            complete_while_typing=Condition(self.has_popup),
            lexer=None if "NO_COLOR" in os.environ else StatementLexer(),
            style=STYLE,
            include_default_pygments_style=False,
            multiline=True,
            prompt_continuation=self._continuation,
            key_bindings=self._bindings(),
            enable_open_in_editor=False,
            enable_system_prompt=False,
            enable_suspend=True,
            output=_output(),
        )
        self._modes = _terminal_modes()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._modes is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._modes)
        self._history.save()

    def read_line(self, prompt: Prompt, loop: MainLoop) -> str | None:
        if self._waiting:
            return self._waiting.pop(0)
        self.loop, self._status = loop, prompt
        try:
            text = self._session.prompt(ANSI(prompt_text(self.shell, prompt)), in_thread=False)
        except EOFError:
            return None
        self._waiting = text.split("\n")
        return self._waiting.pop(0)

    def has_popup(self) -> bool:
        return self.shell.variables.word("COMPLETION") == "popup" and os.environ.get("TERM") != "dumb"

    def history(self, *, for_file: bool) -> list[str] | None:
        return self._history.without_passwords() if for_file else list(self._history.get_strings())

    def _continuation(self, width: int, line_number: int, wrap_count: int) -> ANSI:
        """PROMPT2 before every further line, with the state of the lines above."""
        if wrap_count or self.loop is None:
            return ANSI(" " * width)
        lines = self._session.default_buffer.text.split("\n")
        prompts, _ = prompts_of(self.loop.lexer, "\n".join(lines[:line_number]))
        status = prompts[-1] if prompts[-1] is not Prompt.READY else Prompt.CONTINUE
        first, self.shell.statement_line = self.shell.statement_line, self.shell.statement_line + line_number
        try:
            return ANSI(prompt_text(self.shell, status))
        finally:
            self.shell.statement_line = first

    def _bindings(self) -> KeyBindings:
        bindings = KeyBindings()
        bindings.add("tab", filter=~Condition(self.has_popup))(complete)

        @bindings.add("enter")
        def enter(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None  # the candidate is taken
                return
            single_line = self.shell.variables.on("SINGLELINE")
            if self.loop is None or single_line or prompts_of(self.loop.lexer, buffer.text)[1]:
                buffer.cursor_position = len(buffer.text)
                buffer.validate_and_handle()
            else:
                buffer.newline(copy_margin=False)

        @bindings.add("c-d")
        def end_of_file(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.cursor_position < len(buffer.text):
                buffer.delete()
            elif not buffer.document.current_line:
                event.app.exit(exception=EOFError)

        return bindings


_YES = ("y", "Y", " ", Keys.ControlI, Keys.ControlM, Keys.ControlJ)
_NO = ("n", "N", "q", "Q")


class _Interrupted(Exception):
    """Ctrl-C instead of an answer."""


def complete(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.completer is None:
        return
    listed = list(buffer.completer.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
    if len(listed) == 1:
        buffer.delete_before_cursor(-listed[0].start_position)
        buffer.insert_text(listed[0].text)
        return
    suffix = get_common_complete_suffix(buffer.document, listed)
    if suffix:
        buffer.insert_text(suffix)
    elif listed:
        event.app.create_background_task(_list(event.app, listed))


async def _list(app: Application[Any], candidates: list[Completion]) -> None:
    try:
        async with in_terminal(render_cli_done=True):
            await _ask_and_print(app, [candidate.display_text for candidate in candidates])
    except _Interrupted:
        app.exit(exception=KeyboardInterrupt())


async def _ask_and_print(app: Application[Any], texts: list[str]) -> None:
    size = app.output.get_size()
    lines = in_columns(texts, size.columns)
    page = max(size.rows - 1, 1)
    if len(lines) > page and not await _agreed(app, f"Display all {len(texts)} possibilities? (y or n) "):
        return
    for at in range(0, len(lines), page):
        if at and not await _agreed(app, "--More--"):
            return
        app.print_text("".join(line + "\n" for line in lines[at : at + page]))


def in_columns(texts: list[str], width: int) -> list[str]:
    """The texts in lines, column by column, in as many columns as the width allows."""
    column = min(width, max(get_cwidth(text) for text in texts) + 2)
    columns = max(width // column, 1)
    rows = -(-len(texts) // columns)
    return [
        "".join(text + " " * (column - get_cwidth(text)) for text in texts[row::rows]).rstrip() for row in range(rows)
    ]


async def _agreed(app: Application[Any], question: str) -> bool:
    """Ask on the same output, which asks the terminal nothing."""
    bindings = KeyBindings()

    def answers(keys: tuple[str | Keys, ...], answer: bool | None) -> None:
        def answered(event: KeyPressEvent) -> None:
            event.app.exit(result=answer)

        for key in keys:
            bindings.add(key)(answered)

    @bindings.add(Keys.Any)
    def ignored(event: KeyPressEvent) -> None:
        """Ignore all other keys."""

    answers(_YES, True)
    answers(_NO, False)
    answers((Keys.ControlD,), False)
    answers((Keys.ControlC,), None)
    session: PromptSession[bool | None] = PromptSession(
        question, key_bindings=bindings, erase_when_done=True, input=app.input, output=app.output
    )
    answer = await session.prompt_async()
    if answer is None:
        raise _Interrupted
    return answer


# --- highlight --------------------------------------------------------------------------------------------------------


STYLE = Style.from_dict(
    {
        "keyword": "bold ansiblue",
        "string": "ansigreen",
        "number": "ansicyan",
        "comment": "ansibrightblack",
        "variable": "ansimagenta",
        "command": "bold ansicyan",
    }
)

_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z))
    | (?P<string>(?:\b[eEbBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|\Z)|\$(?P<tag>[A-Za-z_]\w*|)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<name>"(?:[^"]|"")*(?:"|\Z))
    | (?P<variable>:(?:'\w+'|"\w+"|\{\?\w+\}|(?<!::)\w+))
    | (?P<command>\\[^\s\\;:]+)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d[\w.]*)
    """,
    re.VERBOSE | re.DOTALL,
)
# key words that are not reserved and yet highlighted, as statements about tables and replication have them
_SHAPING = frozenset(
    """add alter always attach begin by cascade comment commit connection copy create database default delete detach
    disable drop enable execute explain full generated grant identity if index insert key nothing of off owner partition
    partitions password privileges publication read refresh release rename replica reset restrict revoke role rollback
    row savepoint schema sequence session set show skip start stored subscription table tables temporary transaction
    truncate update vacuum values view with work write""".split()
)


def _is_keyword(word: str) -> bool:
    lower = word.lower()
    return KEYWORDS.get(lower) is KeywordClass.RESERVED or lower in _SHAPING


def fragments(text: str) -> StyleAndTextTuples:
    """The text in pieces, each with its style."""
    out: StyleAndTextTuples = []
    at = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup if token.lastgroup != "tag" else "string"
        if kind == "word":
            kind = "keyword" if _is_keyword(token[0]) else None
        if kind is None or kind == "name":
            continue
        if token.start() > at:
            out.append(("", text[at : token.start()]))
        out.append((f"class:{kind}", token[0]))
        at = token.end()
    if at < len(text):
        out.append(("", text[at:]))
    return out


class StatementLexer(PromptLexer):
    """prompt_toolkit's lexer. It reads the whole text at once, so that strings and comments may span lines."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for style, text, *_ in fragments(document.text):
            for number, part in enumerate(text.split("\n")):
                if number:
                    lines.append([])
                if part:
                    lines[-1].append((style, part))
        return lambda number: lines[number] if number < len(lines) else []


# --- history ----------------------------------------------------------------------------------------------------------


_NEWLINE = "\x01"  # stands for a line end inside a statement, as in psql's history
_SECRET_NAME = re.compile(r"pass|pwd|\bpw|_pw|secret|token|credential", re.IGNORECASE)
_SET = re.compile(r"\s*\\(?:set|setenv|prompt)\s+(\S+)\s+\S", re.IGNORECASE)
_VARIABLE = re.compile(r":['\"]?([A-Za-z0-9_\x80-\U0010ffff]+)")


def history_file(shell: Shell) -> str | None:
    """The file of HISTFILE or PGREPL_HISTORY, or the default; None: no history is kept."""
    name = shell.variables.get("HISTFILE") or os.environ.get("PGREPL_HISTORY") or "~/.pgrepl_history"
    name = os.path.expanduser(name)
    return None if name == os.devnull or name.startswith("~") else name


def is_secret(statement: str) -> bool:
    """May the statement contain a password, or set a variable that is named like one?"""
    variable = _SET.match(statement)
    return holds_password(statement) or (variable is not None and _SECRET_NAME.search(variable[1]) is not None)


def _set_variable(statement: str) -> str | None:
    """The variable that `\\set` gives a value."""
    match = _SET.match(statement)
    return None if match is None else match[1]


class StatementHistory(History):
    """prompt_toolkit's history with psql's rules: HISTCONTROL, HISTSIZE."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell
        self.name = history_file(shell)
        self._added: list[str] = []

    def load_history_strings(self) -> Iterable[str]:
        """The entries of the file, newest first."""
        return reversed(self._read())

    def append_string(self, string: str) -> None:
        control = self.shell.variables.word("HISTCONTROL")
        if not string.strip() or (control in ("ignorespace", "ignoreboth") and string.startswith(" ")):
            return
        entries = self.get_strings()
        if control in ("ignoredups", "ignoreboth") and entries and entries[-1] == string:
            return
        super().append_string(string)

    def store_string(self, string: str) -> None:
        if not is_secret(string):
            self._added.append(string)
            return
        used = set(_VARIABLE.findall(string))  # their values were passwords, too
        self._added = [entry for entry in self._added if _set_variable(entry) not in used]

    def without_passwords(self) -> list[str]:
        """The entries that may be written to a file."""
        hidden = set(self.get_strings()).difference(self._added, self._read())
        return [entry for entry in self.get_strings() if entry not in hidden]

    def save(self) -> None:
        """Append this session's entries; the file keeps HISTSIZE entries."""
        if self.name is None or not self._added:
            return
        limit = self.shell.variables.number("HISTSIZE")
        try:
            with open(os.open(self.name, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
                _lock(file)  # several shells may end together
                entries = _entries(file) + self._added
                kept = entries[max(len(entries) - limit, 0) :] if limit >= 0 else entries
                text = "".join(entry.replace("\n", _NEWLINE) + "\n" for entry in kept)
                file.seek(0)
                file.write(text.encode("utf-8", "surrogateescape"))
                file.truncate()
        except OSError as error:
            self.shell.error(f'could not save history to file "{self.name}": {error.strerror}')

    def _read(self) -> list[str]:
        if self.name is None:
            return []
        try:
            with open(self.name, "rb") as file:
                return _entries(file)
        except OSError:
            return []


def _entries(file: IO[bytes]) -> list[str]:
    lines = file.read().decode("utf-8", "surrogateescape").split("\n")
    entries = [line.replace(_NEWLINE, "\n") for line in lines if line]
    return [entry for entry in entries if not is_secret(entry)]


def _lock(file: IO[bytes]) -> None:
    """The end of the file's use is the end of the lock."""
    with suppress(ImportError):  # not on this system
        fcntl.flock(file, fcntl.LOCK_EX)
