"""The relations that a pattern matches."""

from __future__ import annotations

from collections.abc import Container

from pgrepl.catalog.namespace import schema_or_none
from pgrepl.catalog.relation import Relation, relation, relation_is_visible, relations_named
from pgrepl.catalog.session import Session
from pgrepl.shell.describe.patterns import NamePattern


def matching_relations(session: Session, pattern: NamePattern | None, kinds: Container[str]) -> list[Relation]:
    """The matching relations by schema and name. Without a schema in the pattern, or without a pattern, only visible
    ones."""
    found = [relation(session, oid) for oid, kind in _candidates(session, pattern) if kind in kinds or kind == "?"]
    chosen = []
    for one in found:
        if one.kind not in kinds:
            continue
        if pattern is not None:
            if not pattern.name.matches(one.name):
                continue
            if pattern.schema is not None and not pattern.schema.matches(one.schema):
                continue
        if (pattern is None or pattern.schema is None) and not relation_is_visible(session, one):
            continue
        chosen.append(one)
    return sorted(chosen, key=lambda r: (r.schema, r.name))


def _candidates(session: Session, pattern: NamePattern | None) -> list[tuple[int, str]]:
    """(OID, kind) of the relations that may match, by name if the pattern is an exact name."""
    namespace = None
    name = pattern.name.literal if pattern is not None else None
    schema = pattern.schema.literal if pattern is not None and pattern.schema is not None else None
    if schema is not None:
        namespace = schema_or_none(session, schema)
        if namespace is None:
            return []
    listed = relations_named(session, name, namespace.oid if namespace is not None else None)
    found = [(row.oid, row.relkind) for row in listed]
    if _may_be_system(pattern):
        found += [(r.oid, r.kind) for r in session.system_relations()]
    return found


def _may_be_system(pattern: NamePattern | None) -> bool:
    """Can the pattern match a system relation? If not, their long list is not read."""
    if pattern is None:
        return True
    if pattern.schema is not None:
        return pattern.schema.matches("pg_catalog") or pattern.schema.matches("information_schema")
    return pattern.name.literal is None or pattern.name.literal.startswith("pg_")
