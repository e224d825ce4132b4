"""The WITH and SET options of a publication: which operations it publishes, and as which table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.errors import PgError
from pgrepl.sql.def_elem import conflicting, get_boolean, get_string
from pgrepl.sql.nodes import DefElem

OPERATIONS = ("insert", "update", "delete", "truncate")


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """None where the option was not given."""

    operations: frozenset[str] | None = None
    via_root: bool | None = None

    def operation_columns(self) -> dict[str, bool]:
        """The columns of pg_publication that `publish` decides: all operations where it was not given."""
        published = frozenset(OPERATIONS) if self.operations is None else self.operations
        return {f"pub{operation}": operation in published for operation in OPERATIONS}


def parse_publication_options(options: Sequence[DefElem]) -> PublicationOptions:
    operations: frozenset[str] | None = None
    via_root: bool | None = None
    for option in options:
        if option.name == "publish":
            if operations is not None:
                conflicting(option)
            operations = _operations(get_string(option))
        elif option.name == "publish_via_partition_root":
            if via_root is not None:
                conflicting(option)
            via_root = get_boolean(option)
        else:
            raise PgError("42601", f'unrecognized publication parameter: "{option.name}"')
    return PublicationOptions(operations, via_root)


def _operations(listed: str) -> frozenset[str]:
    names = split_identifiers(listed)
    if names is None:
        raise PgError("42601", 'invalid list syntax in parameter "publish"')
    for name in names:
        if name not in OPERATIONS:
            raise PgError("42601", f'unrecognized value for publication option "publish": "{name}"')
    return frozenset(names)
