"""The prompt without line editing (-n)."""

from __future__ import annotations

from pgrepl.shell.input import standard_input
from pgrepl.shell.lexer import Prompt
from pgrepl.shell.mainloop import MainLoop
from pgrepl.shell.prompt import INVISIBLE_BEGIN, INVISIBLE_END, prompt_text
from pgrepl.shell.shell import Shell


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
