r"""`\copy`: COPY with a file of the client.

    \copy TABLE [(COLUMN, …)] FROM | TO 'FILE' | PROGRAM 'COMMAND' | STDIN | STDOUT | PSTDIN | PSTDOUT [OPTIONS]
    \copy (QUERY) TO …

The rest of the line is cut into words as psql's strtokx does; the text before and after the file's name goes to COPY
unchanged.
"""

from __future__ import annotations

import os
import stat
import subprocess
from typing import IO, cast

from pgrepl.ground.frozen import frozen
from pgrepl.shell.backslash.command import BackslashCommand, command, expand_tilde
from pgrepl.shell.scripts.execute import send_query
from pgrepl.shell.scripts.results import command_source
from pgrepl.shell.scripts.slash_lexer import Argument
from pgrepl.shell.shell import Shell
from pgrepl.shell.streams import CopySource, PipeStream, Stream, standard_input
from pgrepl.writing.copy.endpoints import exit_reason

_SPACE = " \t\n\r"


class _Words:
    """The words of the line, with their quotes; a quote or a mark ends the word before it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rest(self) -> str:
        return self._text[self._at :]

    def next(self, marks: str, quotes: str, *, escape: str = "", e_strings: bool = False) -> str:
        """The next word, "" at the end of the line."""
        text, start = self._text, self._at
        while start < len(text) and text[start] in _SPACE:
            start += 1
        at = start
        if at < len(text) and text[at] in marks:
            return self._until(start, at + 1)
        if e_strings and text[at : at + 2].lower() == "e'":
            quotes, escape = "'", "\\"
            at += 1
        if at < len(text) and text[at] in quotes:
            return self._until(start, _closed(text, at, escape))
        ends = _SPACE + marks + quotes
        while at < len(text) and text[at] not in ends:
            at += 1
        return self._until(start, at)

    def _until(self, start: int, end: int) -> str:
        # one space behind the word belongs to it
        self._at = end + 1 if self._text[end : end + 1] and self._text[end] in _SPACE else end
        return self._text[start:end]


def _closed(text: str, at: int, escape: str) -> int:
    """The end of the quoted word whose first quote is at `at`."""
    quote = text[at]
    at += 1
    while at < len(text):
        char, following = text[at], text[at + 1 : at + 2]
        if (char == escape and following) or (char == quote and following == quote):
            at += 1
        elif char == quote:
            return at + 1
        at += 1
    return at


def _unquoted(word: str) -> str:
    """The word without the single quotes around it, and doubled ones inside single (strip_quotes)."""
    out = []
    at = 1 if word.startswith("'") else 0
    while at < len(word):
        if word[at] == "'":
            if at + 1 == len(word):
                break
            if word[at + 1] == "'":
                at += 1
        out.append(word[at])
        at += 1
    return "".join(out)


@frozen
class SlashCopy:
    """The parts of a `\\copy` command."""

    before: str  # the text between COPY and FROM or TO
    after: str  # the options
    is_from: bool
    file: str | None = None
    program: bool = False
    own_streams: bool = False  # PSTDIN, PSTDOUT: psql's own standard input and output


class ParseError(Exception):
    """A word that is not expected, "" at the end of the line."""


def parse(text: str, *, standard_strings: bool) -> SlashCopy:
    words = _Words(text)

    def plain() -> str:
        word = words.next(".,()", '"')
        if not word:
            raise ParseError("")
        return word

    before = ""
    word = plain()
    if word.lower() == "binary":
        before, word = word, plain()
    if word == "(":
        depth = 1
        while depth:
            before += " " + word
            word = words.next("()", "\"'", escape="" if standard_strings else "\\", e_strings=True)
            if not word:
                raise ParseError("")
            depth += (word == "(") - (word == ")")
    before += " " + word
    word = plain()
    if word == ".":
        before += word + plain()
        word = plain()
    if word == "(":
        while word != ")":
            before += " " + word
            word = words.next("()", '"')
            if not word:
                raise ParseError("")
        before += " " + word
        word = plain()
    if word.lower() not in ("from", "to"):
        raise ParseError(word)
    is_from = word.lower() == "from"
    word = words.next(";", "'")
    if not word:
        raise ParseError("")
    if word.lower() == "program":
        word = words.next(";", "'")
        if len(word) < 2 or word[0] != "'" or word[-1] != "'":
            raise ParseError(word)
        return SlashCopy(before, words.rest(), is_from, _unquoted(word), program=True)
    if word.lower() in ("stdin", "stdout"):
        return SlashCopy(before, words.rest(), is_from)
    if word.lower() in ("pstdin", "pstdout"):
        return SlashCopy(before, words.rest(), is_from, own_streams=True)
    return SlashCopy(before, words.rest(), is_from, expand_tilde(_unquoted(word)))


@command("copy", rest=Argument.WHOLE_LINE)
def copy(c: BackslashCommand) -> bool:
    wanted = wanted_copy(c)
    if wanted is None:
        return False
    return _copy_from(c.shell, wanted) if wanted.is_from else _copy_to(c.shell, wanted)


def wanted_copy(c: BackslashCommand) -> SlashCopy | None:
    r"""The \copy that the rest of the line asks for; None, after a message: it cannot be read."""
    text = c.word(Argument.WHOLE_LINE)
    if text is None:
        c.shell.error("\\copy: arguments required")
        return None
    try:
        return parse(text, standard_strings=c.shell.standard_strings)
    except ParseError as problem:
        c.shell.error(f'\\copy: parse error at "{problem}"' if str(problem) else "\\copy: parse error at end of line")
        return None


def _open_file(shell: Shell, name: str, flags: int) -> int | None:
    name = os.path.normpath(name) if name else name
    try:
        descriptor = os.open(name, flags | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        shell.error(f"{name}: {error.strerror}")
        return None
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        shell.error(f"{name}: cannot copy from/to a directory")
        os.close(descriptor)
        return None
    return descriptor


def _end_program(shell: Shell, name: str, status: int) -> bool:
    if status:
        shell.error(f"{name}: {exit_reason(status)}")
    shell.set_shell_result(status)
    return not status


def _copy_from(shell: Shell, wanted: SlashCopy) -> bool:
    query = f"COPY {wanted.before} FROM STDIN {wanted.after}"
    if wanted.file is None:
        source = command_source(shell)
        if wanted.own_streams:
            reader = standard_input()
            source = CopySource(reader.file, own=shell.source in (None, reader))
        shell.next.copy_source = source
        return send_query(shell, query, 1)
    if wanted.program:
        shell.stdout.flush()
        process = subprocess.Popen(wanted.file, shell=True, stdout=subprocess.PIPE)
        output = cast("IO[bytes]", process.stdout)
        shell.next.copy_source = CopySource(output, own=False)
        ok = send_query(shell, query, 1)
        output.close()
        return _end_program(shell, wanted.file, process.wait()) and ok
    descriptor = _open_file(shell, wanted.file, os.O_RDONLY)
    if descriptor is None:
        return False
    path = os.path.abspath(wanted.file) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    with os.fdopen(descriptor, "rb") as file:
        shell.next.copy_source = CopySource(file, own=False, path=path)
        return send_query(shell, query, 1)


def _copy_to(shell: Shell, wanted: SlashCopy) -> bool:
    query = f"COPY {wanted.before} TO STDOUT {wanted.after}"
    stream: Stream
    if wanted.file is None:
        shell.next.copy_stream = shell.stdout if wanted.own_streams else shell.query_out
        return send_query(shell, query, 0)
    if wanted.program:
        shell.stdout.flush()
        stream = PipeStream(wanted.file)
    else:
        descriptor = _open_file(shell, wanted.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        if descriptor is None:
            return False
        stream = Stream(descriptor)
    shell.next.copy_stream = stream
    ok = send_query(shell, query, 0)
    status = stream.close()
    if wanted.program:
        return _end_program(shell, wanted.file, status) and ok
    if stream.error is not None:
        shell.error(f"{wanted.file}: {stream.error.strerror}")
        return False
    return ok
