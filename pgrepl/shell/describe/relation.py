r"""`\d NAME` with its footers, and the lists `\dt`, `\di`, `\dv`, `\ds`, `\dm`, `\dE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.facts.depend import Dependency
from pgrepl.catalog.facts.namespace import name_and_schema
from pgrepl.catalog.facts.objects import comment_on
from pgrepl.catalog.facts.publication import (
    excepting_publications,
    publication_name,
    publications,
    publications_of_table,
)
from pgrepl.catalog.facts.relation import Attribute, Relation, display_name, relation
from pgrepl.catalog.facts.relation_parts import (
    children,
    constraints_of,
    constraints_of_index,
    foreign_keys_to,
    index_row,
    indexes,
    link,
    not_nulls,
    parents,
    partition_ancestors,
)
from pgrepl.catalog.facts.roles import role_display
from pgrepl.catalog.facts.sequences import owner_column, sequence_row
from pgrepl.catalog.facts.triggers import Trigger, constraint_triggers, triggers_of
from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import PG_CLASS
from pgrepl.expr.analyse.lookup import type_text
from pgrepl.expr.catalog_trees import default_text
from pgrepl.expr.print.definitions import (
    constraint_definition,
    index_definition,
    partition_bound_text,
    partition_key_definition,
    view_definition,
)
from pgrepl.expr.print.deparse import stored_expression_text
from pgrepl.shell.describe.listing import (
    matching_relations,
    member_clauses,
    print_description,
    print_listing,
    read_pattern,
    session_of,
)
from pgrepl.sql.keywords import quote_identifier
from pgrepl.types.builtin import access_methods, type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.oids import FIRST_USER_OID

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell


KINDS = {
    "r": "table", "v": "view", "m": "materialized view", "i": "index", "S": "sequence", "t": "TOAST table",
    "f": "foreign table", "p": "partitioned table", "I": "partitioned index",
}  # fmt: skip
OF_LETTER = {"t": "rp", "v": "v", "m": "m", "i": "iI", "s": "S", "E": "f"}
PERSISTENCE = {"p": "permanent", "t": "temporary", "u": "unlogged"}


def list_relations(shell: Shell, letters: str, text: str | None, verbose: bool, system: bool) -> bool:
    pattern = read_pattern(shell, text, qualified=True)
    session = session_of(shell)
    kinds = "".join(OF_LETTER[letter] for letter in letters)
    relations = matching_relations(session, pattern, kinds)
    if not system and pattern is None:
        relations = [
            r
            for r in relations
            if r.schema not in ("pg_catalog", "information_schema") and not r.schema.startswith("pg_toast")
        ]
    # psql 18 names what was asked for, if it is of one kind
    newer = session.settings.release >= 18
    what = f"{KINDS[kinds[0]]}s".replace("indexs", "indexes") if newer and len(letters) == 1 else "relations"
    if not relations and not shell.quiet:
        named = what if newer else "relation"
        shell.error(f"Did not find any {what}." if text is None else f'Did not find any {named} named "{text}".')
        return True
    with_index, with_method = "i" in letters, bool(set(letters) & set("tmi"))
    headers = ["Schema", "Name", "Type", "Owner", *(["Table"] if with_index else [])]
    if verbose:
        headers += ["Persistence", *(["Access method"] if with_method else []), "Size", "Description"]
    listed = [_cells(session, r, with_index, with_method, verbose) for r in relations]
    return print_listing(shell, f"List of {what}", headers, listed)


def _cells(session: Session, rel: Relation, with_index: bool, with_method: bool, verbose: bool) -> list[str | None]:
    cells: list[str | None] = [rel.schema, rel.name, KINDS[rel.kind], role_display(session, rel.owner)]
    if with_index:
        index = index_row(session, rel.oid)
        cells.append(relation(session, index.indrelid).name if index else None)
    if verbose:
        cells.append(PERSISTENCE[rel.persistence])
        if with_method:
            cells.append(access_method_name(rel))
        from pgrepl.expr.functions.misc import pg_size_pretty
        from pgrepl.query.system.functions.relations import table_size

        cells += [pg_size_pretty(table_size(session, rel)), comment_on(session, PG_CLASS, rel.oid)]
    return cells


def access_method_name(rel: Relation) -> str | None:
    return next((m.name for m in access_methods if m.oid == rel.access_method), None)


# --- footers ----------------------------------------------------------------------------------------------------------


REPLICA_IDENTITY = {"f": "FULL", "n": "NOTHING"}


def footers_of(session: Session, rel: Relation, *, verbose: bool, with_method: bool) -> list[str]:
    footers = []
    if rel.is_partition:
        footers += _partition_of(session, rel, verbose)
    if rel.kind == "p":
        footers.append(f"Partition key: {partition_key_definition(session, rel.oid)}")
    if rel.kind in "iI":
        footers += _index(session, rel)
    if rel.kind in "rmfpI":
        footers += _indexes(session, rel) + _checks(session, rel) + _foreign_keys(session, rel)
        footers += _policies(rel) + _publications(session, rel)
        footers += _not_nulls(session, rel) if verbose else []
    if rel.kind in "vm" and verbose and rel.system is None:
        footers += ["View definition:", view_definition(session, rel.oid, True) or ""]
    footers += _triggers(session, rel)
    if rel.kind in "rmfpI":
        footers += _inheritance(session, rel, verbose) + _identity(session, rel, verbose)
        method = access_method_name(rel)
        if verbose and with_method and method is not None:
            footers.append(f"Access method: {method}")
    if verbose and rel.options:
        footers.append(f"Options: {', '.join(rel.options)}")
    return footers


def _partition_of(session: Session, rel: Relation, verbose: bool) -> list[str]:
    row = link(session, rel.oid)
    if row is None:
        return []
    parent = display_name(session, relation(session, row.inhparent))
    bound = partition_bound_text(session, rel.oid) or ""
    lines = [f"Partition of: {parent} {bound}{' DETACH PENDING' if row.inhdetachpending else ''}"]
    if verbose:
        from pgrepl.expr.partition_constraint import partition_constraint_text  # with it comes all evaluation

        constraint = partition_constraint_text(session, rel.oid)
        lines.append(f"Partition constraint: {constraint}" if constraint else "No partition constraint")
    return lines


def _index(session: Session, rel: Relation) -> list[str]:
    index = index_row(session, rel.oid)
    if index is None:
        return []
    table = relation(session, index.indrelid)
    text = ""
    if index.indisprimary:
        text = "primary key, "
    elif index.indisunique:
        text = f"unique{' nulls not distinct' if index.indnullsnotdistinct else ''}, "
    text += f'{access_method_name(rel)}, for table "{rel.schema}.{table.name}"'
    if index.indpred is not None:
        text += f", predicate ({stored_expression_text(session, index.indpred, table.oid, True)})"
    if index.indisclustered:
        text += ", clustered"
    if not index.indisvalid:
        text += ", invalid"
    for constraint in constraints_of_index(session, rel.oid, table.oid):
        if constraint.contype in "pu" and not index.indimmediate:
            text += ", deferrable" if constraint.condeferrable else ""
            text += ", initially deferred" if constraint.condeferred else ""
    return [text + (", replica identity" if index.indisreplident else "")]


def _indexes(session: Session, rel: Relation) -> list[str]:
    lines = []
    for index in indexes(session, rel.oid):
        name = relation(session, index.indexrelid).name
        constraints = constraints_of_index(session, index.indexrelid, rel.oid)
        constraint = constraints[0] if constraints else None
        text = f'    "{name}"'
        if index.indisprimary:
            text += " PRIMARY KEY,"
        elif index.indisunique:
            text += " UNIQUE CONSTRAINT," if constraint is not None and constraint.contype == "u" else " UNIQUE,"
        definition = index_definition(session, index.indexrelid, 0, True) or ""
        if constraint is not None and constraint.conperiod:
            text = f'    "{name}" {constraint_definition(session, constraint.oid, True)}'
        else:
            text += " " + definition.partition(" USING ")[2]
        if constraint is not None:
            text += " DEFERRABLE" if constraint.condeferrable else ""
            text += " INITIALLY DEFERRED" if constraint.condeferred else ""
        text += " CLUSTER" if index.indisclustered else ""
        text += "" if index.indisvalid else " INVALID"
        text += " REPLICA IDENTITY" if index.indisreplident else ""
        lines.append((not index.indisprimary, name, text))
    return ["Indexes:", *(text for _, _, text in sorted(lines))] if lines else []


def _checks(session: Session, rel: Relation) -> list[str]:
    if not rel.checks:
        return []
    lines = [
        f'    "{row.conname}" {constraint_definition(session, row.oid, True)}'
        for row in constraints_of(session, rel.oid, "c")
    ]
    return ["Check constraints:", *lines] if lines else []


def _not_nulls(session: Session, rel: Relation) -> list[str]:
    """What psql 18 shows of a server 18."""
    if session.settings.release < 18:
        return []
    lines = []
    for number, row in sorted(not_nulls(session, rel.oid).items()):
        text = f'    "{row.conname}" NOT NULL "{rel.attributes[number - 1].name}"'
        if row.connoinherit:
            text += " NO INHERIT"
        elif row.coninhcount:
            text += " (local, inherited)" if row.conislocal else " (inherited)"
        lines.append(text + ("" if row.convalidated else " NOT VALID"))
    return ["Not-null constraints:", *lines] if lines else []


def _foreign_keys(session: Session, rel: Relation) -> list[str]:
    footers = []
    own = []
    ancestors = partition_ancestors(session, rel.oid) if rel.is_partition else []
    for table in [rel.oid, *ancestors]:
        for row in constraints_of(session, table, "f"):
            if not row.conparentid:
                where = "" if table == rel.oid else f'TABLE "{_name(session, table)}" CONSTRAINT '
                text = f'    {where}"{row.conname}" {constraint_definition(session, row.oid, True)}'
                own.append((table != rel.oid, row.conname, text))
    if own:
        footers += ["Foreign-key constraints:", *(text for _, _, text in sorted(own))]
    incoming = [
        (row.conname, f'    TABLE "{_name(session, row.conrelid)}" CONSTRAINT "{row.conname}" ')
        + (constraint_definition(session, row.oid, True),)
        for table in [rel.oid, *ancestors]
        for row in foreign_keys_to(session, table)
        if not row.conparentid
    ]
    if incoming:
        footers += ["Referenced by:", *(f"{start}{definition}" for _, start, definition in sorted(incoming))]
    return footers


def _name(session: Session, oid: int) -> str:
    return display_name(session, relation(session, oid))


def _policies(rel: Relation) -> list[str]:
    if not rel.row_security:
        return []
    forced = "forced row security enabled" if rel.force_row_security else "row security enabled"
    return [f"Policies ({forced}): (none)"]


def _publications(session: Session, rel: Relation) -> list[str]:
    lines = {
        (name, "" if member is None else member_clauses(session, member))
        for name, member in publications_of_table(session, rel)
    }
    footers = ["Publications:", *(f'    "{name}"{clauses}' for name, clauses in sorted(lines))] if lines else []
    without = sorted(publication_name(session, oid) for oid in excepting_publications(session, rel))
    return footers + (["Excluded from publications:", *(f'    "{name}"' for name in without)] if without else [])


def _triggers(session: Session, rel: Relation) -> list[str]:
    own = triggers_of(session, rel.oid)
    internal = [trigger for trigger in constraint_triggers(session, rel.oid) if trigger.enabled == "D"]
    lines = []
    for heading, enabled, which in (
        ("Triggers:", "O", own),
        ("Disabled user triggers:", "D", own),
        ("Disabled internal triggers:", "D", internal),
        ("Triggers firing always:", "A", own),
        ("Triggers firing on replica only:", "R", own),
    ):
        listed = [_trigger(session, trigger) for trigger in which if trigger.enabled == enabled]
        lines += [heading, *listed] if listed else []
    return lines


def _trigger(session: Session, trigger: Trigger) -> str:
    """Without CREATE TRIGGER; with the table that a partition has it from."""
    from pgrepl.expr.print.print_routine import trigger_definition

    text = (trigger_definition(session, trigger.oid, True) or "").partition(" TRIGGER ")[2]
    if not trigger.parent:
        return f"    {text}"
    above = partition_ancestors(session, trigger.relid)
    of = next(oid for oid in above if any(t.name == trigger.name and not t.parent for t in triggers_of(session, oid)))
    return f"    {text}, ON TABLE {_name(session, of)}"


def _inheritance(session: Session, rel: Relation, verbose: bool) -> list[str]:
    lines = []
    above = [relation(session, oid) for oid in parents(session, rel.oid)]
    lines += _listed("Inherits", [display_name(session, parent) for parent in above if parent.kind not in "pI"])
    offspring = children(session, rel.oid) if rel.has_subclass or rel.kind in "pI" else []
    partitioned = rel.kind in "pI"
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


def _identity(session: Session, rel: Relation, verbose: bool) -> list[str]:
    usual = "n" if rel.schema == "pg_catalog" else "d"
    if not verbose or rel.kind not in "rm" or rel.replident in ("i", usual):
        return []
    shown = REPLICA_IDENTITY if session.settings.release < 18 else {"f": "FULL", "d": "NOTHING"}  # as psql 18 has it
    return [f"Replica Identity: {shown.get(rel.replident, '???')}"]


# --- relation ---------------------------------------------------------------------------------------------------------


EVERY_KIND = "rpviISmftc"
TITLES = {
    "r": "Table", "p": "Partitioned table", "v": "View", "m": "Materialized view", "i": "Index",
    "I": "Partitioned index", "S": "Sequence", "f": "Foreign table", "c": "Composite type",
}  # fmt: skip
STORAGE = {"p": "plain", "m": "main", "x": "extended", "e": "external"}
COMPRESSION = {"": "", "p": "pglz", "l": "lz4"}


def describe_relations(shell: Shell, text: str, verbose: bool, system: bool) -> bool:
    pattern = read_pattern(shell, text, qualified=True)
    session = session_of(shell)
    relations = matching_relations(session, pattern, EVERY_KIND)
    if not relations:
        if not shell.quiet:
            shell.error(f'Did not find any relation named "{text}".')
        return False
    for one_of_them in relations:
        if one_of_them.kind == "S":
            ok = _describe_sequence(shell, session, one_of_them)
        else:
            ok = _describe(shell, session, one_of_them, verbose)
        if not ok:
            return False
    return True


def title_of(rel: Relation) -> str:
    word = TITLES[rel.kind]
    if rel.persistence == "u":
        word = "Unlogged " + word[0].lower() + word[1:]
    return f'{word} "{rel.schema}.{rel.name}"'


def _describe(shell: Shell, session: Session, rel: Relation, verbose: bool) -> bool:
    hides_compression = shell.variables.on("HIDE_TOAST_COMPRESSION")
    hides_method = shell.variables.on("HIDE_TABLEAM")
    is_index = rel.kind in "iI"
    headers = ["Column", "Type"] + (["Key?", "Definition"] if is_index else ["Collation", "Nullable", "Default"])
    with_compression = rel.kind in "rpm" and not hides_compression
    if verbose:
        headers.append("Storage")
        headers += ["Compression"] if with_compression else []
        headers += ["Stats target"] if rel.kind in "rpimIf" else []
        headers += ["Description"] if not is_index else []
    counting = [column for column in rel.columns if column.expands]  # as pg_attribute has them
    cells = [_column(session, rel, column, verbose, with_compression) for column in counting]
    footers = footers_of(session, rel, verbose=verbose, with_method=not hides_method)
    return print_description(shell, title_of(rel), headers, cells, footers, expandable=False)


def type_of(session: Session, column: Attribute) -> str:
    """The type as format_type names it; row types of tables are looked up."""
    if column.type < FIRST_USER_OID:
        return format_type(column.type, column.typmod)
    return type_text(session, column.type, column.typmod)


def _column(session: Session, rel: Relation, column: Attribute, verbose: bool, with_compression: bool) -> list[str]:
    cells = [column.name, type_of(session, column)]
    if rel.kind in "iI":
        index = index_row(session, rel.oid)
        assert index is not None
        cells += ["yes" if column.num <= index.indnkeyatts else "no"]
        cells += [index_definition(session, rel.oid, column.num, True) or ""]
    else:
        cells += [_collation(session, column), "not null" if column.notnull else "", _default(session, rel, column)]
    if verbose:
        cells.append(STORAGE.get(column.storage, "???"))
        if with_compression:
            cells.append(COMPRESSION.get(column.compression, "???"))
        if rel.kind in "rpimIf":
            cells.append("" if column.stattarget is None or column.stattarget == -1 else str(column.stattarget))
        if rel.kind not in "iI":
            cells.append(comment_on(session, PG_CLASS, rel.oid, column.num) or "")
    return cells


def _collation(session: Session, column: Attribute) -> str:
    kind = type_by_oid(column.type)
    if not column.collation or kind is None or kind.collation == column.collation:
        return ""
    named = name_and_schema(session, column.collation)
    return "" if named is None else named[0]


def _default(session: Session, rel: Relation, column: Attribute) -> str:
    if column.identity:
        return f"generated {'always' if column.identity == 'a' else 'by default'} as identity"
    if not column.has_default:
        return ""
    text = default_text(session, rel.oid, column.num, True) or ""
    if column.generated:
        return f"generated always as ({text})" + (" stored" if column.generated == "s" else "")
    return text


def _describe_sequence(shell: Shell, session: Session, rel: Relation) -> bool:
    row = sequence_row(session, rel.oid)
    headers = ("Type", "Start", "Minimum", "Maximum", "Increment", "Cycles?", "Cache")
    cells = [
        format_type(row.seqtypid), str(row.seqstart), str(row.seqmin), str(row.seqmax), str(row.seqincrement),
        "yes" if row.seqcycle else "no", str(row.seqcache),
    ]  # fmt: skip
    numbers = (1, 2, 3, 4, 6)
    return print_listing(
        shell,
        title_of(rel),
        headers,
        [cells],
        footers=[*_sequence_owner(session, rel), *_sequence_publications(session, rel)],
        right=numbers,
    )


def _sequence_publications(session: Session, rel: Relation) -> list[str]:
    """As psql 19; no publication of 17 has sequences."""
    named = sorted(row.pubname for row in publications(session) if row.puballsequences)
    if not named or rel.persistence != "p":
        return []
    return ["Included in publications:", *(f'    "{name}"' for name in named)]


def _sequence_owner(session: Session, rel: Relation) -> list[str]:
    for kind, words in ((Dependency.AUTO, "Owned by"), (Dependency.INTERNAL, "Sequence for identity column")):
        owner = owner_column(session, rel.oid, kind)
        if owner is not None:
            table = relation(session, owner[0])
            column = table.attributes[owner[1] - 1]
            name = ".".join(quote_identifier(part) for part in (table.schema, table.name, column.name))
            return [f"{words}: {name}"]
    return []
