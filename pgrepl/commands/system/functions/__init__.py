"""Functions that only the catalog can answer: pg_get_expr, obj_description, has_table_privilege, current_schemas …

Each module registers implementations with `expr.functions.implements`, under the prosrc PostgreSQL has for them.
"""

from pgrepl.expr.functions import add_family

FAMILIES = ("definitions", "names", "privileges", "sequences", "state", "structure")

for _name in FAMILIES:
    add_family(f"{__name__}.{_name}")
add_family("pgrepl.replication.functions")
add_family("pgrepl.replication.messages")
add_family("pgrepl.replication.decoding.functions")
add_family("pgrepl.replication.standby.functions")
