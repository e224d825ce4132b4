r"""The queries that `-E` (ECHO_HIDDEN) shows for describe commands: SELECTs for the same facts.

The describe commands themselves use the catalog's look-ups; the queries are for a person to start from.
"""

from __future__ import annotations

from pgrepl.shell.describe.listing import BadPattern, PatternPart, parse_pattern
from pgrepl.shell.describe.publications import COLUMNS, FLAGS, MORE
from pgrepl.shell.shell import quote_literal

_KINDS = {"t": "'r', 'p'", "v": "'v'", "m": "'m'", "i": "'i', 'I'", "s": "'S'", "E": "'f'"}
_KIND_WORDS = (
    "CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' "
    "WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' "
    "WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END"
)
_FROM_RELATIONS = "FROM pg_catalog.pg_class c\n     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
_NO_SYSTEM = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'"


def hidden_query(command: str, text: str | None) -> str | None:
    """The query of a command with its pattern; None: the pattern is not valid, or catalog_lists shows the query."""
    verbose, system = "+" in command, "S" in command
    word = command.replace("+", "").replace("S", "")
    kind = "databases" if word in ("l", "list") else "p" if word == "z" else word[1:]
    try:
        if kind == "" and text is not None:
            return _columns(text)
        if set(kind) <= set(_KINDS):
            return _relations(kind or "tvmsE", text, system)
        return _of(kind, text, verbose, system)
    except BadPattern:
        return None


def _matches(column: str, part: PatternPart) -> str:
    if part.literal is not None:
        return f"{column} = {quote_literal(part.literal).lstrip()}"
    return f"{column} ~ {quote_literal(part.regex).lstrip()}"


def _where(conditions: list[str]) -> str:
    return "\nWHERE " + "\n      AND ".join(conditions) if conditions else ""


def _named(column: str, text: str | None) -> list[str]:
    pattern = parse_pattern(text, qualified=False, database="")
    return [] if pattern is None else [_matches(column, pattern.name)]


def _relation_named(text: str | None) -> list[str]:
    pattern = None if text is None else parse_pattern(text, qualified=True, database="")
    conditions = []
    if pattern is not None:
        conditions.append(_matches("c.relname", pattern.name))
    if pattern is not None and pattern.schema is not None:
        conditions.append(_matches("n.nspname", pattern.schema))
    else:
        conditions.append("pg_catalog.pg_table_is_visible(c.oid)")
    return conditions


def _relations(letters: str, text: str | None, system: bool) -> str:
    kinds = ", ".join(_KINDS[letter] for letter in letters)
    conditions = [f"c.relkind IN ({kinds})"]
    if text is None and not system:
        conditions.append(_NO_SYSTEM)
    columns = (
        f'SELECT n.nspname AS "Schema", c.relname AS "Name",\n  {_KIND_WORDS} AS "Type",\n'
        '  pg_catalog.pg_get_userbyid(c.relowner) AS "Owner"'
    )
    return f"{columns}\n{_FROM_RELATIONS}{_where(conditions + _relation_named(text))}\nORDER BY 1, 2;"


def _columns(text: str) -> str:
    return (
        'SELECT n.nspname AS "Schema", c.relname AS "Name", a.attname AS "Column",\n'
        '  pg_catalog.format_type(a.atttypid, a.atttypmod) AS "Type", a.attnotnull AS "Not null",\n'
        '  pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) AS "Default"\n'
        f"{_FROM_RELATIONS}\n     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid\n"
        "     LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        + _where(["a.attnum > 0", "NOT a.attisdropped", *_relation_named(text)])
        + "\nORDER BY 1, 2, a.attnum;"
    )


_MEMBERS = (
    'SELECT p.pubname AS "Name", n.nspname AS "Schema", c.relname AS "Table", pr.prattrs AS "Columns",\n'
    '  pg_catalog.pg_get_expr(pr.prqual, c.oid) AS "Where"\nFROM pg_catalog.pg_publication p\n'
    "     JOIN pg_catalog.pg_publication_rel pr ON pr.prpubid = p.oid\n"
    "     JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid\n"
    "     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
)
_HERE = "subdbid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())"


def _listed(start: str, columns: list[tuple[str, str]]) -> str:
    """Columns with their headers, in lines."""
    words = [f'{column} AS "{header}"' for header, column in columns]
    lines = [f"{start} {words[0]}"]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > 108:
            lines.append(f"  {word}")
        else:
            lines[-1] += f", {word}"
    return ",\n".join(lines)


def _of(kind: str, text: str | None, verbose: bool, system: bool) -> str | None:
    if kind == "Rp":
        columns = _listed("SELECT", [("Name", "pubname"), *((header, column) for header, column, _ in FLAGS)])
        publications = f"{columns}\nFROM pg_catalog.pg_publication" + _where(_named("pubname", text)) + "\nORDER BY 1;"
        return publications + (
            f"\n\n{_MEMBERS}{_where(_named('p.pubname', text))}\nORDER BY 1, 2, 3;" if verbose else ""
        )
    if kind == "Rs":
        columns = _listed("SELECT", [(header, column) for header, column, _ in COLUMNS])
        columns += ",\n" + _listed(" ", [(header, column) for header, column, _ in MORE]) if verbose else ""
        return f"{columns}\nFROM pg_catalog.pg_subscription{_where([_HERE, *_named('subname', text)])}\nORDER BY 1;"
    if kind == "databases":
        return (
            'SELECT datname AS "Name", pg_catalog.pg_get_userbyid(datdba) AS "Owner",\n'
            '  pg_catalog.pg_encoding_to_char(encoding) AS "Encoding", datcollate AS "Collate", datctype AS "Ctype",\n'
            '  datacl AS "Access privileges"\nFROM pg_catalog.pg_database'
            + _where(_named("datname", text))
            + "\nORDER BY 1;"
        )
    if kind == "n":
        usual = [] if system or text is not None else ["nspname !~ '^pg_'", "nspname <> 'information_schema'"]
        return (
            'SELECT nspname AS "Name", pg_catalog.pg_get_userbyid(nspowner) AS "Owner"\nFROM pg_catalog.pg_namespace'
            + _where(usual + _named("nspname", text))
            + "\nORDER BY 1;"
        )
    return _of_roles(kind, text, system)


def _of_roles(kind: str, text: str | None, system: bool) -> str | None:
    usual = [] if system or text is not None else ["r.rolname !~ '^pg_'"]
    if kind in ("u", "g"):
        return (
            "SELECT r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole, r.rolcreatedb, r.rolcanlogin,\n"
            "  r.rolconnlimit, r.rolvaliduntil, r.rolreplication, r.rolbypassrls\nFROM pg_catalog.pg_roles r"
            + _where(usual + _named("r.rolname", text))
            + "\nORDER BY 1;"
        )
    if kind == "config":
        changed = ["s.source <> 'default'", "s.setting IS DISTINCT FROM s.boot_val"] if text is None else []
        return (
            'SELECT s.name AS "Parameter", pg_catalog.current_setting(s.name) AS "Value"\nFROM pg_catalog.pg_settings s'
            + _where(changed + _named("pg_catalog.lower(s.name)", text))
            + "\nORDER BY 1;"
        )
    if kind == "rg":
        return (
            'SELECT r.rolname AS "Role name", b.rolname AS "Member of", m.admin_option, m.inherit_option,\n'
            '  m.set_option, g.rolname AS "Grantor"\nFROM pg_catalog.pg_auth_members m\n'
            "     JOIN pg_catalog.pg_roles r ON r.oid = m.member\n     JOIN pg_catalog.pg_roles b ON b.oid = m.roleid\n"
            "     JOIN pg_catalog.pg_roles g ON g.oid = m.grantor"
            + _where(usual + _named("r.rolname", text))
            + "\nORDER BY 1, 2, 6;"
        )
    if kind == "rds":
        return (
            'SELECT r.rolname AS "Role", d.datname AS "Database",\n'
            "  pg_catalog.array_to_string(s.setconfig, E'\\n') AS \"Settings\"\nFROM pg_catalog.pg_db_role_setting s\n"
            "     LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase\n"
            "     LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole"
            + _where(_named("r.rolname", text))
            + "\nORDER BY 1, 2;"
        )
    if kind == "p":
        conditions = ["c.relkind IN ('r', 'v', 'm', 'S', 'f', 'p')"]
        if text is None and not system:
            conditions.append("n.nspname NOT IN ('pg_catalog', 'information_schema')")
        return (
            f'SELECT n.nspname AS "Schema", c.relname AS "Name",\n  {_KIND_WORDS} AS "Type",\n'
            f'  c.relacl AS "Access privileges"\n{_FROM_RELATIONS}'
            + _where(conditions + _relation_named(text))
            + "\nORDER BY 1, 2;"
        )
    return _of_defaults(text) if kind == "dp" else None


def _of_defaults(text: str | None) -> str:
    pattern = parse_pattern(text, dots=2, database="")
    columns = ("n.nspname", "pg_catalog.pg_get_userbyid(d.defaclrole)")
    named = [] if pattern is None else [f"({' OR '.join(_matches(column, pattern.name) for column in columns)})"]
    return (
        'SELECT pg_catalog.pg_get_userbyid(d.defaclrole) AS "Owner", n.nspname AS "Schema",\n'
        "  CASE d.defaclobjtype WHEN 'r' THEN 'table' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'function'\n"
        "    WHEN 'T' THEN 'type' WHEN 'n' THEN 'schema' END AS \"Type\",\n"
        '  d.defaclacl AS "Access privileges"\nFROM pg_catalog.pg_default_acl d\n'
        "     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace" + _where(named) + "\nORDER BY 1, 2, 3;"
    )
