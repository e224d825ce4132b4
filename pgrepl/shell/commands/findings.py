"""The findings of a check, and their forms: text, GitHub's annotations, JSON, JUnit's XML; what a check does instead of
effects outside.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from pgrepl.ground.frozen import frozen
from pgrepl.shell.backslash.command import COMMANDS, BackslashCommand
from pgrepl.shell.backslash.copying import wanted_copy
from pgrepl.shell.scripts.execute import send_query
from pgrepl.shell.scripts.lexer import Lexer, QueryBuffer
from pgrepl.shell.scripts.slash_lexer import Argument, Outcome
from pgrepl.types.plain import xml_text

_ERRORS = ("ERROR", "FATAL", "PANIC")
_GITHUB = {"ERROR": "error", "FATAL": "error", "PANIC": "error", "WARNING": "warning"}


@frozen
class Finding:
    """A message about a place of a script. A NOTICE says what was not carried out, and therefore not checked."""

    file: str
    line: int
    column: int
    severity: str
    sqlstate: str | None
    message: str
    detail: str | None = None
    hint: str | None = None
    context: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity in _ERRORS

    @property
    def more(self) -> Iterator[tuple[str, str]]:
        for label, value in (("DETAIL", self.detail), ("HINT", self.hint), ("CONTEXT", self.context)):
            if value is not None:
                yield label, value


def as_text(files: Sequence[str], findings: Sequence[Finding]) -> str:
    """A line each, as compilers write it, and DETAIL and HINT below."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.file}:{finding.line}:{finding.column}: {finding.severity}:  {finding.message}")
        lines += [f"    {label}:  {value}" for label, value in finding.more]
    return "".join(line + "\n" for line in lines)


def as_github(files: Sequence[str], findings: Sequence[Finding]) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    lines = []
    for finding in findings:
        text = "\n".join([finding.message, *(f"{label}:  {value}" for label, value in finding.more)])
        given = {
            "file": finding.file,
            "line": str(finding.line),
            "col": str(finding.column),
            "title": f"{finding.severity} {finding.sqlstate or ''}".rstrip(),
        }
        where = ",".join(f"{name}={_property(value)}" for name, value in given.items())
        lines.append(f"::{_GITHUB.get(finding.severity, 'notice')} {where}::{_data(text)}\n")
    return "".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_json(files: Sequence[str], findings: Sequence[Finding]) -> str:
    listed = [
        {
            "file": finding.file,
            "line": finding.line,
            "column": finding.column,
            "severity": finding.severity,
            "sqlstate": finding.sqlstate,
            "message": finding.message,
            "detail": finding.detail,
            "hint": finding.hint,
            "context": finding.context,
        }
        for finding in findings
    ]
    return json.dumps(listed, ensure_ascii=False, indent=2) + "\n"


def as_junit(files: Sequence[str], findings: Sequence[Finding]) -> str:
    """A suite for each script, with a failure for each error in it, and in what it includes."""
    suites = []
    wrong = [finding for finding in findings if finding.is_error]
    for name in dict.fromkeys([*files, *(finding.file for finding in wrong)]):
        errors = [finding for finding in wrong if finding.file == name]
        cases = [_case(finding) for finding in errors] or [
            f'    <testcase classname="pgrepl.check" name={_quoted(name)}/>\n'
        ]
        suites.append(
            f'  <testsuite name={_quoted(name)} tests="{len(cases)}" failures="{len(errors)}">\n'
            + "".join(cases)
            + "  </testsuite>\n"
        )
    return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n' + "".join(suites) + "</testsuites>\n"


def _case(finding: Finding) -> str:
    text = as_text((), [finding])
    return (
        f'    <testcase classname="pgrepl.check" name={_quoted(f"{finding.file}:{finding.line}:{finding.column}")}>\n'
        f"      <failure type={_quoted(finding.sqlstate or finding.severity)} message={_quoted(finding.message)}>"
        f"{escape(xml_text(text))}</failure>\n    </testcase>\n"
    )


def _quoted(text: str) -> str:
    return quoteattr(xml_text(text), {"\n": "&#10;"})


FORMATS: dict[str, Callable[[Sequence[str], Sequence[Finding]], str]] = {
    "text": as_text,
    "github": as_github,
    "json": as_json,
    "junit": as_junit,
}


# --- places -----------------------------------------------------------------------------------------------------------


@frozen
class LineColumn:
    """A position in a script."""

    line: int
    column: int  # both from 1


class PlacedBuffer(QueryBuffer):
    """A query buffer that notes from where each piece of it came."""

    __slots__ = ("_at", "_column", "_lexer", "_line", "_line_number", "_places")

    def __init__(self, lexer: Lexer, line_number: Callable[[], int]) -> None:
        super().__init__()
        self._lexer = lexer
        self._line_number = line_number
        self._at: list[int] = []  # where the pieces begin in the query
        self._places: list[LineColumn] = []
        self._line = self._column = 0  # how far the pieces reach

    def append(self, text: str) -> None:
        if self._lexer.sources:
            self._note(text)
        super().append(text)

    def _note(self, text: str) -> None:
        line = self._line_number()
        if line != self._line:
            self._line, self._column = line, 0
        source = self._lexer.sources[0]
        # the lexer has passed a token, or is about to pass the inside of a quoted one
        places = [
            at
            for at in sorted((source.at - len(text), source.at))
            if at >= self._column and source.text.startswith(text, at)
        ]
        if places and len(self._lexer.sources) == 1:
            column = places[0]
            self._column = column + len(text)
        else:  # a variable's value
            column = max(source.text.rfind(":", 0, max(source.at, 1)), 0)
            self._column = max(self._column, source.at)
        self._at.append(len(self))
        self._places.append(LineColumn(line, column + 1))

    @property
    def start(self) -> LineColumn | None:
        return self._places[0] if self._places else None

    def place(self, offset: int) -> LineColumn | None:
        """The place of the character at an offset of the query."""
        number = bisect_right(self._at, offset) - 1
        if number < 0:
            return self.start
        place = self._places[number]
        end = self._at[number + 1] if number + 1 < len(self._at) else len(self)
        inside = offset - self._at[number]
        return LineColumn(place.line, place.column + min(inside, max(end - self._at[number], 0)))

    @property
    def text(self) -> str:
        return QueryBuffer.text.fget(self)  # type: ignore[attr-defined, no-any-return]

    @text.setter
    def text(self, text: str) -> None:
        before = self.text
        QueryBuffer.text.fset(self, text)  # type: ignore[attr-defined]
        if not text or not before.startswith(text):
            self._at, self._places = [], []


# --- withheld ---------------------------------------------------------------------------------------------------------


UNKNOWN = "\ufdd0unknown\ufdd0"  # a value that only carrying out the script could tell

Own = Callable[[BackslashCommand], "Outcome | bool"]


def _note(c: BackslashCommand, text: str) -> None:
    c.shell.note(text)  # type: ignore[attr-defined]  # it is a CheckingShell


def _not_done(rest: Argument | None) -> Own:
    def withhold(c: BackslashCommand) -> bool:
        _note(c, f"\\{c.name} is not carried out")
        if rest is not None:
            c.word(rest)
        else:
            c.words(semicolon=True)
        return True

    return withhold


def _send(c: BackslashCommand) -> Outcome | bool:
    r"""`\g FILE`: the query is checked, and nothing written."""
    outcome = COMMANDS[c.name].run(c)
    c.shell.next.output = None
    return outcome


def _prompt(c: BackslashCommand) -> bool:
    words = c.words()
    _note(c, "\\prompt is not carried out: nobody is asked")
    return not words or c.shell.variables.set(words[-1], UNKNOWN)


def _watch(c: BackslashCommand) -> Outcome:
    c.words(semicolon=True)
    return Outcome.SEND


def _copy(c: BackslashCommand) -> bool:
    r"""`\copy` is checked as the COPY that it sends; no file is opened, and no program run."""
    wanted = wanted_copy(c)
    if wanted is None:
        return False
    way = "FROM STDIN" if wanted.is_from else "TO STDOUT"
    follows = wanted.is_from and wanted.file is None and not wanted.program and not wanted.own_streams
    return send_query(c.shell, f"COPY {wanted.before} {way} {wanted.after}", int(follows))


WITHHELD: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("!",), _not_done(Argument.WHOLE_LINE)),
    **dict.fromkeys(("o", "out", "w", "write"), _not_done(Argument.FILE_OR_PIPE)),
    **dict.fromkeys(("apply", "e", "edit", "password", "s", "setenv", "sync"), _not_done(None)),
    **dict.fromkeys(("g", "gx"), _send),
    "copy": _copy,
    "prompt": _prompt,
    "watch": _watch,
}
