"""What COPY is told: its relation, its columns, and its options with their combinations (ProcessCopyOptions).

`FORMAT parquet` is pgrepl's own: such files know their columns and types, so hardly any other option fits it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pgrepl.catalog.facts.relation import Attribute, Relation, find_relation
from pgrepl.catalog.store.store import one
from pgrepl.catalog.store.tables import pg_class
from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.lake import sql
from pgrepl.rows.triggers import TriggerEvent, has_instead_trigger
from pgrepl.sql.location import conflicting, get_boolean, get_int64, get_string
from pgrepl.sql.nodes import AStar, DefElem
from pgrepl.types import oids
from pgrepl.types.input_checks import encoding_name
from pgrepl.types.text import read_text

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session
    from pgrepl.sql.nodes import RangeVar

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
    verbosity: str = "default"  # LOG_VERBOSITY: silent, default or verbose
    reject_limit: int = 0  # rows that ON_ERROR ignore may pass over; 0: all
    release: int = 17  # of PostgreSQL, which decides what `\.` means

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
        given[option.name] = read(option, is_from) if option.name in _OF_DIRECTION else read(option)
    return _checked(given, is_from)


# --- one option -----------------------------------------------------------------------------------------------------


def _format(option: DefElem) -> Format:
    name = get_string(option)
    for known in ("text", "csv", "binary", "parquet"):
        if name == known:
            return known
    raise PgError("22023", f'COPY format "{name}" not recognized', location=option.location)


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


def _columns(option: DefElem) -> Names:
    value = option.value
    if isinstance(value, AStar):
        return "*"
    if isinstance(value, tuple):
        return tuple(str(name) for name in value)
    raise PgError(
        "22023", f'argument to option "{option.name}" must be a list of column names', location=option.location
    )


def _encoding(option: DefElem) -> str:
    encoding = encoding_name(get_string(option))
    if encoding is None:
        raise PgError(
            "22023", f'argument to option "{option.name}" must be a valid encoding name', location=option.location
        )
    return encoding


def _on_error(option: DefElem, is_from: bool) -> bool:
    """Whether errors are ignored."""
    word = get_string(option)
    if not is_from:
        raise PgError("22023", "COPY ON_ERROR cannot be used with COPY TO", location=option.location)
    return _choice(option, word, "ON_ERROR", "stop", "ignore") == "ignore"


def _log_verbosity(option: DefElem) -> str:
    return _choice(option, get_string(option), "LOG_VERBOSITY", "silent", "default", "verbose")


def _reject_limit(option: DefElem) -> int:
    """REJECT_LIMIT: a number, or its text, above zero (defGetCopyRejectLimitOption)."""
    value = option.value
    limit = int(read_text(value, oids.INT8)) if isinstance(value, str) else get_int64(option)
    if limit <= 0:
        raise PgError("22023", f"REJECT_LIMIT ({limit}) must be greater than zero")
    return limit


def _choice(option: DefElem, word: str, name: str, *choices: str) -> str:
    if word.lower() not in choices:
        raise PgError("22023", f'COPY {name} "{word}" not recognized', location=option.location)
    return word.lower()


_READERS: dict[str, Callable[..., Any]] = {
    "format": _format, "freeze": get_boolean, "header": _header, "encoding": _encoding, "on_error": _on_error,
    "log_verbosity": _log_verbosity, "reject_limit": _reject_limit,
    **dict.fromkeys(("delimiter", "null", "default", "quote", "escape"), get_string),
    **dict.fromkeys(("force_quote", "force_not_null", "force_null"), _columns),
}  # fmt: skip
_OF_DIRECTION = ("header", "on_error")  # they are read otherwise for COPY TO


# --- what fits together ---------------------------------------------------------------------------------------------


_FIELDS = {"on_error": "ignore_errors", "log_verbosity": "verbosity"}  # of CopyOptions, by options of other names


def _checked(given: dict[str, Any], is_from: bool) -> CopyOptions:
    """Check in PostgreSQL's order, so that of several faults the same one is reported."""
    form: Format = given.get("format", "text")
    csv = form == "csv"
    if form in ("binary", "parquet"):
        _check_whole(given, form.upper())
    quote = given.get("quote", '"' if csv else "")
    usual = {"delimiter": ",", "null": ""} if csv else {}
    named = {_FIELDS.get(name, name): value for name, value in given.items()}
    options = CopyOptions(**{**usual, "quote": quote, "escape": quote, **named})
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
    if options.reject_limit and not options.ignore_errors:
        raise PgError("22023", "COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE")
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


# --- columns ----------------------------------------------------------------------------------------------------------


def copied_columns(rel: Relation, names: Sequence[str]) -> list[Attribute]:
    """The columns in the list, or all; generated ones are neither copied out nor in (CopyGetAttnums)."""
    if not names:
        return [a for a in rel.columns if not a.generated]
    _check(names, rel, ())
    by_name = {a.name: a for a in rel.columns}
    return [by_name[name] for name in names]


def forced(option: str, names: Names, copied: Sequence[str], rel: Relation | None) -> list[bool]:
    """For each copied column, whether the option (FORCE_QUOTE and its like) names it."""
    if names == "*":
        return [True] * len(copied)
    _check(names, rel, copied)
    for name in names:
        if name not in copied:
            raise PgError("42P10", f'{option} column "{name}" not referenced by COPY')
    return [name in names for name in copied]


def _check(names: Sequence[str], rel: Relation | None, columns: Sequence[str]) -> None:
    """Each name must be a column of the relation or one of `columns` (those of a query), and occur once."""
    for number, name in enumerate(names):
        attribute = rel.attribute(name) if rel is not None else None
        if attribute is not None and attribute.generated:
            raise PgError(
                "42P10", f'column "{name}" is a generated column', detail="Generated columns cannot be used in COPY."
            )
        if attribute is None and name not in columns:
            of_relation = f' of relation "{rel.name}"' if rel is not None else ""
            raise PgError("42703", f'column "{name}"{of_relation} does not exist')
        if name in names[:number]:
            raise PgError("42701", f'column "{name}" specified more than once')


# --- relations --------------------------------------------------------------------------------------------------------


_WORDS = {"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "p": "partitioned table"}


def open_relation(session: Session, name: RangeVar) -> Relation:
    """As table_openrv: without a place in the text, and no index."""
    relation = find_relation(session, replace(name, location=-1))
    if relation.kind in ("i", "I"):
        raise PgError(
            "42809",
            f'cannot open relation "{relation.name}"',
            detail="This operation is not supported for "
            + ("indexes." if relation.kind == "i" else "partitioned indexes."),
        )
    return relation


def copies_partitions(session: Session, rel: Relation) -> bool:
    """Does COPY TO read the partitions of the table? (A23)"""
    return rel.kind == "p" and session.settings.get("pgrepl.copy_partitioned") == "on"


def check_source(session: Session, rel: Relation) -> None:
    """COPY TO reads tables only; since 18 materialized views that are populated, too."""
    if rel.kind == "r" or copies_partitions(session, rel):
        return
    if rel.kind == "m" and session.settings.release >= 18:
        if rel.populated:
            return
        text = f'cannot copy from unpopulated materialized view "{rel.name}"'
        raise PgError("0A000", text, hint="Use the REFRESH MATERIALIZED VIEW command.")
    what = f'{_WORDS.get(rel.kind, "non-table relation")} "{rel.name}"'
    hint = "Try the COPY (SELECT ...) TO variant." if rel.kind in "vmfp" else None
    raise PgError("42809", f"cannot copy from {what}", hint=hint)


def check_target(session: Session, rel: Relation) -> None:
    """COPY FROM fills tables only; a partitioned one hands its rows on, as do INSTEAD OF triggers of a view."""
    if rel.kind in ("r", "p", "f"):
        return
    if rel.kind == "v" and has_instead_trigger(session, rel.oid, TriggerEvent.INSERT):
        return
    what = f'{_WORDS.get(rel.kind, "non-table relation")} "{rel.name}"'
    hint = "To enable copying to a view, provide an INSTEAD OF INSERT trigger." if rel.kind == "v" else None
    raise PgError("42809", f"cannot copy to {what}", hint=hint)


def check_freeze(session: Session, rel: Relation) -> None:
    """FREEZE is for tables that no other transaction can have seen yet."""
    if rel.kind == "p":
        raise PgError("0A000", "cannot perform COPY FREEZE on a partitioned table")
    if not _is_new(session, rel):
        raise PgError(
            "55000",
            "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction",
        )


def _is_new(session: Session, rel: Relation) -> bool:
    """Whether this transaction created or truncated the table."""
    first = session.transaction.numbering.first_snapshot
    if first is None:
        return False
    link = session.link
    row = one(session, pg_class, oid=rel.oid)
    assert row is not None
    begun = link.execute(sql.TABLE_BEGUN, (row.table_id,))[0][0]
    if begun is None or int(begun) >= first:
        return True
    noted = [json.loads(extra or "{}") for (extra,) in link.execute(sql.EXTRA_INFO_FROM, (first,))]
    return any(rel.oid in extra.get("truncate", {}).get("tables", ()) for extra in noted)
