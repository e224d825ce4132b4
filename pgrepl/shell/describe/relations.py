r"""`\dt`, `\di`, `\dv`, `\ds`, `\dm`, `\dE` and their combinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog.classes import PG_CLASS
from pgrepl.catalog.comments import comment_on
from pgrepl.catalog.indexes import index_row
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.roles import role_display
from pgrepl.catalog.session import Session
from pgrepl.expr.functions.misc import pg_size_pretty
from pgrepl.query.system.sizes import table_size
from pgrepl.shell.describe.listing import print_listing, read_pattern, session_of
from pgrepl.shell.describe.matching import matching_relations
from pgrepl.types.builtin import access_methods

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
    if isinstance(pattern, bool):
        return False
    session = session_of(shell)
    kinds = "".join(OF_LETTER[letter] for letter in letters)
    found = matching_relations(session, pattern, kinds)
    if not system and pattern is None:
        found = [
            r
            for r in found
            if r.schema not in ("pg_catalog", "information_schema") and not r.schema.startswith("pg_toast")
        ]
    if not found and not shell.quiet:
        shell.error("Did not find any relations." if text is None else f'Did not find any relation named "{text}".')
        return True
    with_index, with_method = "i" in letters, bool(set(letters) & set("tmi"))
    headers = ["Schema", "Name", "Type", "Owner", *(["Table"] if with_index else [])]
    if verbose:
        headers += ["Persistence", *(["Access method"] if with_method else []), "Size", "Description"]
    listed = [_cells(session, r, with_index, with_method, verbose) for r in found]
    return print_listing(shell, "List of relations", headers, listed)


def _cells(session: Session, found: Relation, with_index: bool, with_method: bool, verbose: bool) -> list[str | None]:
    cells: list[str | None] = [found.schema, found.name, KINDS[found.kind], role_display(session, found.owner)]
    if with_index:
        index = index_row(session, found.oid)
        cells.append(relation(session, index.indrelid).name if index else None)
    if verbose:
        cells.append(PERSISTENCE[found.persistence])
        if with_method:
            cells.append(access_method_name(found))
        cells += [pg_size_pretty(table_size(session, found)), comment_on(session, PG_CLASS, found.oid)]
    return cells


def access_method_name(found: Relation) -> str | None:
    return next((m.name for m in access_methods if m.oid == found.access_method), None)
