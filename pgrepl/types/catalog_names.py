"""Types whose text names a catalog object (reg*) or roles (aclitem); the style's `lookup` resolves the names.

Without a lookup only OIDs, `-` (0) and the names of built-in types and functions (regtype, regproc) are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgrepl.ground.errors import PgError
from pgrepl.types import oids
from pgrepl.types.builtin import element_type, proc_by_oid, procs_by_name, type_by_name, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.numbers import read_oid
from pgrepl.types.style import TextStyle

_REG = (
    oids.REGPROC, oids.REGPROCEDURE, oids.REGOPER, oids.REGOPERATOR, oids.REGCLASS, oids.REGTYPE, oids.REGROLE,
    oids.REGNAMESPACE, oids.REGCOLLATION, oids.REGCONFIG, oids.REGDICTIONARY,
)  # fmt: skip


def _reader(typoid: int) -> Callable[[str, int, TextStyle], int]:
    """How a type such as regclass reads a text: `-` is none, digits are an OID (parseDashOrOid), all else a name."""

    def read(text: str, typmod: int, style: TextStyle) -> int:
        if text == "-":
            return 0
        if text[:1].isdigit() and text.strip("0123456789") == "":
            return read_oid(text)
        if style.lookup is not None:
            return style.lookup.oid_of(typoid, text)
        return _builtin_oid(typoid, text)

    return read


def _writer(typoid: int) -> Callable[[int, TextStyle], str]:
    def write(oid: int, style: TextStyle) -> str:
        if oid == 0:
            return "-" if typoid != oids.REGOPER and typoid != oids.REGOPERATOR else "0"
        if style.lookup is not None:
            return style.lookup.text_of(typoid, oid)
        return _builtin_text(typoid, oid)

    return write


def _builtin_oid(typoid: int, text: str) -> int:
    if typoid == oids.REGTYPE:
        found = type_by_name(text)
        if found is None:
            raise PgError("42704", f'type "{text}" does not exist')
        return found.oid
    if typoid == oids.REGPROC:
        procs = procs_by_name(text)
        if not procs:
            raise PgError("42883", f'function "{text}" does not exist')
        if len(procs) > 1:
            raise PgError("42725", f'more than one function named "{text}"')
        return procs[0].oid
    return read_oid(text)


def _builtin_text(typoid: int, oid: int) -> str:
    if typoid == oids.REGTYPE and type_by_oid(oid) is not None:
        return format_type(oid)
    if typoid == oids.REGPROC and (proc := proc_by_oid(oid)) is not None:
        return proc.name
    return str(oid)


def _read_aclitem(text: str, typmod: int, style: TextStyle) -> str:
    return text


READ: dict[int, Callable[[str, int, TextStyle], Any]] = {
    **{typoid: _reader(typoid) for typoid in _REG},
    oids.ACLITEM: _read_aclitem,
}
WRITE: dict[int, Callable[[Any, TextStyle], str]] = {
    **{typoid: _writer(typoid) for typoid in _REG},
    oids.ACLITEM: lambda value, style: str(value),
}


def asks_catalog(typoid: int) -> bool:
    """Whether reading or writing a value of the type needs the catalog: it names an object, or the type is in none of
    PostgreSQL's own catalogs."""
    return typoid >= _FIRST_OF_USERS or typoid in READ or element_type(typoid) in READ


_FIRST_OF_USERS = 16384  # FirstNormalObjectId
