"""The prompt with line editing: statements of any number of lines are edited, recalled and completed.

Enter sends a complete text (a semicolon, a backslash command, `quit`), and else begins another line. The lines then go
to the main loop one by one, as a script's do.
"""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from pgrepl.shell.prompt.completion import completions
from pgrepl.shell.prompt.line_editing import STYLE, StatementHistory, StatementLexer, complete
from pgrepl.shell.prompt.prompt import prompt_text
from pgrepl.shell.scripts.lexer import Lexer, Prompt, Stop
from pgrepl.shell.scripts.mainloop import MainLoop
from pgrepl.shell.shell import Shell

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
