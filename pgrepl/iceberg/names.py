"""Columns of files without field ids, which are found by name: Iceberg's name mapping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pgrepl.iceberg import sql

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


class FileNames(NamedTuple):
    mapping: list[dict[str, Any]]  # as schema.name-mapping.default has it
    unreadable: Mapping[int, str]  # columns that it cannot tell, and why


class _Name(NamedTuple):
    """A row of ducklake_name_mapping."""

    mapping: int
    name: str
    field: int
    parent: int | None
    column: int
    in_path: bool


def of_files(session: Session, mappings: Iterable[int | None]) -> FileNames:
    rows = [
        _Name(*row) for number in sorted({each for each in mappings if each is not None})
        for row in session.link.execute(sql.NAMES, (number,))
    ]  # fmt: skip
    unreadable = {row.field: "its values are in the paths of some files" for row in rows if row.in_path}
    fields: dict[str, set[int]] = {}
    for row in rows:
        if row.parent is None and not row.in_path:
            fields.setdefault(row.name, set()).add(row.field)
    for name, there in fields.items():
        if len(there) > 1:
            unreadable |= dict.fromkeys(there, f'files without field ids mean several columns by "{name}"')
    return FileNames(_mapping(rows, {(row.mapping, None) for row in rows}), unreadable)


def _mapping(rows: Sequence[_Name], parents: set[tuple[int, int | None]]) -> list[dict[str, Any]]:
    """The fields in these parents, each of a mapping of its own."""
    by_field: dict[int, list[_Name]] = {}
    for row in rows:
        if (row.mapping, row.parent) in parents and not row.in_path:
            by_field.setdefault(row.field, []).append(row)
    found = []
    for field, same in by_field.items():
        made: dict[str, Any] = {"field-id": field, "names": sorted({row.name for row in same})}
        inner = _mapping(rows, {(row.mapping, row.column) for row in same})
        found.append(made | {"fields": inner} if inner else made)
    return found
