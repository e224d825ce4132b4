"""Properties of types that analysis needs: category, element type, whether it is a row type.

The OID of a user's type knows its description (types/user_types.py), that of an array of a table's rows its element
(types/row_arrays.py); any other OID that is not built in is the row type of a table or a view.
"""

from __future__ import annotations

from pgrepl.catalog.session import Session
from pgrepl.expr import lookup
from pgrepl.types import builtin, oids
from pgrepl.types.names import format_type
from pgrepl.types.row_arrays import array_over, is_row_of_table

__all__ = ["array_over", "is_row_of_table"]

POLYMORPHIC_1 = frozenset(
    {oids.ANYELEMENT, oids.ANYARRAY, oids.ANYNONARRAY, oids.ANYENUM, oids.ANYRANGE, oids.ANYMULTIRANGE}
)
POLYMORPHIC_2 = frozenset(
    {
        oids.ANYCOMPATIBLE,
        oids.ANYCOMPATIBLEARRAY,
        oids.ANYCOMPATIBLENONARRAY,
        oids.ANYCOMPATIBLERANGE,
        oids.ANYCOMPATIBLEMULTIRANGE,
    }
)
POLYMORPHIC = POLYMORPHIC_1 | POLYMORPHIC_2

INVALID_CATEGORY = ""
STRING_CATEGORY = "S"


def type_text(session: Session, oid: int, typmod: int = -1) -> str:
    """As format_type_be and format_type_with_typemod do."""
    oid = session.type_of(oid)
    return format_type(oid, typmod if typmod >= 0 else None, lambda other: lookup.type_name(session, other))


def category(oid: int) -> str:
    found = builtin.type_by_oid(oid)
    return found.category if found is not None else "C"


def is_preferred(slot_category: str, oid: int) -> bool:
    """As IsPreferredType does: INVALID_CATEGORY matches every category."""
    found = builtin.type_by_oid(oid)
    return found is not None and found.preferred and slot_category in (found.category, INVALID_CATEGORY)


def preferred(oid: int) -> bool:
    return is_preferred(INVALID_CATEGORY, oid)


def element(oid: int) -> int:
    """As get_element_type does."""
    return builtin.element_type(oid)


def base_element(oid: int) -> int:
    """As get_base_element_type does: looks through domains."""
    return builtin.element_type(builtin.base_type(oid))


def base(oid: int) -> int:
    return builtin.base_type(oid)


def base_and_typmod(oid: int, typmod: int) -> tuple[int, int]:
    """As getBaseTypeAndTypmod does."""
    found = builtin.type_by_oid(oid)
    while found is not None and found.typtype == "d":
        typmod = found.typmod
        oid = found.basetype
        found = builtin.type_by_oid(oid)
    return oid, typmod


def is_array(oid: int) -> bool:
    return element(oid) != 0


def is_array_domain(oid: int) -> bool:
    return base_element(oid) != 0


def is_enum(oid: int) -> bool:
    found = builtin.type_by_oid(oid)
    return found is not None and found.typtype == "e"


def is_complex(oid: int) -> bool:
    """Whether a type is a named row type, or a domain over one (ISCOMPLEX)."""
    found = builtin.type_by_oid(builtin.base_type(oid))
    if found is None:
        return oid >= oids.FIRST_USER_OID
    return found.typtype == "c"


def is_row(oid: int) -> bool:
    """Whether a type is a row type as type_is_rowtype decides; RECORD is one."""
    return oid == oids.RECORD or is_complex(oid)


def is_complex_array(oid: int) -> bool:
    elem = element(oid)
    return elem != 0 and is_complex(elem)


def collation(oid: int) -> int:
    """The type's default collation; 0: not collatable."""
    found = builtin.type_by_oid(oid)
    return found.collation if found is not None else 0


def is_collatable(oid: int) -> bool:
    return collation(oid) != 0


def range_subtype(oid: int) -> int:
    found = builtin.range_by_oid(oid)
    return found.subtype if found is not None else 0


def multirange_range(oid: int) -> int:
    found = builtin.range_of_multirange(oid)
    return found.oid if found is not None else 0


def range_multirange(oid: int) -> int:
    found = builtin.range_by_oid(oid)
    return found.multirange if found is not None else 0
