r"""`\d NAME`: a relation's columns, with the footers below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS
from pgrepl.catalog.collations import name_and_schema
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.depend import Dependency
from pgrepl.catalog.indexes import index_row
from pgrepl.catalog.relation import Attribute, Relation, relation
from pgrepl.catalog.sequences import owner_column, sequence_row
from pgrepl.catalog.session import Session
from pgrepl.expr.defaults import default_text
from pgrepl.expr.definitions import index_definition
from pgrepl.shell.describe.footers import footers_of
from pgrepl.shell.describe.listing import print_description, print_listing, read_pattern, session_of
from pgrepl.shell.describe.matching import matching_relations
from pgrepl.sql.quote import quote_identifier
from pgrepl.types.builtin import type_by_oid
from pgrepl.types.names import format_type
from pgrepl.types.oids import FIRST_USER_OID

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell

EVERY_KIND = "rpviISmftc"
TITLES = {
    "r": "Table", "p": "Partitioned table", "v": "View", "m": "Materialized view", "i": "Index",
    "I": "Partitioned index", "S": "Sequence", "f": "Foreign table", "c": "Composite type",
}  # fmt: skip
STORAGE = {"p": "plain", "m": "main", "x": "extended", "e": "external"}
COMPRESSION = {"": "", "p": "pglz", "l": "lz4"}


def describe_relations(shell: Shell, text: str, verbose: bool, system: bool) -> bool:
    pattern = read_pattern(shell, text, qualified=True)
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    found = matching_relations(session, pattern, EVERY_KIND)
    if not found:
        if not shell.quiet:
            shell.error(f'Did not find any relation named "{text}".')
        return False
    for one_of_them in found:
        if one_of_them.kind == "S":
            ok = _describe_sequence(shell, session, one_of_them)
        else:
            ok = _describe(shell, session, one_of_them, verbose)
        if not ok:
            return False
    return True


def title_of(found: Relation) -> str:
    word = TITLES[found.kind]
    if found.persistence == "u":
        word = "Unlogged " + word[0].lower() + word[1:]
    return f'{word} "{found.schema}.{found.name}"'


def _describe(shell: Shell, session: Session, found: Relation, verbose: bool) -> bool:
    hides_compression = shell.variables.on("HIDE_TOAST_COMPRESSION")
    hides_method = shell.variables.on("HIDE_TABLEAM")
    is_index = found.kind in "iI"
    headers = ["Column", "Type"] + (["Key?", "Definition"] if is_index else ["Collation", "Nullable", "Default"])
    with_compression = found.kind in "rpm" and not hides_compression
    if verbose:
        headers.append("Storage")
        headers += ["Compression"] if with_compression else []
        headers += ["Stats target"] if found.kind in "rpimIf" else []
        headers += ["Description"] if not is_index else []
    cells = [_column(session, found, column, verbose, with_compression) for column in found.columns]
    footers = footers_of(session, found, verbose=verbose, with_method=not hides_method)
    return print_description(shell, title_of(found), headers, cells, footers, expandable=False)


def type_of(session: Session, column: Attribute) -> str:
    """The type as format_type names it; row types of tables are looked up."""
    if column.type < FIRST_USER_OID:
        return format_type(column.type, column.typmod)
    from pgrepl.expr.typefacts import type_text

    return type_text(session, column.type, column.typmod)


def _column(session: Session, found: Relation, column: Attribute, verbose: bool, with_compression: bool) -> list[str]:
    cells = [column.name, type_of(session, column)]
    if found.kind in "iI":
        index = index_row(session, found.oid)
        assert index is not None
        cells += ["yes" if column.num <= index.indnkeyatts else "no"]
        cells += [index_definition(session, found.oid, column.num, True) or ""]
    else:
        cells += [_collation(session, column), "not null" if column.notnull else "", _default(session, found, column)]
    if verbose:
        cells.append(STORAGE.get(column.storage, "???"))
        if with_compression:
            cells.append(COMPRESSION.get(column.compression, "???"))
        if found.kind in "rpimIf":
            cells.append("" if column.stattarget is None or column.stattarget == -1 else str(column.stattarget))
        if found.kind not in "iI":
            cells.append(comment_on(session, PG_CLASS, found.oid, column.num) or "")
    return cells


def _collation(session: Session, column: Attribute) -> str:
    kind = type_by_oid(column.type)
    if not column.collation or kind is None or kind.collation == column.collation:
        return ""
    found = name_and_schema(session, column.collation)
    return "" if found is None else found[0]


def _default(session: Session, found: Relation, column: Attribute) -> str:
    if column.identity:
        return f"generated {'always' if column.identity == 'a' else 'by default'} as identity"
    if not column.has_default:
        return ""
    text = default_text(session, found.oid, column.num, True) or ""
    return f"generated always as ({text}) stored" if column.generated else text


def _describe_sequence(shell: Shell, session: Session, found: Relation) -> bool:
    row = sequence_row(session, found.oid)
    headers = ("Type", "Start", "Minimum", "Maximum", "Increment", "Cycles?", "Cache")
    cells = [
        format_type(row.seqtypid), str(row.seqstart), str(row.seqmin), str(row.seqmax), str(row.seqincrement),
        "yes" if row.seqcycle else "no", str(row.seqcache),
    ]  # fmt: skip
    numbers = (1, 2, 3, 4, 6)
    return print_listing(
        shell, title_of(found), headers, [cells], footers=_sequence_owner(session, found), right=numbers
    )


def _sequence_owner(session: Session, found: Relation) -> list[str]:
    for kind, words in ((Dependency.AUTO, "Owned by"), (Dependency.INTERNAL, "Sequence for identity column")):
        owner = owner_column(session, found.oid, kind)
        if owner is not None:
            table = relation(session, owner[0])
            column = table.attributes[owner[1] - 1]
            name = ".".join(quote_identifier(part) for part in (table.schema, table.name, column.name))
            return [f"{words}: {name}"]
    return []
