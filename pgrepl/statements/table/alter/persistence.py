"""SET LOGGED and SET UNLOGGED of tables and sequences."""

from __future__ import annotations

from functools import partial

from pgrepl.catalog import store
from pgrepl.catalog.indexes import indexes
from pgrepl.catalog.publication import relation_publications
from pgrepl.catalog.relation import Relation, relation
from pgrepl.catalog.sequence_positions import new_relfilenumber
from pgrepl.catalog.sequences import sequences_of
from pgrepl.catalog.session import Session
from pgrepl.catalog.tables import pg_class, pg_constraint
from pgrepl.errors import PgError
from pgrepl.sql.nodes import AlterTableCmd, AlterTableKind
from pgrepl.statements.table.alter.targets import SEQUENCE, TABLE, check_target
from pgrepl.statements.table.alter.work import WorkQueue

_WORDS = {"p": "logged", "u": "unlogged"}


def prepare_persistence(work: WorkQueue, rel: Relation, cmd: AlterTableCmd, recurse: bool, recursing: bool) -> None:
    session = work.session
    check_target(session, cmd.kind.value, rel, TABLE + SEQUENCE)
    altered = work.entry(rel)
    if altered.persistence:
        raise PgError("0A000", "cannot change persistence setting twice")
    wanted = "p" if cmd.kind is AlterTableKind.SET_LOGGED else "u"
    if rel.persistence == "t":
        raise PgError("42P16", f'cannot change logged status of table "{rel.name}" because it is temporary')
    if rel.persistence == wanted:
        return
    if wanted == "u" and relation_publications(session, rel.oid):
        raise PgError(
            "55000",
            f'cannot change table "{rel.name}" to unlogged because it is part of a publication',
            detail="Unlogged relations cannot be replicated.",
        )
    _check_foreign_keys(session, rel, wanted)
    altered.persistence = wanted
    if rel.kind != "p":
        altered.after.append(partial(_change, session, rel, wanted))


def _check_foreign_keys(session: Session, rel: Relation, wanted: str) -> None:
    """A logged table can reference logged tables only."""
    mine, others = ("conrelid", "confrelid") if wanted == "p" else ("confrelid", "conrelid")
    for key in store.rows(session, pg_constraint, contype="f", **{mine: rel.oid}):
        other = relation(session, getattr(key, others))
        if other.oid != rel.oid and (other.persistence == "p") != (wanted == "p"):
            raise PgError(
                "42P16",
                f'could not change table "{rel.name}" to {_WORDS[wanted]} because it references '
                f'{_WORDS["u" if wanted == "p" else "p"]} table "{other.name}"',
            )


def _change(session: Session, rel: Relation, persistence: str) -> None:
    """Change the table, its indexes and the sequences it owns."""
    oids = [rel.oid, *(row.indexrelid for row in indexes(session, rel.oid))]
    oids += [sequence for sequence, _, _ in sequences_of(session, rel.oid)]
    for oid in oids:
        if relation(session, oid).kind == "S":
            new_relfilenumber(session, oid)
        store.update(session, pg_class, {"oid": oid}, relpersistence=persistence)
