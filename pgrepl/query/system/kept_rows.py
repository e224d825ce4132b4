"""The rows of system catalogs that are kept from one statement to the next: those of PostgreSQL's own objects as long
as the process runs, those of users' objects until a definition changes, unless they are very many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any

from pgrepl.catalog.session.session import Session
from pgrepl.catalog.store.system import SystemRelation
from pgrepl.query.system.activity import Provider, as_rows
from pgrepl.query.system.base_tables import KEYED, OWN, SETTLED, Only

Row = tuple[Any, ...]
_MOST = 20_000  # rows of a catalog that a session keeps


Read = Callable[[Only], Iterable[Row]]
"""What reads rows of a catalog: those with some OIDs in its key, or all."""


class KeptRows:
    """Rows of a catalog as they have been asked for: all of them, or those with some OIDs in its key."""

    def __init__(self, relation: SystemRelation) -> None:
        self._place = relation.key - 1
        self._all: list[Row] | None = None
        self._by_key: dict[int, list[Row]] = {}
        self._count = 0  # of the rows by key

    def all(self, read: Read) -> list[Row]:
        if self._all is None:
            found = list(read(None))
            if len(found) > _MOST:
                return found
            self._all, self._by_key, self._count = found, {}, 0
        return self._all

    def of(self, oids: Collection[int], read: Read) -> Iterable[Row]:
        missing = frozenset(oids).difference(self._by_key)
        if missing and self._count > _MOST:
            self._by_key, self._count, missing = {}, 0, frozenset(oids)
        if missing:
            if self._all is None:
                self._add([row for row in read(missing) if row[self._place] in missing])
            elif not self._count:
                self._add(self._all)
            for oid in missing:
                self._by_key.setdefault(oid, [])
        return chain.from_iterable([self._by_key[oid] for oid in sorted(oids)])

    def _add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._by_key.setdefault(row[self._place], []).append(row)
        self._count += len(rows)


_own: dict[tuple[str, int, int], KeptRows] = {}  # by catalog, the release of its rows and that of its columns


def keyed_rows(session: Session, relation: SystemRelation, only: frozenset[int] | None) -> Iterable[Row]:
    """The rows of a catalog with these OIDs in its key; None: all."""
    name = relation.name

    def read_users(oids: Only) -> Iterable[Row]:
        return as_rows(session, relation, KEYED[name](session, oids))

    def read_own(_: Only) -> Iterable[Row]:
        return as_rows(session, relation, OWN[name](session))

    kept = _own.setdefault((name, session.settings.release, relation.release), KeptRows(relation))
    own: Iterable[Row] = kept.all(read_own)
    if only is not None:
        own = kept.of(only, read_own)
    if name not in SETTLED:
        users = read_users(only)
    elif only is None:
        users = _kept(session, relation).all(read_users)
    else:
        users = _kept(session, relation).of(only, read_users)
    return chain(users, own) if name in ("pg_class", "pg_attribute") else chain(own, users)


def rows_of(session: Session, relation: SystemRelation, provide: Provider) -> Iterable[Row]:
    """All rows of a catalog that has no key."""
    if relation.name not in SETTLED:
        return as_rows(session, relation, provide(session))
    return _kept(session, relation).all(lambda _: as_rows(session, relation, provide(session)))


def _kept(session: Session, relation: SystemRelation) -> KeptRows:
    """What the session keeps of a catalog whose rows change with definitions only. Defaults of types are printed by the
    search path."""
    printed_by = session.settings.found(("search_path", "pgrepl.postgres_version"))
    key = ("catalog rows", relation.oid, relation.release, session.database_oid, printed_by)
    known: KeptRows | None = session.derived.get(key)
    if known is None:
        known = session.derived[key] = KeptRows(relation)
    return known
