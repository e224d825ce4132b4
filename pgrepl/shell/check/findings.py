"""The findings of a check, and their forms: text, GitHub's annotations, JSON, JUnit's XML."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from pgrepl.frozen import frozen
from pgrepl.types.xml_text import xml_text

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


def as_text(files: Sequence[str], found: Sequence[Finding]) -> str:
    """A line each, as compilers write it, and DETAIL and HINT below."""
    lines = []
    for each in found:
        lines.append(f"{each.file}:{each.line}:{each.column}: {each.severity}:  {each.message}")
        lines += [f"    {label}:  {value}" for label, value in each.more]
    return "".join(line + "\n" for line in lines)


def as_github(files: Sequence[str], found: Sequence[Finding]) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    lines = []
    for each in found:
        text = "\n".join([each.message, *(f"{label}:  {value}" for label, value in each.more)])
        given = {
            "file": each.file,
            "line": str(each.line),
            "col": str(each.column),
            "title": f"{each.severity} {each.sqlstate or ''}".rstrip(),
        }
        where = ",".join(f"{name}={_property(value)}" for name, value in given.items())
        lines.append(f"::{_GITHUB.get(each.severity, 'notice')} {where}::{_data(text)}\n")
    return "".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_json(files: Sequence[str], found: Sequence[Finding]) -> str:
    listed = [
        {
            "file": each.file,
            "line": each.line,
            "column": each.column,
            "severity": each.severity,
            "sqlstate": each.sqlstate,
            "message": each.message,
            "detail": each.detail,
            "hint": each.hint,
            "context": each.context,
        }
        for each in found
    ]
    return json.dumps(listed, ensure_ascii=False, indent=2) + "\n"


def as_junit(files: Sequence[str], found: Sequence[Finding]) -> str:
    """A suite for each script, with a failure for each error in it, and in what it includes."""
    suites = []
    wrong = [each for each in found if each.is_error]
    for name in dict.fromkeys([*files, *(each.file for each in wrong)]):
        errors = [each for each in wrong if each.file == name]
        cases = [_case(each) for each in errors] or [f'    <testcase classname="pgrepl.check" name={_quoted(name)}/>\n']
        suites.append(
            f'  <testsuite name={_quoted(name)} tests="{len(cases)}" failures="{len(errors)}">\n'
            + "".join(cases)
            + "  </testsuite>\n"
        )
    return '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n' + "".join(suites) + "</testsuites>\n"


def _case(each: Finding) -> str:
    text = as_text((), [each])
    return (
        f'    <testcase classname="pgrepl.check" name={_quoted(f"{each.file}:{each.line}:{each.column}")}>\n'
        f"      <failure type={_quoted(each.sqlstate or each.severity)} message={_quoted(each.message)}>"
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
