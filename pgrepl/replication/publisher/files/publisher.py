"""Files of changes as a publisher. A database of this instance declares what is published.

There is no slot: the origin says how far the files have been applied, and the catalog remembers which they were, in the
transaction that moves the origin. Nothing is copied either.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pgrepl.replication.publisher.files.change_stream import FilesChangeStream, reading_files
from pgrepl.replication.publisher.files.listing import FilesOptions
from pgrepl.replication.publisher.files.memory import GivenBatch
from pgrepl.replication.publisher.lake.catalog import LakeCatalog
from pgrepl.replication.publisher.lake.publisher import LakePublisher
from pgrepl.replication.publisher.lake.schema import attributes
from pgrepl.replication.publisher.protocol import Publisher
from pgrepl.replication.publisher.tables import RemoteAttribute

if TYPE_CHECKING:
    from pgrepl.catalog.session.session import Session


class DeclaringCatalog(LakeCatalog):
    """The publications of the database that declares. Files know no past of its tables."""

    def attributes(self, relid: int, lsn: int) -> tuple[RemoteAttribute, ...]:
        with reading_files(self._connection.session) as session:
            return attributes(session, relid)

    def older_value(self, relid: int, attnum: int, lsn: int) -> None:
        return None

    def publications_with_other_origins(self, names: Sequence[str], known: Collection[tuple[str, str]]) -> list[str]:
        return []  # nothing is copied

    @property
    def has_sequences(self) -> bool:
        return False

    def published_sequences(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return []  # files do not tell their values


class FilesPublisher(Publisher):
    """An open connection to the database that declares, and to its files."""

    slots: None = None
    stream: FilesChangeStream
    copies: None = None

    def __init__(
        self, declaring: LakePublisher, options: FilesOptions, subid: int, given: GivenBatch | None = None
    ) -> None:
        """`given`: the batch of `pgrepl apply --from`."""
        self._declaring = declaring
        self.catalog = DeclaringCatalog(declaring.connection)
        self.stream = FilesChangeStream(declaring.connection.session, options, subid, given)

    @property
    def is_open(self) -> bool:
        return self._declaring.is_open

    @property
    def used_password(self) -> bool:
        return self._declaring.used_password

    @property
    def system_identifier(self) -> str:
        """An identifier of the files, not the instance's: the LSNs are others."""
        return f"files {self._declaring.system_identifier}"

    @property
    def shares_catalog(self) -> bool:
        """True: the files that were read are noted in the commit that moves the origin."""
        return True

    def inherit_engine(self, worker: Session) -> None:
        self._declaring.inherit_engine(worker)

    def interrupt(self) -> None:
        self.stream.interrupt()
        self._declaring.interrupt()

    def close(self) -> None:
        self.stream.close()
        self._declaring.close()
