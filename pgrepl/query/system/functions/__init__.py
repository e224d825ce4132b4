"""Functions that only the catalog can answer: pg_get_expr, obj_description, has_table_privilege, current_schemas …

Each module registers implementations with `expr.functions.implements`, under the prosrc PostgreSQL has for them;
`expr.functions` names the modules.
"""
