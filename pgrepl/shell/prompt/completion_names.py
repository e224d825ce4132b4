"""The names that the catalog has for the word at the cursor, by kind, quoted where SQL needs quotes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from pgrepl.catalog.facts.namespace import routine_rows, schemas, search_path
from pgrepl.catalog.facts.publication import publications
from pgrepl.catalog.facts.relation import find_relation, relations_named
from pgrepl.catalog.facts.relation_parts import foreign_keys_to
from pgrepl.catalog.facts.roles import databases, roles
from pgrepl.catalog.facts.subscription import subscriptions
from pgrepl.catalog.facts.triggers import all_triggers
from pgrepl.catalog.facts.user_types import type_rows
from pgrepl.catalog.session.parameters import all_parameters, find
from pgrepl.ground.frozen import frozen
from pgrepl.shell.prompt.completion_words import Named, named_relations, output_names, parts, plain, with_queries
from pgrepl.sql.keywords import quote_identifier
from pgrepl.sql.nodes import RangeVar
from pgrepl.types import oids
from pgrepl.types.builtin import aggregates, amprocs, casts, operators, procs_of, types
from pgrepl.types.input_checks import NAMES as encodings

if TYPE_CHECKING:
    from pgrepl.catalog.facts.relation import Relation
    from pgrepl.catalog.session.session import Session

_DEEPEST = 5  # queries in queries
_PLAIN = re.compile(r"[a-z][a-z0-9_]*")
_EXAMPLES = {
    "datestyle": (
        "ISO, DMY",
        "ISO, MDY",
        "ISO, YMD",
        "German",
        "Postgres, DMY",
        "Postgres, MDY",
        "SQL, DMY",
        "SQL, MDY",
    ),
    "client_encoding": ("UTF8", "LATIN1", "SQL_ASCII"),
}
_SQL_TYPES = (
    *("bigint", "boolean", "character varying", "double precision", "integer", "numeric", "real", "smallint"),
    *("timestamp with time zone", "timestamp without time zone", "time with time zone"),
)


@frozen
class Asked:
    """The word at the cursor, and the statement around it."""

    current: str
    words: Sequence[str]  # before the cursor
    before: Sequence[Named]  # the relations that are named there
    relations: Sequence[Named]  # those of the whole statement
    with_queries: Sequence[Named] = ()


Names = Callable[["Session", Asked], list[str]]


def _databases(session: Session, asked: Asked) -> list[str]:
    return [quote_identifier(row.datname) for row in databases(session)]


def _publications(session: Session, asked: Asked) -> list[str]:
    return [quote_identifier(row.pubname) for row in publications(session)]


def _roles(session: Session, asked: Asked) -> list[str]:
    return [quote_identifier(row.rolname) for row in roles(session)]


def _schemas(session: Session, asked: Asked) -> list[str]:
    return [quote_identifier(row.nspname) for row in schemas(session)]


def _subscriptions(session: Session, asked: Asked) -> list[str]:
    return [quote_identifier(row.subname) for row in subscriptions(session)]


def _relations(kinds: str) -> Names:
    def names(session: Session, asked: Asked) -> list[str]:
        """Unqualified names of visible relations; qualified names once a schema is typed."""
        schema_names = {row.oid: str(row.nspname) for row in schemas(session)}
        visible = set(search_path(session))
        out: list[str] = []
        if asked.current and "." not in asked.current:
            out += [f"{quote_identifier(schema)}." for schema in schema_names.values()]
        for row in relations_named(session):
            if row.relkind in kinds:
                name = quote_identifier(str(row.relname))
                if "." in asked.current:
                    out.append(f"{quote_identifier(schema_names.get(row.relnamespace, ''))}.{name}")
                elif row.relnamespace in visible:
                    out.append(name)
        for relation in session.system_relations() if asked.current else ():
            if relation.kind in kinds:
                out.append(f"{relation.schema}.{relation.name}" if "." in asked.current else relation.name)
        return out

    return names


def _relation(session: Session, name: str) -> Relation | None:
    """The relation that a word of the statement names."""
    given = parts(name)
    if not 1 <= len(given) <= 2:
        return None
    return find_relation(session, RangeVar(given[-1], given[0] if len(given) == 2 else None), missing_ok=True)


def _shown(rel: Relation) -> list[str]:
    """The columns that `*` stands for: a system catalog's without those that only a later release has."""
    return [quote_identifier(column.name) for column in rel.columns if column.expands]


def _columns_of(session: Session, named: Named, inner: Sequence[Named], depth: int = 0) -> list[str]:
    """The columns of a table, of a query of WITH (one of `inner`), or of one in FROM."""
    query = named if named.query else next((cte for cte in inner if plain(cte.name) == plain(named.name)), None)
    if query is None or depth > _DEEPEST:
        rel = _relation(session, named.name) if named.name else None
        return [] if rel is None else _shown(rel)
    if query.columns:
        return list(query.columns)
    known = [*with_queries(query.query), *[cte for cte in inner if cte is not query]]
    out = []
    for name in output_names(query.query):
        if not name.endswith("*"):
            out.append(name)
            continue
        for source in named_relations(query.query):
            if name == "*" or plain(source.alias) == plain(name[:-2]):
                out += _columns_of(session, source, known, depth + 1)
    return out


def _columns(session: Session, asked: Asked) -> list[str]:
    """The columns of the relations that the statement names; of one of them behind its alias, or its name, and a point.
    Those that are listed already in the parentheses of INSERT are left out."""
    qualifier, point, _ = asked.current.rpartition(".")
    listed = set[str]() if point else _listed(asked.words)
    out: list[str] = []
    if plain(qualifier) == "excluded" and asked.relations:  # the row that is to be inserted
        return [f"{qualifier}.{name}" for name in _columns_of(session, asked.relations[0], ())]
    for named in asked.relations:
        if point and plain(named.alias) != plain(qualifier) and parts(named.name) != parts(qualifier):
            continue
        names = _columns_of(session, named, asked.with_queries)
        out += [f"{qualifier}.{name}" if point else name for name in names if name not in listed]
    return out


def _listed(words: Sequence[str]) -> set[str]:
    """The columns of INSERT INTO t (…, or of another list of columns."""
    start = max((at for at, word in enumerate(words) if word == "("), default=-1)
    is_list = start >= 2 and ")" not in words[start:] and words[start - 2].upper() in ("COPY", "INTO", "TABLE")
    return set(words[start + 1 :]) if is_list else set()


def _aliases(session: Session, asked: Asked) -> list[str]:
    """The names that columns may be qualified with, where the statement names several relations."""
    return [f"{named.alias}." for named in asked.relations] if len(asked.relations) > 1 else []


def _conditions(session: Session, asked: Asked) -> list[str]:
    """Conditions for JOIN … ON: foreign keys between the last relation and those before it, or columns of one name."""
    known = [(named, rel) for named in asked.before if (rel := _relation(session, named.name)) is not None]
    if not known:
        return []
    *others, (last, joined) = known
    keys, alike = [], []
    for other, table in others:
        for one, its, two, theirs in ((table, other, joined, last), (joined, last, table, other)):
            for key in foreign_keys_to(session, one.oid):
                if key.conrelid == two.oid:
                    pairs = zip(key.confkey or (), key.conkey or (), strict=True)
                    keys.append(" AND ".join(_equal(its, one, a, theirs, two, b) for a, b in pairs))
        names = {column.name: column.num for column in table.columns}
        alike += [_equal(other, table, names[c.name], last, joined, c.num) for c in joined.columns if c.name in names]
    return keys or alike


def _shared(session: Session, asked: Asked) -> list[str]:
    """The columns for JOIN … USING: those that the last relation and another one have."""
    rels = [rel for named in asked.before if (rel := _relation(session, named.name)) is not None]
    others = {column.name for relation in rels[:-1] for column in relation.columns}
    return [quote_identifier(column.name) for column in rels[-1].columns if column.name in others] if rels else []


def _equal(one: Named, its: Relation, a: int, two: Named, theirs: Relation, b: int) -> str:
    left, right = its.attributes[a - 1].name, theirs.attributes[b - 1].name
    return f"{one.alias}.{quote_identifier(left)} = {two.alias}.{quote_identifier(right)}"


def _routines(session: Session, asked: Asked) -> list[str]:
    """Functions and procedures of users."""
    return [quote_identifier(row.proname) for row in routine_rows(session)]


def _functions(session: Session, asked: Asked) -> list[str]:
    if not asked.current or "." in asked.current or '"' in asked.current:
        return []
    own = {f"{quote_identifier(row.proname)}(" for row in routine_rows(session) if row.prokind == "f"}
    return sorted(own.union(*_called(session.settings.release)))


def _set_functions(session: Session, asked: Asked) -> list[str]:
    """Functions that give rows, for FROM."""
    if "." in asked.current:
        return []
    own = {f"{quote_identifier(row.proname)}(" for row in routine_rows(session) if row.proretset}
    return sorted(own | _called(session.settings.release)[1])


@cache
def _called(release: int) -> tuple[frozenset[str], frozenset[str]]:
    """The functions that are called by name, and those of them that give rows: without those that carry out an
    operator, a cast, an aggregate, an index or a type."""
    inner = {row.code for row in operators} | {row.proc for row in amprocs} | {row.func for row in casts}
    inner |= {function for row in aggregates for function in (row.transfn, row.finalfn)}
    of_types = {name for type_ in types for name in (type_.input, type_.output, type_.receive, type_.send)}
    pseudo = {oids.INTERNAL, oids.CSTRING, oids.TRIGGER}
    procs = [
        proc
        for proc in procs_of(release)
        if _PLAIN.fullmatch(proc.name)
        and (proc.oid not in inner or proc.name in _NAMED)
        and proc.name not in of_types
        and not pseudo.intersection((*proc.argtypes, proc.rettype))
    ]
    return frozenset(f"{proc.name}(" for proc in procs), frozenset(f"{proc.name}(" for proc in procs if proc.retset)


_NAMED = {"array_append", "array_cat", "array_prepend", "date", "starts_with", "to_tsvector"}


def _types(session: Session, asked: Asked) -> list[str]:
    own = [*_own_types("ed")(session, asked), *_relations("c")(session, asked)]
    known = {type_.name for type_ in types if type_.typtype in "brm" and _PLAIN.fullmatch(type_.name)}
    return sorted({*_SQL_TYPES, *own, *(name for name in known if not name.startswith("pg_"))})


def _own_types(kinds: str) -> Names:
    """Enums (e) or domains (d): unqualified names of visible ones; qualified names once a schema is typed."""

    def names(session: Session, asked: Asked) -> list[str]:
        schema_names = {row.oid: quote_identifier(str(row.nspname)) for row in schemas(session)}
        visible = set(search_path(session))
        rows = [row for row in type_rows(session) if row.typtype in kinds and not row.typelem]
        if "." in asked.current:
            return [f"{schema_names.get(row.typnamespace, '')}.{quote_identifier(row.typname)}" for row in rows]
        return [quote_identifier(row.typname) for row in rows if row.typnamespace in visible]

    return names


def _enums_and_composites(session: Session, asked: Asked) -> list[str]:
    return sorted({*_own_types("e")(session, asked), *_relations("c")(session, asked)})


def _triggers(session: Session, asked: Asked) -> list[str]:
    return sorted({quote_identifier(trigger.name) for trigger in all_triggers(session) if not trigger.is_internal})


def _values(session: Session, asked: Asked) -> list[str]:
    """The values of the setting of SET … TO."""
    words = [word for word in asked.words if word.upper() not in ("TO", "=")]
    parameter = find(words[-1]) if words else None
    if parameter is None:
        return []
    if parameter.key == "search_path":
        return _schemas(session, asked)
    if parameter.key == "timezone":
        return _time_zones(session, asked)
    quoted = asked.current.startswith("'")
    listed = ("on", "off") if parameter.vartype == "bool" else parameter.options or _EXAMPLES.get(parameter.key, ())
    return [value if _PLAIN.fullmatch(value) and not quoted else f"'{value}'" for value in listed]


def _time_zones(session: Session, asked: Asked) -> list[str]:
    return [f"'{name}'" for name in _known_zones()]


@cache
def _known_zones() -> list[str]:
    """The names of zones: each look opens the files of all of them."""
    return sorted(available_timezones())


def _encodings(session: Session, asked: Asked) -> list[str]:
    return list(encodings) if asked.words[:1] == ["encoding"] else [f"'{name}'" for name in encodings]


def _prepared(session: Session, asked: Asked) -> list[str]:
    return sorted(quote_identifier(name) for name in session.prepared)


def _cursors(session: Session, asked: Asked) -> list[str]:
    return sorted(quote_identifier(name) for name in session.transaction.portals if name)


def _savepoints(session: Session, asked: Asked) -> list[str]:
    return [quote_identifier(savepoint.name) for savepoint in session.transaction.savepoints]


def _with_queries(session: Session, asked: Asked) -> list[str]:
    return [named.name for named in asked.with_queries]


def _qualified_columns(session: Session, asked: Asked) -> list[str]:
    """`table.column`, for COMMENT ON COLUMN."""
    name, point, _ = asked.current.rpartition(".")
    rel = _relation(session, name) if point else None
    if rel is None:
        return [f"{table}." for table in _relations("rvpmf")(session, asked) if not table.endswith(".")]
    return [f"{name}.{column}" for column in _shown(rel)]


def _channels(session: Session, asked: Asked) -> list[str]:
    notifications = session.transaction.notifications
    return [] if notifications is None else [quote_identifier(name) for name in notifications.channels]


def _settings(session: Session, asked: Asked) -> list[str]:
    return sorted([parameter.name for parameter in all_parameters()] + session.settings.custom_names())


NAMES: dict[str, Names] = {
    "<alias>": _aliases,
    "<channel>": _channels,
    "<column>": _columns,
    "<condition>": _conditions,
    "<cursor>": _cursors,
    "<database>": _databases,
    "<domain>": _own_types("d"),
    "<encoding>": _encodings,
    "<function>": _functions,
    "<index>": _relations("iI"),
    "<matview>": _relations("m"),
    "<routine>": _routines,
    "<prepared>": _prepared,
    "<publication>": _publications,
    "<qualified column>": _qualified_columns,
    "<relation>": _relations("rvpmS"),
    "<role>": _roles,
    "<savepoint>": _savepoints,
    "<schema>": _schemas,
    "<sequence>": _relations("S"),
    "<set function>": _set_functions,
    "<setting>": _settings,
    "<shared>": _shared,
    "<subscription>": _subscriptions,
    "<table>": _relations("rp"),
    "<time zone>": _time_zones,
    "<trigger>": _triggers,
    "<type>": _types,
    "<own type>": _enums_and_composites,
    "<value>": _values,
    "<view>": _relations("v"),
    "<with>": _with_queries,
}
