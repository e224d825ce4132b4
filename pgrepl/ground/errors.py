"""PostgreSQL's errors and notices.

Every failure that a person can cause is a `PgError`: severity, SQLSTATE and message, with DETAIL, HINT, CONTEXT and a
cursor position where PostgreSQL gives them. A notice is a `Report` with the same fields, which stops no statement.

`Declined` is no failure: a quick way that cannot do some work as PostgreSQL does hands it back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from pgrepl.ground.frozen import frozen


@frozen
class Report:
    """The fields of one message, as PostgreSQL's protocol names them."""

    severity: str  # ERROR, FATAL, WARNING, NOTICE, INFO, LOG, DEBUG
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None
    context: str | None = None
    position: int | None = None  # 1-based character offset into the text of the query
    schema: str | None = None
    table: str | None = None
    column: str | None = None
    datatype: str | None = None
    constraint: str | None = None
    internal_query: str | None = None  # a statement that a routine runs
    internal_position: int | None = None  # 1-based character offset into it


class PgError(Exception):
    """A statement fails. `location` is the 0-based character offset in the statement's text."""

    raised_in: object = None  # the call of a routine whose line of CONTEXT has been added
    is_hard = False  # raised while a value was read, but not about the value

    def __init__(
        self,
        sqlstate: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        location: int | None = None,
        context: str | None = None,
        severity: str = "ERROR",
        schema: str | None = None,
        table: str | None = None,
        column: str | None = None,
        datatype: str | None = None,
        constraint: str | None = None,
    ) -> None:
        super().__init__(message)
        position = None if location is None or location < 0 else location + 1
        self.report = Report(
            severity, sqlstate, message, detail, hint, context, position, schema, table, column, datatype, constraint
        )

    @property
    def sqlstate(self) -> str:
        return self.report.sqlstate

    @property
    def is_of_data(self) -> bool:
        """Is something wrong with a value (class 22), or does a row break a constraint (23)?"""
        return self.sqlstate[:2] in ("22", "23")

    @property
    def is_soft(self) -> bool:
        """Does an input function say that a text is no value of its type, which a caller may take for an answer
        (errsave)?"""
        return not self.is_hard and self.sqlstate[:2] in ("0A", "22", "23", "3F", "42", "54")

    @property
    def is_of_machine(self) -> bool:
        """Does it come of the machine or of an operator, so that the same work may succeed elsewhere or later? All
        other errors come of the rows and the definitions, and would come again."""
        return self.sqlstate[:2] in ("53", "57", "58", "XX")

    @property
    def message(self) -> str:
        return self.report.message

    def at(self, location: int | None) -> PgError:
        """Give the error a place in the text, unless it has one already, or is an interrupt (pcb_error_callback)."""
        stays = self.report.position is not None or self.sqlstate == "57014"
        if not stays and location is not None and location >= 0:
            self.report = replace(self.report, position=location + 1)
        return self

    def inside(self, query: str) -> PgError:
        """Move the error's place into the text of a statement that a routine runs."""
        position = self.report.position
        if position is not None:
            self.report = replace(self.report, position=None, internal_position=position, internal_query=query)
        return self

    def with_context(self, context: str) -> PgError:
        """Add a line to the CONTEXT, after those it has."""
        known = self.report.context
        self.report = replace(self.report, context=f"{known}\n{context}" if known else context)
        return self

    def __str__(self) -> str:
        return self.report.message

    def __reduce__(self) -> tuple[Callable[[Report], PgError], tuple[Report]]:
        return _reported, (self.report,)


def _reported(report: Report) -> PgError:
    """The PgError of a report: an error from another process is unpickled so."""
    error = PgError(report.sqlstate, report.message)
    error.report = report
    return error


def unsupported(what: str, *, location: int | None = None) -> PgError:
    """The error for a feature of PostgreSQL that pgrepl lacks: `CREATE TRIGGER is not supported`."""
    return PgError("0A000", f"{what} is not supported", location=location)


class Declined(Exception):
    """The chosen engine cannot do the work as PostgreSQL does; the message says why. Who chose it counts the reason
    (engine.declined) and does the work in another way."""


# --- through Spark ---------------------------------------------------------------------------------------------------

_MARK = "PGREPL"


def marked(error: PgError) -> str:
    """The error as text that survives Spark (raise_error, an exception of a UDF): `PGREPL{"sqlstate": …}`."""
    report = error.report
    said = {name: getattr(report, name) for name in Report.__dataclass_fields__}
    return _MARK + json.dumps({name: value for name, value in said.items() if value is not None}, ensure_ascii=True)


def unmarked(text: str) -> PgError | None:
    """The marked error in a text of Spark's; None: there is none."""
    at = text.find(_MARK + "{")
    while at >= 0:
        try:
            said, _ = json.JSONDecoder().raw_decode(text, at + len(_MARK))
            error = PgError(said["sqlstate"], said["message"])
            error.report = replace(error.report, **said)
            return error
        except (ValueError, KeyError, TypeError):
            at = text.find(_MARK + "{", at + 1)
    return None
