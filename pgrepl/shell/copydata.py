"""COPY … FROM STDIN in a script: its rows stand behind it, and are no commands even when it fails."""

from __future__ import annotations

import os

from pgrepl.shell.input import standard_input
from pgrepl.shell.lexer import Lexer, Stop
from pgrepl.shell.shell import Shell


def count_copies(shell: Shell, query: str) -> int:
    """COPY … FROM STDIN in a query that no script's lexer has seen: -c, `\\gexec`, `\\g` after `\\e`."""
    if "copy" not in query.lower():
        return 0
    lexer = Lexer(shell.lookup, shell.warning, shell.standard_strings)
    lexer.begin(query)
    stop, _ = lexer.scan()
    while stop is Stop.SEMICOLON:
        stop, _ = lexer.scan()
    return lexer.count_copies() if stop is Stop.END_OF_LINE else 0


def skip_copy_data(shell: Shell) -> None:
    """The rows of a COPY that failed are not commands: read past them. A person is not asked for any."""
    if shell.interactive or (shell.source is None and os.isatty(0)):
        return
    source = shell.source or standard_input()
    while True:
        line = source.read_line()
        if line is None:
            return
        shell.line_number += 1
        if line.rstrip("\r") == "\\.":
            return
