"""Access methods and operator classes: the order or equality of an index, a partition key or a foreign key."""

from __future__ import annotations

from functools import lru_cache

from pgrepl.catalog.namespace import explicit_schema
from pgrepl.catalog.session import Session
from pgrepl.errors import PgError
from pgrepl.expr.casts import is_binary_coercible
from pgrepl.expr.opclasses import default_opclass
from pgrepl.frozen import frozen
from pgrepl.types.builtin import (
    AccessMethod,
    OpClass,
    access_method_by_name,
    opclasses,
)
from pgrepl.types.names import format_type


@frozen
class Abilities:
    """The abilities of an access method, as in its IndexAmRoutine."""

    order: bool = False
    unique: bool = False
    multicolumn: bool = False
    include: bool = False


ABILITIES = {
    "btree": Abilities(order=True, unique=True, multicolumn=True, include=True),
    "hash": Abilities(),
    "gist": Abilities(multicolumn=True, include=True),
    "gin": Abilities(multicolumn=True),
    "spgist": Abilities(include=True),
    "brin": Abilities(multicolumn=True),
}


def index_access_method(name: str) -> AccessMethod:
    found = access_method_by_name(name)
    if found is None:
        raise PgError("42704", f'access method "{name}" does not exist')
    if found.type != "i":
        raise PgError("55000", f'access method "{name}" is not of type INDEX')
    return found


@lru_cache(maxsize=512)
def default_opclass_oid(type_: int, method: int) -> int:
    """The operator class a type has by default; 0: none."""
    found = default_opclass(type_, method)
    return found.oid if found is not None else 0


def resolve_opclass(session: Session, names: tuple[str, ...], type_: int, method: AccessMethod) -> int:
    """The named operator class, or the default one, as ResolveOpClass does."""
    if not names:
        oid = default_opclass_oid(type_, method.oid)
        if not oid:
            raise PgError(
                "42704",
                f'data type {format_type(type_)} has no default operator class for access method "{method.name}"',
                hint="You must specify an operator class for the index or define a default operator class for the "
                "data type.",
            )
        return oid
    opclass = find_opclass(session, names, method)
    if not is_binary_coercible(type_, opclass.intype):
        raise PgError("42804", f'operator class "{".".join(names)}" does not accept data type {format_type(type_)}')
    return opclass.oid


def find_opclass(session: Session, names: tuple[str, ...], method: AccessMethod) -> OpClass:
    if len(names) > 1:
        explicit_schema(session, names[-2])
    if len(names) == 1 or (len(names) == 2 and names[0] == "pg_catalog"):
        for opclass in opclasses:
            if opclass.method == method.oid and opclass.name == names[-1]:
                return opclass
    raise PgError("42704", f'operator class "{".".join(names)}" does not exist for access method "{method.name}"')
