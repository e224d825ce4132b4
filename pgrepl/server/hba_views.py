"""The rows of pg_hba_file_rules and pg_ident_file_mappings (hbafuncs.c)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgrepl.errors import PgError
from pgrepl.server import hba

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pgrepl.catalog.session import Session
    from pgrepl.query.system.forms import Provider


_NO_GSSAPI = "hostgssenc record cannot match because GSSAPI is not supported by this build"


def providers(hba_file: Path, ident_file: Path) -> Mapping[str, Provider]:
    return {
        "pg_hba_file_rules": partial(_rules, hba_file),
        "pg_ident_file_mappings": partial(_mappings, ident_file),
    }


def _rules(file: Path, _: Session) -> Iterator[dict[str, Any]]:
    return _rows(file, hba.read_rules, "rule_number", _rule)


def _rule(rule: hba.Rule) -> dict[str, Any]:
    return {
        "type": rule.kind,
        "database": [word.text for word in rule.databases], "user_name": [word.text for word in rule.users],
        "address": rule.address or None, "netmask": rule.mask, "auth_method": rule.method,
        "options": _options(rule), "error": _NO_GSSAPI if rule.kind == "hostgssenc" else None,
    }  # fmt: skip


def _options(rule: hba.Rule) -> list[str] | None:
    """As get_hba_options does; a certificate as the method asks for its user's name, too."""
    given = dict(rule.options)
    if rule.method == "cert":
        given["clientcert"] = "verify-full"
    return [f"{name}={given[name]}" for name in ("map", "clientcert") if name in given] or None


def _mappings(file: Path, _: Session) -> Iterator[dict[str, Any]]:
    return _rows(file, hba.read_mappings, "map_number", _mapping)


def _mapping(line: hba.IdentLine) -> dict[str, Any]:
    return {"map_name": line.name, "sys_name": line.system.text, "pg_username": line.role.text, "error": None}


def _rows(file: Path, read: Any, number: str, shown: Callable[[Any], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row of each line; those without an error are numbered."""
    count = 0
    for line in _read(read, file):
        row: dict[str, Any] = {"error": line.message} if isinstance(line, hba.BadLine) else shown(line)
        if row["error"] is None:
            count += 1
            row[number] = count
        yield {"file_name": str(file), "line_number": line.line, **row}


def _read(read: Any, file: Path) -> Any:
    """A file that cannot be read is the statement's error here, and does not end the session."""
    try:
        return read(file)
    except PgError as problem:
        raise PgError(problem.sqlstate, problem.message) from None
