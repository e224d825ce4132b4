r"""The footers of `\d NAME`: partition, indexes, constraints, publications, triggers, inheritance, replica identity."""

from __future__ import annotations

from pgrepl.catalog.constraint import constraints_of, constraints_of_index, foreign_keys_to
from pgrepl.catalog.indexes import index_row, indexes
from pgrepl.catalog.inheritance import children, link, parents, partition_ancestors
from pgrepl.catalog.publication_facts import publications_of_table
from pgrepl.catalog.relation import Relation, display_name, relation
from pgrepl.catalog.session import Session
from pgrepl.catalog.triggers import Trigger, constraint_triggers, triggers_of
from pgrepl.expr.definitions import (
    constraint_definition,
    index_definition,
    partition_bound_text,
    partition_key_definition,
    view_definition,
)
from pgrepl.expr.deparse import stored_expression_text
from pgrepl.expr.trigger_definition import trigger_definition
from pgrepl.shell.describe.publications import member_clauses
from pgrepl.shell.describe.relations import access_method_name

REPLICA_IDENTITY = {"f": "FULL", "n": "NOTHING"}


def footers_of(session: Session, found: Relation, *, verbose: bool, with_method: bool) -> list[str]:
    footers = []
    if found.is_partition:
        footers += _partition_of(session, found, verbose)
    if found.kind == "p":
        footers.append(f"Partition key: {partition_key_definition(session, found.oid)}")
    if found.kind in "iI":
        footers += _index(session, found)
    if found.kind in "rmfpI":
        footers += _indexes(session, found) + _checks(session, found) + _foreign_keys(session, found)
        footers += _policies(found) + _publications(session, found)
    if found.kind in "vm" and verbose and found.system is None:
        footers += ["View definition:", view_definition(session, found.oid, True) or ""]
    footers += _triggers(session, found)
    if found.kind in "rmfpI":
        footers += _inheritance(session, found, verbose) + _identity(found, verbose)
        method = access_method_name(found)
        if verbose and with_method and method is not None:
            footers.append(f"Access method: {method}")
    if verbose and found.options:
        footers.append(f"Options: {', '.join(found.options)}")
    return footers


def _partition_of(session: Session, found: Relation, verbose: bool) -> list[str]:
    row = link(session, found.oid)
    if row is None:
        return []
    parent = display_name(session, relation(session, row.inhparent))
    bound = partition_bound_text(session, found.oid) or ""
    lines = [f"Partition of: {parent} {bound}{' DETACH PENDING' if row.inhdetachpending else ''}"]
    if verbose:
        from pgrepl.expr.partition_constraint import partition_constraint_text  # with it comes all evaluation

        constraint = partition_constraint_text(session, found.oid)
        lines.append(f"Partition constraint: {constraint}" if constraint else "No partition constraint")
    return lines


def _index(session: Session, found: Relation) -> list[str]:
    index = index_row(session, found.oid)
    if index is None:
        return []
    table = relation(session, index.indrelid)
    text = ""
    if index.indisprimary:
        text = "primary key, "
    elif index.indisunique:
        text = f"unique{' nulls not distinct' if index.indnullsnotdistinct else ''}, "
    text += f'{access_method_name(found)}, for table "{found.schema}.{table.name}"'
    if index.indpred is not None:
        text += f", predicate ({stored_expression_text(session, index.indpred, table.oid, True)})"
    if index.indisclustered:
        text += ", clustered"
    if not index.indisvalid:
        text += ", invalid"
    for constraint in constraints_of_index(session, found.oid, table.oid):
        if constraint.contype in "pu" and not index.indimmediate:
            text += ", deferrable" if constraint.condeferrable else ""
            text += ", initially deferred" if constraint.condeferred else ""
    return [text + (", replica identity" if index.indisreplident else "")]


def _indexes(session: Session, found: Relation) -> list[str]:
    lines = []
    for index in indexes(session, found.oid):
        name = relation(session, index.indexrelid).name
        constraints = constraints_of_index(session, index.indexrelid, found.oid)
        constraint = constraints[0] if constraints else None
        text = f'    "{name}"'
        if index.indisprimary:
            text += " PRIMARY KEY,"
        elif index.indisunique:
            text += " UNIQUE CONSTRAINT," if constraint is not None and constraint.contype == "u" else " UNIQUE,"
        definition = index_definition(session, index.indexrelid, 0, True) or ""
        text += " " + definition.partition(" USING ")[2]
        if constraint is not None:
            text += " DEFERRABLE" if constraint.condeferrable else ""
            text += " INITIALLY DEFERRED" if constraint.condeferred else ""
        text += " CLUSTER" if index.indisclustered else ""
        text += "" if index.indisvalid else " INVALID"
        text += " REPLICA IDENTITY" if index.indisreplident else ""
        lines.append((not index.indisprimary, name, text))
    return ["Indexes:", *(text for _, _, text in sorted(lines))] if lines else []


def _checks(session: Session, found: Relation) -> list[str]:
    if not found.checks:
        return []
    lines = [
        f'    "{row.conname}" {constraint_definition(session, row.oid, True)}'
        for row in constraints_of(session, found.oid, "c")
    ]
    return ["Check constraints:", *lines] if lines else []


def _foreign_keys(session: Session, found: Relation) -> list[str]:
    footers = []
    own = []
    ancestors = partition_ancestors(session, found.oid) if found.is_partition else []
    for table in [found.oid, *ancestors]:
        for row in constraints_of(session, table, "f"):
            if not row.conparentid:
                where = "" if table == found.oid else f'TABLE "{_name(session, table)}" CONSTRAINT '
                text = f'    {where}"{row.conname}" {constraint_definition(session, row.oid, True)}'
                own.append((table != found.oid, row.conname, text))
    if own:
        footers += ["Foreign-key constraints:", *(text for _, _, text in sorted(own))]
    incoming = [
        (row.conname, f'    TABLE "{_name(session, row.conrelid)}" CONSTRAINT "{row.conname}" ')
        + (constraint_definition(session, row.oid, True),)
        for table in [found.oid, *ancestors]
        for row in foreign_keys_to(session, table)
        if not row.conparentid
    ]
    if incoming:
        footers += ["Referenced by:", *(f"{start}{definition}" for _, start, definition in sorted(incoming))]
    return footers


def _name(session: Session, oid: int) -> str:
    return display_name(session, relation(session, oid))


def _policies(found: Relation) -> list[str]:
    if not found.row_security:
        return []
    forced = "forced row security enabled" if found.force_row_security else "row security enabled"
    return [f"Policies ({forced}): (none)"]


def _publications(session: Session, found: Relation) -> list[str]:
    lines = {
        (name, "" if member is None else member_clauses(session, member))
        for name, member in publications_of_table(session, found)
    }
    return ["Publications:", *(f'    "{name}"{clauses}' for name, clauses in sorted(lines))] if lines else []


def _triggers(session: Session, found: Relation) -> list[str]:
    own = triggers_of(session, found.oid)
    internal = [each for each in constraint_triggers(session, found.oid) if each.enabled == "D"]
    lines = []
    for heading, enabled, which in (
        ("Triggers:", "O", own),
        ("Disabled user triggers:", "D", own),
        ("Disabled internal triggers:", "D", internal),
        ("Triggers firing always:", "A", own),
        ("Triggers firing on replica only:", "R", own),
    ):
        listed = [_trigger(session, each) for each in which if each.enabled == enabled]
        lines += [heading, *listed] if listed else []
    return lines


def _trigger(session: Session, trigger: Trigger) -> str:
    """Without CREATE TRIGGER; with the table that a partition has it from."""
    text = (trigger_definition(session, trigger.oid, True) or "").partition(" TRIGGER ")[2]
    if not trigger.parent:
        return f"    {text}"
    above = partition_ancestors(session, trigger.relid)
    of = next(oid for oid in above if any(t.name == trigger.name and not t.parent for t in triggers_of(session, oid)))
    return f"    {text}, ON TABLE {_name(session, of)}"


def _inheritance(session: Session, found: Relation, verbose: bool) -> list[str]:
    lines = []
    above = [relation(session, oid) for oid in parents(session, found.oid)]
    lines += _listed("Inherits", [display_name(session, parent) for parent in above if parent.kind not in "pI"])
    offspring = children(session, found.oid) if found.has_subclass or found.kind in "pI" else []
    partitioned = found.kind in "pI"
    if partitioned and not offspring:
        return [*lines, "Number of partitions: 0"]
    if not offspring:
        return lines
    if not verbose:
        what = "partitions" if partitioned else "child tables"
        return [*lines, f"Number of {what}: {len(offspring)} (Use \\d+ to list them.)"]
    described = []
    for oid in offspring:
        child = relation(session, oid)
        bound = partition_bound_text(session, oid) or ""
        row = link(session, oid) if partitioned else None
        text = _name(session, oid) + (f" {bound}" if bound else "") + (", PARTITIONED" if child.kind in "pI" else "")
        text += " (DETACH PENDING)" if row is not None and row.inhdetachpending else ""
        described.append((bound == "DEFAULT", _name(session, oid), text))
    return lines + _listed("Partitions" if partitioned else "Child tables", [text for _, _, text in sorted(described)])


def _listed(word: str, names: list[str]) -> list[str]:
    """Lines such as `Inherits: a,` with the other names below."""
    lines = []
    for position, name in enumerate(names):
        start = f"{word}: " if position == 0 else " " * (len(word) + 2)
        lines.append(start + name + ("," if position < len(names) - 1 else ""))
    return lines


def _identity(found: Relation, verbose: bool) -> list[str]:
    usual = "n" if found.schema == "pg_catalog" else "d"
    if not verbose or found.kind not in "rm" or found.replident in ("i", usual):
        return []
    return [f"Replica Identity: {REPLICA_IDENTITY.get(found.replident, '???')}"]
