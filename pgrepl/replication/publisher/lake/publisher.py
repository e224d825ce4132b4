"""A database of an instance as a publisher: of this instance, or of one in another folder."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pgrepl import engine
from pgrepl.catalog.subscription import system_identifier
from pgrepl.replication.publisher.lake.catalog import LakeCatalog
from pgrepl.replication.publisher.lake.change_stream import LakeChangeStream
from pgrepl.replication.publisher.lake.connection import LakeConnection
from pgrepl.replication.publisher.lake.copies import LakeCopies
from pgrepl.replication.publisher.lake.slots import LakeSlots
from pgrepl.replication.publisher.protocol import Publisher

if TYPE_CHECKING:
    from pgrepl.catalog.session import Session
    from pgrepl.replication.publisher.lake.comparing import LakeComparing


class LakePublisher(Publisher):
    """A publisher whose session is in the publishing database, as the role of the connection."""

    slots: LakeSlots
    stream: LakeChangeStream
    copies: LakeCopies

    def __init__(self, session: Session, *, used_password: bool, own_instance: bool, apart: bool) -> None:
        """`apart`: this publisher owns the session."""
        self.connection = LakeConnection(session, own_instance=own_instance, apart=apart)
        self.catalog = LakeCatalog(self.connection)
        self.slots = LakeSlots(self.connection)
        self.stream = LakeChangeStream(self.connection)
        self.copies = LakeCopies(self.connection)
        self._used_password = used_password
        self._file = None if own_instance else _identity(session)

    @property
    def is_open(self) -> bool:
        """Is the catalog's file still the one that was opened, not moved away or replaced?"""
        return self.connection.own_instance or self._file == _identity(self.connection.session)

    @property
    def used_password(self) -> bool:
        return self._used_password

    @cached_property
    def system_identifier(self) -> str:
        with self.connection.asked() as session:
            return str(system_identifier(session))

    @cached_property
    def comparing(self) -> LakeComparing:
        from pgrepl.replication.publisher.lake.comparing import LakeComparing

        return LakeComparing(self.connection, self.slots)

    @property
    def shares_catalog(self) -> bool:
        return self.connection.own_instance

    def choose_as(self, worker: Session) -> None:
        engine.choose_as(worker, self.connection.session)

    def interrupt(self) -> None:
        """Stop waiting for the catalog's write lock; from another thread."""
        self.give_up()

    def give_up(self) -> None:
        self.connection.session.link.give_up()

    def close(self) -> None:
        self.stream.close()
        self.connection.close()


def _identity(session: Session) -> tuple[int, int] | None:
    """The identity of another instance's catalog file; None: it is on a server."""
    path = session.catalog.path
    try:
        found = None if path is None else path.stat()
    except OSError:
        return -1, -1
    return None if found is None else (found.st_dev, found.st_ino)
