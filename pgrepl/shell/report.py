"""The text of an error or notice, as libpq makes it: severity, message, LINE with a caret, DETAIL, HINT, CONTEXT."""

from __future__ import annotations

from pgrepl.errors import Report
from pgrepl.shell.width import char_width

_DISPLAY_SIZE = 60  # columns of the statement's line that are shown
_MIN_RIGHT_CUT = 10  # columns kept to the right of the error, if possible

_ERRORS = frozenset({"ERROR", "FATAL", "PANIC"})


def message_text(report: Report, query: str | None, verbosity: str, show_context: str) -> str:
    """The lines of the message, each with its newline (pqBuildErrorMessage3); without a query there is no `LINE`."""
    out = [report.severity, ":  "]
    if verbosity == "sqlstate":
        return "".join(out) + report.sqlstate + "\n"
    if verbosity == "verbose":
        out += (report.sqlstate, ": ")
    out.append(report.message)
    position = report.position
    if position is None and report.internal_position is not None:
        position, query = report.internal_position, report.internal_query
    at_line = position is not None and verbosity != "terse" and query is not None
    if position is not None and not at_line:
        out.append(f" at character {position}")
    out.append("\n")
    if verbosity == "terse":
        return "".join(out)
    if at_line and query is not None and position is not None:
        out.append(error_position(query, position))
    if report.detail is not None:
        out.append(f"DETAIL:  {report.detail}\n")
    if report.hint is not None:
        out.append(f"HINT:  {report.hint}\n")
    if report.internal_query is not None:
        out.append(f"QUERY:  {report.internal_query}\n")
    shown = show_context == "always" or (show_context == "errors" and report.severity in _ERRORS)
    if report.context is not None and shown:
        out.append(f"CONTEXT:  {report.context}\n")
    if verbosity == "verbose":
        for label, value in (
            ("SCHEMA", report.schema),
            ("TABLE", report.table),
            ("COLUMN", report.column),
            ("DATATYPE", report.datatype),
            ("CONSTRAINT", report.constraint),
        ):
            if value is not None:
                out.append(f"{label} NAME:  {value}\n")
    return "".join(out)


def error_position(query: str, position: int) -> str:
    """`LINE n: …` and the caret below it (reportErrorPosition); empty: the position is outside the query."""
    place = position - 1
    if place < 0 or place > len(query):
        return ""
    before = query[:place]
    line_number = 1 + before.count("\n") + before.count("\r") - before.count("\r\n")
    begin = max(before.rfind("\n"), before.rfind("\r")) + 1
    ends = [at for at in (query.find("\n", place), query.find("\r", place)) if at >= 0]
    end = min(ends, default=len(query))
    # columns[i] is where character begin + i starts on the screen
    columns = [0]
    for char in query[begin:end]:
        columns.append(columns[-1] + max(char_width(char), 1))
    here, first, last = place - begin, 0, end - begin
    cut_left = cut_right = False
    if columns[last] > _DISPLAY_SIZE:
        if columns[here] + _MIN_RIGHT_CUT <= _DISPLAY_SIZE:
            while columns[last] > _DISPLAY_SIZE:
                last -= 1
            cut_right = True
        else:
            while columns[here] + _MIN_RIGHT_CUT < columns[last]:
                last -= 1
                cut_right = True
            while columns[last] - columns[first] > _DISPLAY_SIZE:
                first += 1
                cut_left = True
    prefix = f"LINE {line_number}: " + ("..." if cut_left else "")
    shown = query[begin + first : begin + last].replace("\t", " ") + ("..." if cut_right else "")
    caret = " " * (len(prefix) + columns[here] - columns[first]) + "^"
    return f"{prefix}{shown}\n{caret}\n"
