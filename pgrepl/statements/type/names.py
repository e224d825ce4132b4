"""Look-up of types that a statement names, and who may change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.catalog import tables
from pgrepl.catalog.acl import is_owner
from pgrepl.catalog.user_types import type_display_name, type_row
from pgrepl.errors import PgError
from pgrepl.expr.typefacts import type_text
from pgrepl.expr.typenames import type_name_text, type_of_name
from pgrepl.sql.nodes import TypeName

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def type_of_parts(session: Session, parts: Sequence[str]) -> int:
    """The type of a qualified name."""
    return type_of_name(session, TypeName(tuple(parts)))[0]


def domain_of_parts(session: Session, parts: Sequence[str]) -> tables.pg_type:
    """The domain of a qualified name, which the role must own (checkDomainOwner)."""
    oid = type_of_parts(session, parts)
    return _own_domain(session, oid, type_text(session, oid))


def domain_as_written(session: Session, name: TypeName) -> tables.pg_type:
    """The domain that a statement about any object names, such as COMMENT (get_object_address_type)."""
    return _own_domain(session, type_of_name(session, replace(name, location=-1))[0], f'"{type_name_text(name)}"')


def _own_domain(session: Session, oid: int, text: str) -> tables.pg_type:
    row = type_row(session, oid)
    if row is None or row.typtype != "d":
        raise PgError("42809", f"{text} is not a domain")
    check_type_owner(session, row)
    return row


def check_type_owner(session: Session, row: tables.pg_type) -> None:
    if not is_owner(session, row.typowner):
        raise PgError("42501", f"must be owner of type {type_display_name(session, row)}")
