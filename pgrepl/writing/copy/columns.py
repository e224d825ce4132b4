"""The columns that COPY copies, and those that an option names."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.relation import Attribute, Relation
from pgrepl.errors import PgError
from pgrepl.writing.copy.copy_options import Names


def copied_columns(found: Relation, names: Sequence[str]) -> list[Attribute]:
    """The columns in the list, or all; generated ones are neither copied out nor in (CopyGetAttnums)."""
    if not names:
        return [a for a in found.columns if not a.generated]
    _check(names, found, ())
    by_name = {a.name: a for a in found.columns}
    return [by_name[name] for name in names]


def forced(option: str, names: Names, copied: Sequence[str], found: Relation | None) -> list[bool]:
    """For each copied column, whether the option (FORCE_QUOTE and its like) names it."""
    if names == "*":
        return [True] * len(copied)
    _check(names, found, copied)
    for name in names:
        if name not in copied:
            raise PgError("42P10", f'{option} column "{name}" not referenced by COPY')
    return [name in names for name in copied]


def _check(names: Sequence[str], found: Relation | None, columns: Sequence[str]) -> None:
    """Each name must be a column of the relation or one of `columns` (those of a query), and occur once."""
    for number, name in enumerate(names):
        attribute = found.attribute(name) if found is not None else None
        if attribute is not None and attribute.generated:
            raise PgError(
                "42P10", f'column "{name}" is a generated column', detail="Generated columns cannot be used in COPY."
            )
        if attribute is None and name not in columns:
            of_relation = f' of relation "{found.name}"' if found is not None else ""
            raise PgError("42703", f'column "{name}"{of_relation} does not exist')
        if name in names[:number]:
            raise PgError("42701", f'column "{name}" specified more than once')
