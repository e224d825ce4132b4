"""The prompt: PROMPT1, 2 and 3 with psql's %-escapes."""

from __future__ import annotations

import os
import re
import subprocess

from pgrepl.shell.connection import PORT
from pgrepl.shell.formats.table import char_width
from pgrepl.shell.scripts.lexer import Prompt
from pgrepl.shell.scripts.slash_lexer import one_byte, rejoined
from pgrepl.shell.shell import Shell

_LIMIT = 256
_OCTAL = re.compile("[0-7]+")
# %[ … %]: invisible on the terminal, so not counted
INVISIBLE_BEGIN, INVISIBLE_END = "\x01", "\x02"

_last_width = 0  # of PROMPT1, for %w


def prompt_text(shell: Shell, status: Prompt) -> str:
    """The prompt before the next line."""
    global _last_width
    name = "PROMPT1" if status is Prompt.READY else "PROMPT3" if status is Prompt.COPY else "PROMPT2"
    template = shell.variables.get(name) or ""
    out: list[str] = []
    at = 0
    while at < len(template):
        if template[at] != "%":
            out.append(template[at])
            at += 1
            continue
        if at + 1 >= len(template):
            break
        piece, at = _escape(shell, status, template, at + 1)
        out.append(piece)
    text = rejoined("".join(out))[:_LIMIT]
    if status is Prompt.READY:
        _last_width = _visible_width(text)
    return text


def _escape(shell: Shell, status: Prompt, template: str, at: int) -> tuple[str, int]:
    """The text of the escape whose character is at `at`, and the place after it."""
    char = template[at]
    number = _OCTAL.match(template, at)
    if number:
        code = int(number[0], 8) % 256
        return one_byte(code) if code else "", number.end()
    if char in "`:":
        end = template.find(char, at + 1)
        end = len(template) if end < 0 else end
        body = template[at + 1 : end]
        return (_first_line(shell, body) if char == "`" else shell.variables.get(body) or ""), end + 1
    if char in "[]":
        return (INVISIBLE_BEGIN if char == "[" else INVISIBLE_END), at + 1
    if char == "R":
        return _state(shell, status), at + 1
    if char == "x":
        return _transaction(shell), at + 1
    if char == "l":
        return str(shell.statement_line), at + 1
    if char == "#":
        superuser = shell.connection is not None and shell.connection.is_superuser
        return ("#" if superuser else ">"), at + 1
    if char == "?":
        return "", at + 1
    if char in "/~wMm>np":
        return _connection_part(shell, char), at + 1
    return char, at + 1


def _connection_part(shell: Shell, char: str) -> str:
    connection = shell.connection
    if connection is None:
        return ""
    if char == "/":
        return connection.database
    if char == "~":
        home = connection.database in (connection.user, os.environ.get("PGDATABASE"))
        return "~" if home else connection.database
    if char == "w":
        return " " * _last_width
    if char in "Mm":
        return "[local]" if char == "m" else f"[local:{connection.host}]"
    if char == ">":
        return PORT
    if char == "n":
        return connection.setting("session_authorization")
    return str(connection.session.pid)


def _state(shell: Shell, status: Prompt) -> str:
    if status is not Prompt.READY:
        return str(status.value)
    if not shell.conditionals.active:
        return "@"
    if shell.connection is None:
        return "!"
    return "^" if shell.variables.on("SINGLELINE") else "="


def _transaction(shell: Shell) -> str:
    if shell.connection is None:
        return "?"
    marks: dict[str, str] = {"in transaction": "*", "failed": "!"}
    return marks.get(shell.connection.status, "")


def _first_line(shell: Shell, command: str) -> str:
    shell.stdout.flush()
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, check=False)
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].rstrip("\r")


def _visible_width(text: str) -> int:
    shown = re.sub(f"{INVISIBLE_BEGIN}.*?(?:{INVISIBLE_END}|$)", "", text, flags=re.DOTALL)
    return sum(max(char_width(char), 0) for char in shown.rpartition("\n")[2])
