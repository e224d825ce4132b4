r"""`\df`: functions and procedures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER, PG_PROC
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.roles import role_display
from pgrepl.catalog.routines import LANGUAGE_NAMES, as_proc, routine_row, routine_rows, routines_named
from pgrepl.catalog.session import Session
from pgrepl.expr.calls import is_visible
from pgrepl.expr.routine_text import arguments_text, result_text
from pgrepl.expr.typefacts import type_text
from pgrepl.shell.describe.listing import print_listing, read_pattern, read_type_pattern, session_of
from pgrepl.shell.describe.patterns import NamePattern
from pgrepl.shell.describe.privileges import shown_acl
from pgrepl.types import builtin
from pgrepl.types.builtin import Proc

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

_TYPES = {"a": "agg", "w": "window", "p": "proc", "f": "func"}
_VOLATILITY = {"i": "immutable", "s": "stable", "v": "volatile"}
_PARALLEL = {"r": "restricted", "s": "safe", "u": "unsafe"}
_TRIGGER = 2279
_HEADERS = ("Schema", "Name", "Result data type", "Argument data types", "Type")
_MORE = ("Volatility", "Parallel", "Owner", "Security", "Access privileges", "Language", "Internal name", "Description")


def list_functions(shell: Shell, kinds: str, patterns: Sequence[str | None], verbose: bool, system: bool) -> bool:
    r"""`kinds`: the letters behind \df, n for functions that are nothing else."""
    text = patterns[0] if patterns else None
    pattern = read_pattern(shell, text, qualified=True)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    wanted = [proc for proc in _matching(session, pattern, text is not None or system) if _is_of(proc, kinds)]
    for number, argument in enumerate(patterns[1:]):
        matches = _argument_matcher(shell, argument)
        if matches is None:
            return False
        wanted = [proc for proc in wanted if matches(session, proc, number)]
    listed = [_row(session, proc, verbose) for proc in wanted]
    listed.sort(key=lambda row: (row[0] or "", row[1] or "", row[3] or ""))
    return print_listing(shell, "List of functions", _HEADERS + (_MORE if verbose else ()), listed)


def _matching(session: Session, pattern: NamePattern | None, with_system: bool) -> list[Proc]:
    """The functions of a pattern; without a schema in it, visible ones."""
    literal = None if pattern is None else pattern.name.literal
    if literal is not None:
        found = routines_named(session, literal)
    else:
        found = [as_proc(session, row) for row in routine_rows(session)]
        found += list(builtin.procs) if with_system else []
    if pattern is not None:
        found = [proc for proc in found if pattern.name.matches(proc.name)]
        schema = pattern.schema
        if schema is not None:
            return [proc for proc in found if schema.matches(proc.schema)]
    return [proc for proc in found if is_visible(session, proc)]


def _is_of(proc: Proc, kinds: str) -> bool:
    if not kinds:
        return True
    kind = "t" if proc.rettype == _TRIGGER else "n" if proc.kind == "f" else proc.kind
    return kind in kinds


def _argument_matcher(shell: Shell, text: str | None):  # type: ignore[no-untyped-def]
    """Whether the type of an input parameter matches; `-` stands for none."""
    if text == "-":
        return lambda session, proc, number: proc.nargs <= number
    pattern = read_type_pattern(shell, text or "")
    if isinstance(pattern, bool) or pattern is None:
        return None

    def matches(session: Session, proc: Proc, number: int) -> bool:
        if proc.nargs <= number:
            return False
        typoid = proc.argtypes[number]
        known = builtin.type_by_oid(typoid)
        names = [type_text(session, typoid), *([known.name] if known is not None else [])]
        return any(pattern.name.matches(name) for name in names)

    return matches


def _row(session: Session, proc: Proc, verbose: bool) -> list[str | None]:
    cells: list[str | None] = [
        proc.schema,
        proc.name,
        result_text(session, proc),
        arguments_text(session, proc, defaults=True),
        _TYPES[proc.kind],
    ]
    if verbose:
        row = routine_row(session, proc.oid)
        language = LANGUAGE_NAMES[proc.lang]
        cells += [
            _VOLATILITY[proc.volatile],
            _PARALLEL[proc.parallel],
            role_display(session, BOOTSTRAP_SUPERUSER if row is None else row.proowner),
            "definer" if row is not None and row.prosecdef else "invoker",
            None if row is None else shown_acl(session, row.proacl),
            language,
            proc.src if language in ("internal", "c") else None,
            comment_on(session, PG_PROC, proc.oid),
        ]
    return cells
