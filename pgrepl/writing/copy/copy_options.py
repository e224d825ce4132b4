"""The options of COPY: allowed values and combinations, and defaults (ProcessCopyOptions).

`FORMAT parquet` is pgrepl's own: such files know their columns and types, so hardly any other option fits it.
"""

from __future__ import annotations

from typing import Any, Literal

from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.sql.def_elem import conflicting, get_boolean, get_string
from pgrepl.sql.nodes import AStar, DefElem

Format = Literal["text", "csv", "binary", "parquet"]
Header = Literal["false", "true", "match"]

# FORCE_QUOTE * and its like; otherwise the names of columns
Names = tuple[str, ...] | Literal["*"]

# Characters with a meaning after a backslash, which therefore cannot be the delimiter of text format.
_UNSAFE_DELIMITERS = frozenset("\\.abcdefghijklmnopqrstuvwxyz0123456789")


@frozen
class CopyOptions:
    format: Format = "text"
    freeze: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    default: str | None = None  # marks a field that gets its column's default
    header: Header = "false"
    quote: str = ""
    escape: str = ""
    force_quote: Names = ()
    force_not_null: Names = ()
    force_null: Names = ()
    encoding: str | None = None  # its canonical name
    ignore_errors: bool = False  # ON_ERROR ignore
    verbose: bool = False  # LOG_VERBOSITY verbose

    @property
    def csv(self) -> bool:
        return self.format == "csv"


def copy_options(options: tuple[DefElem, ...], *, is_from: bool) -> CopyOptions:
    """Read the list of a COPY statement. The names of columns in it are not looked up yet."""
    given: dict[str, Any] = {}
    for option in options:
        read = _READERS.get(option.name)
        if read is None:
            raise PgError("42601", f'option "{option.name}" not recognized', location=option.location)
        if option.name in given:
            conflicting(option)
        given[option.name] = read(option, is_from)
    return _checked(given, is_from)


# --- one option -----------------------------------------------------------------------------------------------------


def _format(option: DefElem, is_from: bool) -> Format:
    name = get_string(option)
    for known in ("text", "csv", "binary", "parquet"):
        if name == known:
            return known
    raise PgError("22023", f'COPY format "{name}" not recognized', location=option.location)


def _flag(option: DefElem, is_from: bool) -> bool:
    return get_boolean(option)


def _text(option: DefElem, is_from: bool) -> str:
    return get_string(option)


def _header(option: DefElem, is_from: bool) -> Header:
    value = option.value
    if value is None:
        return "true"
    if isinstance(value, int) and not isinstance(value, bool):
        if value in (0, 1):
            return "true" if value else "false"
    else:
        written = get_string(option)
        word = written.lower()
        if word in ("true", "on"):
            return "true"
        if word in ("false", "off"):
            return "false"
        if word == "match":
            if not is_from:
                raise PgError("0A000", f'cannot use "{written}" with HEADER in COPY TO')
            return "match"
    raise PgError("42601", f'{option.name} requires a Boolean value or "match"')


def _columns(option: DefElem, is_from: bool) -> Names:
    value = option.value
    if isinstance(value, AStar):
        return "*"
    if isinstance(value, tuple):
        return tuple(str(name) for name in value)
    raise PgError(
        "22023", f'argument to option "{option.name}" must be a list of column names', location=option.location
    )


def _encoding(option: DefElem, is_from: bool) -> str:
    from pgrepl.types.encodings import encoding_name

    found = encoding_name(get_string(option))
    if found is None:
        raise PgError(
            "22023", f'argument to option "{option.name}" must be a valid encoding name', location=option.location
        )
    return found


def _on_error(option: DefElem, is_from: bool) -> bool:
    """Whether errors are ignored."""
    word = get_string(option)
    if not is_from:
        raise PgError("22023", "COPY ON_ERROR cannot be used with COPY TO", location=option.location)
    return _choice(option, word, "ON_ERROR", "stop", "ignore")


def _log_verbosity(option: DefElem, is_from: bool) -> bool:
    return _choice(option, get_string(option), "LOG_VERBOSITY", "default", "verbose")


def _choice(option: DefElem, word: str, name: str, no: str, yes: str) -> bool:
    if word.lower() not in (no, yes):
        raise PgError("22023", f'COPY {name} "{word}" not recognized', location=option.location)
    return word.lower() == yes


_READERS = {
    "format": _format, "freeze": _flag, "delimiter": _text, "null": _text, "default": _text, "header": _header,
    "quote": _text, "escape": _text, "force_quote": _columns, "force_not_null": _columns, "force_null": _columns,
    "encoding": _encoding, "on_error": _on_error, "log_verbosity": _log_verbosity,
}  # fmt: skip


# --- what fits together ---------------------------------------------------------------------------------------------


def _checked(given: dict[str, Any], is_from: bool) -> CopyOptions:
    """Check in PostgreSQL's order, so that of several faults the same one is reported."""
    form: Format = given.get("format", "text")
    csv = form == "csv"
    if form in ("binary", "parquet"):
        _check_whole(given, form.upper())
    quote = given.get("quote", '"' if csv else "")
    options = CopyOptions(
        form,
        given.get("freeze", False),
        given.get("delimiter", "," if csv else "\t"),
        given.get("null", "" if csv else "\\N"),
        given.get("default"),
        given.get("header", "false"),
        quote,
        given.get("escape", quote),
        given.get("force_quote", ()),
        given.get("force_not_null", ()),
        given.get("force_null", ()),
        given.get("encoding"),
        given.get("on_error", False),
        given.get("log_verbosity", False),
    )
    _check_marks(options)
    if form in ("binary", "parquet") and options.header != "false":
        raise PgError("0A000", f"cannot specify HEADER in {form.upper()} mode")
    _check_quotes(options, given)
    _check_forced(options, is_from)
    _check_contained(options.null, options, "NULL", "22023")
    if options.freeze and not is_from:
        raise PgError("22023", "COPY FREEZE cannot be used with COPY TO")
    if options.default is not None:
        if not is_from:
            raise PgError("0A000", "COPY DEFAULT cannot be used with COPY TO")
        _check_contained(options.default, options, "DEFAULT", "0A000")
        if options.null == options.default:
            raise PgError("0A000", "NULL specification and DEFAULT specification cannot be the same")
    return options


def _check_whole(given: dict[str, Any], mode: str) -> None:
    """Refuse options that only formats of text have."""
    refused = ("delimiter", "null", "default") if mode == "BINARY" else ("delimiter", "null", "default", "encoding")
    for name in refused:
        if name in given:
            raise PgError("42601", f"cannot specify {name.upper()} in {mode} mode")
    if given.get("on_error"):
        raise PgError("42601", f"only ON_ERROR STOP is allowed in {mode} mode")


def _check_marks(options: CopyOptions) -> None:
    delimiter = options.delimiter
    if len(delimiter.encode()) != 1:
        raise PgError("0A000", "COPY delimiter must be a single one-byte character")
    if delimiter in "\r\n":
        raise PgError("22023", "COPY delimiter cannot be newline or carriage return")
    for mark, name in ((options.null, "null"), (options.default or "", "default")):
        if "\r" in mark or "\n" in mark:
            raise PgError("22023", f"COPY {name} representation cannot use newline or carriage return")
    if not options.csv and delimiter in _UNSAFE_DELIMITERS:
        raise PgError("22023", f'COPY delimiter cannot be "{delimiter}"')


def _check_quotes(options: CopyOptions, given: dict[str, Any]) -> None:
    for name, mark in (("quote", options.quote), ("escape", options.escape)):
        if not options.csv and name in given:
            raise PgError("0A000", f"COPY {name.upper()} requires CSV mode")
        if options.csv and len(mark.encode()) != 1:
            raise PgError("0A000", f"COPY {name} must be a single one-byte character")
        if options.csv and name == "quote" and mark == options.delimiter:
            raise PgError("22023", "COPY delimiter and quote must be different")


def _check_forced(options: CopyOptions, is_from: bool) -> None:
    for name, columns, where, sqlstate in (
        ("FORCE_QUOTE", options.force_quote, "COPY TO", "0A000"),
        ("FORCE_NOT_NULL", options.force_not_null, "COPY FROM", "22023"),
        ("FORCE_NULL", options.force_null, "COPY FROM", "22023"),
    ):
        if columns and not options.csv:
            raise PgError("0A000", f"COPY {name} requires CSV mode")
        here = "COPY FROM" if is_from else "COPY TO"
        if columns and where != here:
            raise PgError(sqlstate, f"COPY {name} cannot be used with {here}")


def _check_contained(mark: str, options: CopyOptions, name: str, sqlstate: str) -> None:
    if options.delimiter in mark:
        raise PgError(sqlstate, f"COPY delimiter character must not appear in the {name} specification")
    if options.csv and options.quote in mark:
        raise PgError(sqlstate, f"CSV quote character must not appear in the {name} specification")
