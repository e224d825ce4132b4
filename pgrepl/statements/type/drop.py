"""DROP TYPE and DROP DOMAIN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.acl import is_owner
from pgrepl.catalog.classes import BOOTSTRAP_SUPERUSER, PG_CLASS, PG_TYPE, ObjectAddress
from pgrepl.catalog.namespace import schema_or_none, schema_row
from pgrepl.catalog.objects import describe_object
from pgrepl.catalog.row_types import rowtype_relation
from pgrepl.catalog.user_types import type_row
from pgrepl.errors import PgError
from pgrepl.expr.typefacts import type_text
from pgrepl.expr.typenames import type_name_text, type_of_name_or_none
from pgrepl.query.result import Result
from pgrepl.sql.nodes import DropTypeStmt, ObjectType, TypeName
from pgrepl.statements.deletion import drop_objects
from pgrepl.types.builtin import element_type, type_by_oid
from pgrepl.types.row_arrays import RowArray

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session


def drop_types(stmt: DropTypeStmt, session: Session) -> Result:
    """As RemoveObjects does for types and domains."""
    refused: list[PgError] = []
    doomed = [oid for name in stmt.types if (oid := _found(session, stmt, name, refused))]
    if refused:
        raise refused[0]
    addresses = list(dict.fromkeys(ObjectAddress(PG_TYPE, int(oid)) for oid in doomed))
    drop_objects(session, addresses, cascade=stmt.cascade)
    return Result(f"DROP {stmt.kind.value.upper()}")


def _found(session: Session, stmt: DropTypeStmt, name: TypeName, refused: list[PgError]) -> int:
    """`refused` takes the error of a type that another object requires, which comes after those of all names."""
    if stmt.missing_ok and len(name.names) > 1 and schema_or_none(session, name.names[-2]) is None:
        session.notice("NOTICE", f'schema "{name.names[-2]}" does not exist, skipping')
        return 0
    oid = type_of_name_or_none(session, name)
    if oid is None:
        if not stmt.missing_ok:
            raise PgError("42704", f'type "{type_name_text(name)}" does not exist')
        session.notice("NOTICE", f'type "{type_name_text(name)}" does not exist, skipping')
        return 0
    kind = type_by_oid(oid)
    if stmt.kind is ObjectType.DOMAIN and (kind is None or kind.typtype != "d"):
        raise PgError("42809", f'"{type_name_text(name)}" is not a domain')
    row = type_row(session, oid)
    if row is not None:
        owner, namespace = row.typowner, row.typnamespace
    else:
        row_type = element_type(oid) if isinstance(oid, RowArray) else oid
        table = rowtype_relation(session, row_type)
        text = type_text(session, oid)
        if row_type != oid:
            refused.append(_required(text, f"type {type_text(session, row_type)}"))
        elif table is not None and not table.is_system:
            refused.append(_required(text, describe_object(session, ObjectAddress(PG_CLASS, table.oid))))
        owner = BOOTSTRAP_SUPERUSER if table is None else table.owner
        namespace = 0 if table is None else table.namespace
    schema = schema_row(session, namespace)
    if not is_owner(session, owner) and (schema is None or not is_owner(session, schema.nspowner)):
        raise PgError("42501", f"must be owner of type {type_text(session, oid)}")
    return oid


def _required(text: str, whole: str) -> PgError:
    return PgError(
        "2BP01", f"cannot drop type {text} because {whole} requires it", hint=f"You can drop {whole} instead."
    )
