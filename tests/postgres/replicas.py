"""Databases of one real server, `pub`, `sub` and `third`, which replicate when a test says so.

The subscription is disabled but while the test waits: so what is pending and what has been applied is the same at
every run, and the same as where nothing happens by itself. Errors are read from the server's log (JSON).

Inside one server CREATE SUBSCRIPTION must find its slot made: it would wait for itself otherwise.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.postgres.server import Server, new_server

SETTINGS = """
max_logical_replication_workers = 20
max_worker_processes = 30
max_sync_workers_per_subscription = 2
max_replication_slots = 40
max_wal_senders = 40
wal_retrieve_retry_interval = 20ms
wal_writer_delay = 10ms
synchronous_commit = on
max_prepared_transactions = 10
autovacuum = off
log_min_messages = warning
logging_collector = on
log_destination = 'jsonlog'
log_filename = 'server.log'
log_rotation_age = 0
"""
PATIENCE = 90.0  # seconds until a sync that does not end is a failure

Answer = tuple[Any, ...]
Rows = list[tuple[Any, ...]]


class Failure(NamedTuple):
    """An error of a worker, without the numbers that no two runs share; `finish` is the LSN to skip."""

    message: str
    detail: str | None
    context: str | None
    finish: str | None


def failure(message: str, detail: str | None, context: str | None) -> Failure:
    found = re.search(r"finished at ([0-9A-F]+/[0-9A-F]+)", context or "")
    return Failure(_plain(message), *[each and _plain(each) for each in (detail, context)], found[1] if found else None)


def _plain(text: str) -> str:
    # whose the other row of a conflict was is known here without commit timestamps
    text = re.sub(r'(unique index "[^"]*"), modified .*\.$', r"\1.", text, flags=re.MULTILINE)
    text = re.sub(r"[0-9A-F]+/[0-9A-F]+", "LSN", text)
    text = re.sub(r"in transaction \d+", "in transaction N", text)
    text = re.sub(r"pg_\d+_sync_\d+_\d+", "pg_N_sync_N_N", text)
    return re.sub(r'"pg_\d+(_\d+)?"', '"pg_N"', text)


DATABASES = ("pub", "sub", "third")


class RealReplicas:
    """The databases of a server; `pub` may be another's."""

    def __init__(self, server: Server, publisher: Server | None = None) -> None:
        import psycopg

        self._server = server
        self._places = {name: publisher if publisher and name == "pub" else server for name in DATABASES}
        self._links = {}
        for name, place in self._places.items():
            with psycopg.connect(f"{_dsn(place)} dbname=postgres", autocommit=True) as link:
                link.execute(f"CREATE DATABASE {name}")
            self._links[name] = psycopg.connect(self.conninfo(name), autocommit=True, prepare_threshold=None)
        self._log = next((server.folder / "data" / "log").glob("*.json"))
        self._read = 0

    def conninfo(self, where: str) -> str:
        return f"{_dsn(self._places[where])} dbname={where}"

    def run(self, where: str, text: str) -> Answer:
        """The tag of a statement, or its error."""
        import psycopg

        with self._links[where].cursor() as cursor:
            try:
                cursor.execute(text.encode())
            except psycopg.Error as error:
                said = error.diag
                return ("error", said.sqlstate, said.message_primary, said.message_detail)
            return ("done", cursor.statusmessage)

    def rows(self, where: str, text: str) -> Rows:
        with self._links[where].cursor() as cursor:
            cursor.execute(text.encode())
            assert cursor.pgresult is not None
            found = cursor.pgresult
            values = [[found.get_value(r, c) for c in range(found.nfields)] for r in range(found.ntuples)]
            return [tuple([None if v is None else bytes(v).decode() for v in row]) for row in values]

    def catch_up(self, subscription: str, at: str = "sub") -> list[Failure]:
        """Wait until an enabled subscription has everything, or an error has disabled it; the errors."""
        ((lsn,),) = self.rows("pub", "SELECT pg_current_wal_flush_lsn()")
        until = time.monotonic() + PATIENCE
        heard: list[dict[str, Any]] = []
        while time.monotonic() < until:
            heard += self._logged()
            ((enabled,),) = self.rows(at, f"SELECT subenabled FROM pg_subscription WHERE subname = '{subscription}'")
            if enabled == "f":
                found = self._errors(heard, until)
                if found:
                    return found
                self.run(at, f"ALTER SUBSCRIPTION {subscription} ENABLE")  # it was in its own way
            elif self._settled(subscription, at, lsn):
                return []
            elif len(fatal := _fatal(heard)) > 2 and fatal[-1] == fatal[-2]:  # not late ones from before
                self.run(at, f"ALTER SUBSCRIPTION {subscription} DISABLE")  # they would be started again and again
                self.quiet()
                list(self._logged())
                return fatal[-1:]
            time.sleep(0.005)
        raise AssertionError(f"{subscription} does not come to rest: {self._server.folder}")

    def _settled(self, subscription: str, at: str, lsn: str) -> bool:
        copying = (
            "SELECT count(*) FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = srsubid "
            f"WHERE subname = '{subscription}' AND srsubstate NOT IN ('s', 'r')"
        )
        behind = (
            f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{subscription}' "
            f"AND confirmed_flush_lsn < '{lsn}'"
        )
        return self.rows(at, copying) == [("0",)] and self.rows("pub", behind) == [("0",)]

    def quiet(self) -> None:
        """Wait until the workers of disabled subscriptions have gone."""
        until = time.monotonic() + PATIENCE
        left = "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^(logical replication .*worker|walsender)$'"
        while any(self.rows(where, left) != [("0",)] for where in ("sub", "pub")):
            assert time.monotonic() < until, "workers do not end"
            time.sleep(0.005)

    def _errors(self, heard: list[dict[str, Any]], until: float) -> list[Failure]:
        """What workers said, but of a predecessor that had not ended yet."""
        self.quiet()
        while time.monotonic() < until:
            heard += self._logged()
            logged = [entry for entry in heard if entry["error_severity"] == "ERROR"]
            if logged:
                return [
                    failure(entry["message"], entry.get("detail"), entry.get("context"))
                    for entry in logged
                    if " active for PID " not in entry["message"]
                ]
            time.sleep(0.005)
        raise AssertionError("a subscription was disabled without a word")

    def _logged(self) -> Iterator[dict[str, Any]]:
        """What workers have said since they were asked last."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                entry = json.loads(line)
                if entry["backend_type"].startswith("logical replication"):
                    yield entry

    def renew(self) -> None:
        """As when they were made."""
        left = "SELECT quote_literal(gid) FROM pg_prepared_xacts WHERE database = current_database()"
        for where, link in self._links.items():
            link.execute("ROLLBACK")
            for (gid,) in self.rows(where, left):  # a new slot would wait for it
                self.run(where, f"ROLLBACK PREPARED {gid}")
        listed = "SELECT quote_ident(subname), datname FROM pg_subscription JOIN pg_database d ON d.oid = subdbid"
        for name, where in self.rows("sub", listed):
            for text in ("ALTER {} DISABLE", "ALTER {} SET (slot_name = NONE)", "DROP {}"):
                self.run(where, text.format(f"SUBSCRIPTION {name}"))
        self.quiet()
        self.rows("pub", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        self.rows("sub", "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin")
        for where in DATABASES:
            for (name,) in self.rows(where, "SELECT quote_ident(pubname) FROM pg_publication"):
                self.run(where, f"DROP PUBLICATION {name}")
            for (name,) in self.rows(
                where, "SELECT quote_ident(nspname) FROM pg_namespace WHERE nspname !~ '^pg_|^inf'"
            ):
                self.run(where, f"DROP SCHEMA {name} CASCADE")
            self.run(where, "CREATE SCHEMA public")
            self.run(where, "GRANT USAGE ON SCHEMA public TO PUBLIC")
            ((database,),) = self.rows(where, "SELECT quote_ident(current_database())")
            self.run(where, f"GRANT CONNECT ON DATABASE {database} TO PUBLIC")
        roles = "SELECT quote_ident(rolname) FROM pg_roles WHERE oid >= 16384"
        for (name,) in self.rows("pub", roles):
            for where in [where for where, place in self._places.items() if place is self._places["pub"]]:
                self.run(where, f"DROP OWNED BY {name} CASCADE")
            self.run("pub", f"DROP ROLE {name}")
        for _ in self._logged():
            pass

    def close(self) -> None:
        for link in self._links.values():
            link.close()


def _dsn(server: Server) -> str:
    return f"host={server.host} port={server.port} user=postgres"


def replicating_server(version: int = 16) -> Server:
    return new_server(version, SETTINGS)


def _fatal(heard: Sequence[dict[str, Any]]) -> list[Failure]:
    """What ended workers before they began."""
    found = [entry for entry in heard if entry["error_severity"] == "FATAL"]
    return [failure(entry["message"], entry.get("detail"), entry.get("context")) for entry in found]
