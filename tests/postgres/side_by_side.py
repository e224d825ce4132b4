"""A database of a real server and one of ours, which are told the same."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgrepl.ground.errors import PgError
from tests.harness.database import Database, Rows
from tests.postgres.served import PublishingServer

Said = tuple[str, ...]


class SideBySide:
    """A database of the server's and one of ours."""

    def __init__(self, publishing: PublishingServer, folder: Path) -> None:
        self.link = psycopg.connect(publishing.conninfo(publishing.new_database()), autocommit=True)
        self.ours = Database(folder)
        self.file = folder / "file"

    def close(self) -> None:
        self.link.close()
        self.ours.close()

    def run(self, text: str) -> None:
        self.link.execute(text.encode())
        self.ours(text)

    def theirs(self, statement: str) -> bytes:
        with self.link.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            return b"".join(map(bytes, copy))

    def written(self, source: str) -> tuple[bytes, bytes]:
        """What the server writes, and what we write."""
        self.ours(f"COPY {source} TO '{self.file}' (FORMAT binary)")
        return self.theirs(f"COPY {source} TO STDOUT (FORMAT binary)"), self.file.read_bytes()

    def error_of_theirs(self, statement: str, data: bytes) -> tuple[str, ...]:
        with (
            pytest.raises(psycopg.Error) as caught,
            self.link.cursor() as cursor,
            cursor.copy(statement.encode()) as copy,
        ):
            copy.write(data)
        said = caught.value.diag
        return tuple(str(each) for each in (said.sqlstate, said.message_primary, said.message_detail, said.context))

    def error_of_ours(self, statement: str, data: bytes) -> tuple[str, ...]:
        self.file.write_bytes(data)
        with pytest.raises(PgError) as caught:
            self.ours(statement.replace("STDIN", f"'{self.file}'"))
        said = caught.value.report
        return tuple(str(each) for each in (said.sqlstate, said.message, said.detail, said.context))

    def same(self, text: str) -> Rows | Said:
        """What both answer to a statement, which has to be the same: rows, or the fields of an error."""
        there, here = self._there(text), self._here(text)
        assert (text, here) == (text, there)
        return here

    def _there(self, text: str) -> Rows | Said:
        with self.link.cursor() as cursor:
            try:
                cursor.execute(text.encode())
            except psycopg.Error as error:
                said = error.diag
                return _said(said.sqlstate, said.message_primary, said.message_detail, said.message_hint)
            found = cursor.pgresult
            assert found is not None
            cells = [[found.get_value(r, c) for c in range(found.nfields)] for r in range(found.ntuples)]
            return [tuple([None if cell is None else bytes(cell).decode() for cell in row]) for row in cells]

    def _here(self, text: str) -> Rows | Said:
        try:
            return self.ours(text)
        except PgError as error:
            said = error.report
            return _said(said.sqlstate, said.message, said.detail, said.hint)


def _said(*fields: str | None) -> Said:
    return tuple([field or "" for field in fields])
