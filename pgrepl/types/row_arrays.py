"""The array types over the row types of tables and views: `'{"(1,x)"}'::t[]`, `array_agg(t)`.

A row type stays a plain OID (types/user_types.py). The OID before it has been reserved for its array type when the
relation was made, so that neither needs the catalog.
"""

from __future__ import annotations

from pgrepl.types.builtin import PgType, array_type, type_by_oid
from pgrepl.types.oids import ANYARRAY, FIRST_USER_OID


class RowArray(int):
    """The OID of such an array type, which knows its row of pg_type, but for name and schema: those are the table's."""

    @property
    def row(self) -> PgType:
        like = type_by_oid(ANYARRAY)
        assert like is not None
        return like._replace(
            oid=int(self), name="", schema="", typtype="b", category="A", elem=int(self) + 1, receive="array_recv",
            send="array_send", input="array_in", output="array_out", analyze="array_typanalyze",
            subscript="array_subscript_handler", align="d", storage="x", array=0,
        )  # fmt: skip

    def __reduce__(self) -> tuple[type[RowArray], tuple[int]]:
        return RowArray, (int(self),)


def is_row_of_table(typoid: int) -> bool:
    return typoid >= FIRST_USER_OID and type_by_oid(typoid) is None


def array_over(typoid: int) -> int:
    """The array type over a type; 0: it has none."""
    return RowArray(typoid - 1) if is_row_of_table(typoid) else array_type(typoid)
