"""The arguments of a bound cursor, where it is opened and where a loop runs over it (read_cursor_args)."""

from __future__ import annotations

from pgrepl.errors import PgError
from pgrepl.plpgsql.compilation import current
from pgrepl.plpgsql.datums import Mode, SqlText, Var
from pgrepl.plpgsql.scanner import Word
from pgrepl.sql.plpgsql_keywords import UNRESERVED
from pgrepl.sql.quote import quote_identifier


def cursor_arguments(cursor: Var, until: str) -> SqlText | None:
    """The arguments of a bound cursor as one expression with a column for each parameter (read_cursor_args)."""
    scanner = current().scanner
    token = scanner.next()
    if cursor.parameters is None:
        if token[0] == "LPAR":
            raise PgError("42601", f'cursor "{cursor.name}" has no arguments', location=token[2])
        if token[0] != until:
            raise scanner.error("syntax error")
        return None
    if token[0] != "LPAR":
        raise PgError("42601", f'cursor "{cursor.name}" has arguments', location=token[2])
    names = cursor.parameters.names
    values: dict[str, str] = {}
    any_named = False
    begin = scanner.peek()[2]
    for number, name in enumerate(names, 1):
        place = scanner.peek()[2]
        given = _argument_name(cursor)
        any_named = any_named or given is not None
        name = given or name
        if name in values:
            message = f'value for parameter "{name}" of cursor "{cursor.name}" specified more than once'
            raise PgError("42601", message, location=place)
        text, start, end = scanner.read_until(("COMMA", "RPAR"), '," or ")')
        values[name] = current().sql(text, Mode.EXPRESSION, start).text
        if end[0] == "RPAR" and number < len(names):
            raise PgError("42601", f'not enough arguments for cursor "{cursor.name}"', location=end[2])
        if end[0] == "COMMA" and number == len(names):
            raise PgError("42601", f'too many arguments for cursor "{cursor.name}"', location=end[2])
    if scanner.next()[0] != until:
        raise scanner.error("syntax error")
    parts = [values[name] + (f" AS {quote_identifier(name)}" if any_named else "") for name in names]
    return current().sql(", ".join(parts), Mode.EXPRESSION, begin)


def _argument_name(cursor: Var) -> str | None:
    """The name in `name := value`."""
    scanner = current().scanner
    token = scanner.next()
    named = isinstance(token[1], Word) or token[1] in UNRESERVED
    if not named or scanner.peek()[0] != "COLON_EQUALS":
        scanner.push_back(token)
        return None
    name: str = token[1].names[0] if isinstance(token[1], Word) else token[1]
    assert cursor.parameters is not None
    if name not in cursor.parameters.names:
        message = f'cursor "{cursor.name}" has no argument named "{name}"'
        raise PgError("42601", message, location=token[2])
    scanner.next()
    return name
