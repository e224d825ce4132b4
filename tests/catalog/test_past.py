"""The catalog as it was at a past snapshot."""

from __future__ import annotations

from pathlib import Path

from pgrepl.backend import open_session
from pgrepl.catalog.facts.publication import publications, published_tables
from pgrepl.catalog.facts.relation import relation
from pgrepl.catalog.session.transaction import reading
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.statements.run import run


def test_each_snapshot_keeps_its_publications_and_columns(tmp_path: Path) -> None:
    session = open_session(open_catalog(tmp_path / "catalog.db"))

    def do(text: str) -> int:
        list(run(session, text))
        with reading(session):
            return session.transaction.numbering.last_snapshot()

    made = do("CREATE TABLE t (a int PRIMARY KEY, b text)")
    published = do("CREATE PUBLICATION p FOR TABLE t (a)")
    altered = do("ALTER TABLE t RENAME COLUMN b TO c")
    dropped = do("DROP PUBLICATION p")
    with reading(session):
        then = {s: [p.pubname for p in publications(session.at(s))] for s in (made, published, altered, dropped)}
        (table,) = published_tables(session.at(altered), ["p"])
        names = {
            s: [column.name for column in relation(session.at(s), table.relid).columns] for s in (published, altered)
        }
    session.close()
    assert then == {made: [], published: ["p"], altered: ["p"], dropped: []}
    assert table.attrs == (1,)
    assert names == {published: ["a", "b"], altered: ["a", "c"]}
