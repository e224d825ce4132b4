r"""`\df`, `\dT` and `\dD`: functions, data types and domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pgrepl.catalog.facts.namespace import (
    LANGUAGE_NAMES,
    as_proc,
    routine_row,
    routine_rows,
    routines_named,
    search_path,
)
from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.roles import role_display
from pgrepl.catalog.facts.user_types import UserTypeRow, domain_constraints, type_is_visible, type_rows
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import BOOTSTRAP_SUPERUSER, PG_PROC, PG_TYPE
from pgrepl.expr import stored
from pgrepl.expr.analyse.calls import is_visible
from pgrepl.expr.analyse.casts import collation_name
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.print.definitions import constraint_definition
from pgrepl.expr.print.deparse import expression_text
from pgrepl.expr.print.print_routine import arguments_text, result_text
from pgrepl.shell.describe.listing import NamePattern, print_listing, read_pattern, read_type_pattern, session_of
from pgrepl.shell.describe.roles import shown_acl
from pgrepl.types import builtin
from pgrepl.types.builtin import PgType, Proc, type_by_oid
from pgrepl.types.user_types import described

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
    session = session_of(shell)
    wanted = [proc for proc in _matching(session, pattern, text is not None or system) if _is_of(proc, kinds)]
    for number, argument in enumerate(patterns[1:]):
        wanted = list(filter(_argument_matcher(shell, argument, number), wanted))
    listed = [_row(session, proc, verbose) for proc in wanted]
    more: tuple[str, ...] = _MORE if verbose else ()
    if verbose and session.settings.release >= 18:  # psql 18 shows one more
        place = len(_HEADERS) + _MORE.index("Security") + 1
        more = (*_MORE[:4], "Leakproof?", *_MORE[4:])
        for proc, cells in zip(wanted, listed, strict=True):
            cells.insert(place, "yes" if proc.leakproof else "no")
    listed.sort(key=lambda row: (row[0] or "", row[1] or "", row[3] or ""))
    return print_listing(shell, "List of functions", _HEADERS + more, listed)


def _matching(session: Session, pattern: NamePattern | None, with_system: bool) -> list[Proc]:
    """The functions of a pattern; without a schema in it, visible ones."""
    literal = None if pattern is None else pattern.name.literal
    if literal is not None:
        procs = routines_named(session, literal)
    else:
        procs = [as_proc(session, row) for row in routine_rows(session)]
        procs += list(builtin.procs_of(session.settings.release)) if with_system else []
    if pattern is not None:
        procs = [proc for proc in procs if pattern.name.matches(proc.name)]
        schema = pattern.schema
        if schema is not None:
            return [proc for proc in procs if schema.matches(proc.schema)]
    return [proc for proc in procs if is_visible(session, proc)]


def _is_of(proc: Proc, kinds: str) -> bool:
    if not kinds:
        return True
    kind = "t" if proc.rettype == _TRIGGER else "n" if proc.kind == "f" else proc.kind
    return kind in kinds


def _argument_matcher(shell: Shell, text: str | None, number: int) -> Callable[[Proc], bool]:
    """Whether the type of an input parameter matches; `-` stands for none."""
    if text == "-":
        return lambda proc: proc.nargs <= number
    pattern, session = read_type_pattern(shell, text or ""), session_of(shell)
    assert pattern is not None

    def matches(proc: Proc) -> bool:
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


# --- types ------------------------------------------------------------------------------------------------------------


_SYSTEM_SCHEMAS = {"pg_catalog": 11, "information_schema": 13134}


class _Listed(NamedTuple):
    oid: int
    type: PgType
    row: UserTypeRow | None
    name: str


def list_types(shell: Shell, text: str | None, verbose: bool, system: bool) -> bool:
    r"""`\dT`: all types but arrays and the row types of tables."""
    pattern = read_type_pattern(shell, text)
    session = session_of(shell)
    headers = ["Schema", "Name"]
    if verbose:
        headers += ["Internal name", "Size", "Elements", "Owner", "Access privileges"]
    with_arrays = text is not None and "[]" in text
    listed = []
    for entry in _matching_types(session, pattern, text is not None or system):
        if not (_is_array(entry.type) and not with_arrays) and not (entry.row is None and entry.type.relid):
            listed.append(_cells(session, entry, verbose))
    listed.sort(key=lambda cells: (cells[0] or "", cells[1] or ""))
    return print_listing(shell, "List of data types", [*headers, "Description"], listed)


def _cells(session: Session, entry: _Listed, verbose: bool) -> list[str | None]:
    cells: list[str | None] = [entry.type.schema, entry.name]
    if verbose:
        known = described(entry.oid)
        size = "tuple" if entry.type.relid else "var" if entry.type.len < 0 else str(entry.type.len)
        labels = () if known is None else known.labels
        owner = BOOTSTRAP_SUPERUSER if entry.row is None else entry.row.typowner
        cells += [entry.type.name, size, "\n".join(label.name for label in labels), role_display(session, owner)]
        cells.append(None if entry.row is None else shown_acl(session, entry.row.typacl))
    return [*cells, comment_on(session, PG_TYPE, int(entry.oid))]


def list_domains(shell: Shell, text: str | None, verbose: bool, system: bool) -> bool:
    r"""`\dD`."""
    pattern = read_pattern(shell, text, qualified=True)
    session = session_of(shell)
    headers = ["Schema", "Name", "Type", "Collation", "Nullable", "Default", "Check"]
    if verbose:
        headers += ["Access privileges", "Description"]
    listed = [
        _domain_cells(session, entry, verbose)
        for entry in _matching_types(session, pattern, text is not None or system)
        if entry.type.typtype == "d"
    ]
    listed.sort(key=lambda cells: (cells[0] or "", cells[1] or ""))
    return print_listing(shell, "List of domains", headers, listed)


def _domain_cells(session: Session, entry: _Listed, verbose: bool) -> list[str | None]:
    domain, row = entry.type, entry.row
    base = type_by_oid(domain.basetype)
    collation = None
    if base is not None and domain.collation != base.collation:
        collation = collation_name(domain.collation)
    default, checks = None, []
    if row is not None:
        if row.typdefaultbin is not None:
            default = expression_text(session, stored.from_json(row.typdefaultbin, session))
        constraints = [c for c in domain_constraints(session, row.oid) if c.contype == "c"]
        checks = [constraint_definition(session, c.oid, True) or "" for c in constraints]
    cells: list[str | None] = [
        domain.schema, domain.name, type_text(session, domain.basetype, domain.typmod), collation,
        "not null" if domain.notnull else None, default, " ".join(checks),
    ]  # fmt: skip
    if verbose:
        cells += [None if row is None else shown_acl(session, row.typacl), comment_on(session, PG_TYPE, int(entry.oid))]
    return cells


def _is_array(kind: PgType) -> bool:
    element = type_by_oid(kind.elem)
    return element is not None and element.array == kind.oid


def _matching_types(session: Session, pattern: NamePattern | None, with_system: bool) -> list[_Listed]:
    """The types of a pattern, by their name in pg_type or as format_type prints it; without a schema in the pattern,
    visible ones."""
    candidates: list[_Listed] = []
    for row in type_rows(session):
        oid = session.type_of(row.oid)
        kind = type_by_oid(oid)
        assert kind is not None
        candidates.append(_Listed(oid, kind, row, type_text(session, oid)))
    if with_system:
        candidates += [_Listed(kind.oid, kind, None, type_text(session, kind.oid)) for kind in builtin.types]
    schema = None if pattern is None else pattern.schema
    chosen = []
    for entry in candidates:
        if pattern is not None and not (pattern.name.matches(entry.type.name) or pattern.name.matches(entry.name)):
            continue
        if schema is not None and not schema.matches(entry.type.schema):
            continue
        if schema is None and not _is_visible(session, entry):
            continue
        chosen.append(entry)
    return chosen


def _is_visible(session: Session, entry: _Listed) -> bool:
    if entry.row is not None:
        return type_is_visible(session, entry.row)
    return _SYSTEM_SCHEMAS[entry.type.schema] in search_path(session)
