r"""The queries that `-E` (ECHO_HIDDEN) shows for describe commands: SELECTs for the same facts.

The describe commands themselves use the catalog's look-ups; the queries are for a person to start from.
"""

from __future__ import annotations

from pgrepl.shell.describe.listing import BadPattern, PatternPart, parse_pattern, query_text, where_clause
from pgrepl.shell.describe.publications import COLUMNS, FLAGS, MORE
from pgrepl.shell.shell import quote_literal

_KINDS = {"t": "'r', 'p'", "v": "'v'", "m": "'m'", "i": "'i', 'I'", "s": "'S'", "E": "'f'"}
_INDENT = " " * 6
_NO_SYSTEM = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'"


def hidden_query(kind: str, text: str | None, verbose: bool, system: bool) -> str | None:
    """The query of a command with its pattern; None: the pattern is not valid, or catalog_lists shows the query."""
    try:
        if kind == "" and text is not None:
            return _query("columns", ["a.attnum > 0", "NOT a.attisdropped", *_relation_named(text)])
        if set(kind) <= set(_KINDS):
            kinds = ", ".join(_KINDS[letter] for letter in kind or "tvmsE")
            usual = [_NO_SYSTEM] if text is None and not system else []
            return _query("relations", [f"c.relkind IN ({kinds})", *usual, *_relation_named(text)])
        return _of(kind, text, verbose, system)
    except BadPattern:
        return None


def _matches(column: str, part: PatternPart) -> str:
    if part.literal is not None:
        return f"{column} = {quote_literal(part.literal).lstrip()}"
    return f"{column} ~ {quote_literal(part.regex).lstrip()}"


def _named(column: str, text: str | None, dots: int | None = 0) -> list[str]:
    pattern = parse_pattern(text, qualified=False, dots=dots, database="")
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


def _query(name: str, conditions: list[str]) -> str:
    return query_text("hidden.sql", name).replace("{where}", where_clause(conditions, _INDENT))


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
        publications = f"{columns}\nFROM pg_catalog.pg_publication"
        publications += where_clause(_named("pubname", text), _INDENT) + "\nORDER BY 1;"
        return publications + (f"\n\n{_query('members', _named('p.pubname', text))}" if verbose else "")
    if kind == "Rs":
        columns = _listed("SELECT", [(header, column) for header, column, _ in COLUMNS])
        columns += ",\n" + _listed(" ", [(header, column) for header, column, _ in MORE]) if verbose else ""
        where = where_clause([_HERE, *_named("subname", text)], _INDENT)
        return f"{columns}\nFROM pg_catalog.pg_subscription{where}\nORDER BY 1;"
    if kind == "p":
        usual = ["n.nspname NOT IN ('pg_catalog', 'information_schema')"] if text is None and not system else []
        return _query("p", ["c.relkind IN ('r', 'v', 'm', 'S', 'f', 'p')", *usual, *_relation_named(text)])
    if kind == "dp":
        pattern = parse_pattern(text, dots=2, database="")
        names = ("n.nspname", "pg_catalog.pg_get_userbyid(d.defaclrole)")
        named = [] if pattern is None else [f"({' OR '.join(_matches(column, pattern.name) for column in names)})"]
        return _query("dp", named)
    if kind not in _BY_NAME:
        return None
    by_name, hidden = _BY_NAME[kind]
    hides = text is None and (kind == "config" or not system)
    named = _named(by_name, text, dots=None if kind == "config" else 0)
    return _query("u" if kind == "g" else kind, (hidden if hides else []) + named)


_NO_PREDEFINED = ["r.rolname !~ '^pg_'"]
_BY_NAME: dict[str, tuple[str, list[str]]] = {  # the column of the name, and conditions without a pattern
    "databases": ("datname", []),
    "n": ("nspname", ["nspname !~ '^pg_'", "nspname <> 'information_schema'"]),
    "u": ("r.rolname", _NO_PREDEFINED),
    "g": ("r.rolname", _NO_PREDEFINED),
    "config": ("pg_catalog.lower(s.name)", ["s.source <> 'default'", "s.setting IS DISTINCT FROM s.boot_val"]),
    "rg": ("r.rolname", _NO_PREDEFINED),
    "rds": ("r.rolname", []),
}
