"""Plays one psql script on real servers, or through pgrepl, and gives back what was printed, byte for byte comparable.

A script starts in database `test_pub` of the publisher; `\\c test_sub` moves to the subscriber, which is another
server (a subscription inside one server would wait for itself). With pgrepl both are databases of one fresh
catalog.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness import forked
from tests.harness.forked import pgrepl
from tests.harness.programs import environment
from tests.postgres.server import Server

DATABASES = ("test_pub", "test_sub")
CONNECT = re.compile(r"^\\c (test_pub|test_sub)( [a-z_0-9]+)?$", re.M)
SYNC_SLOT = re.compile(r"pg_\d+_sync_\d+_\d+")  # OIDs and the system identifier
HOST_PART = re.compile(r'(as user "[^"]*") via socket in "[^"]*" at port "\d+"\.')
CATALOG_PART = re.compile(r'(as user "[^"]*") in catalog "[^"]*"\.')  # pgrepl says this instead


def clean_environment() -> dict[str, str]:
    return environment(PGUSER="postgres", PSQL_HISTORY="/dev/null")


@dataclass
class Pair:
    """A publisher, a subscriber and the psql that speaks to both."""

    publisher: Server
    subscriber: Server
    psql: Path

    def of(self, database: str) -> Server:
        return self.subscriber if database == "test_sub" else self.publisher

    def ask(self, server: Server, database: str, text: str, *options: str) -> str:
        command = [str(self.psql), "-X", *options, "-h", server.host, "-p", str(server.port), "-d", database]
        with tempfile.TemporaryDirectory() as folder:  # for what scripts write
            done = subprocess.run(
                command,
                input=text.encode(),
                cwd=folder,
                env=clean_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        return done.stdout.decode("utf-8", "surrogateescape")

    def clean(self) -> None:
        """As after initdb, but for the two empty databases."""
        for server in (self.subscriber, self.publisher):
            listed = self.ask(server, "postgres", "SELECT datname FROM pg_database WHERE NOT datistemplate;", "-Atq")
            for database in listed.split():
                if database != "postgres":
                    forget = (
                        "SELECT format('ALTER SUBSCRIPTION %I DISABLE; ALTER SUBSCRIPTION %I SET (slot_name = NONE); "
                        "DROP SUBSCRIPTION %I', subname, subname, subname) FROM pg_subscription s JOIN pg_database d "
                        "ON d.oid = subdbid AND datname = current_database() \\gexec\n"
                    )
                    self.ask(server, database, forget, "-q")
            drop_slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots;\n"
            drops = "".join(f'DROP DATABASE IF EXISTS "{d}" WITH (FORCE);\n' for d in listed.split() if d != "postgres")
            roles = (
                "SELECT format('DROP OWNED BY %I CASCADE', rolname) FROM pg_roles WHERE oid >= 16384 \\gexec\n"
                "SELECT format('DROP ROLE %I', rolname) FROM pg_roles WHERE oid >= 16384 \\gexec\n"
                "SELECT format('ALTER ROLE ALL RESET ALL') \\gexec\n"
                "ALTER ROLE postgres RESET ALL;\n"
            )
            origins = "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin;\n"
            create = "".join(f"CREATE DATABASE {d};\n" for d in DATABASES)
            self.ask(server, "postgres", drop_slots + origins + drops + roles + create, "-q")

    def play(self, script: str) -> str:
        self.clean()

        def elsewhere(match: re.Match[str]) -> str:
            server = self.of(match[1])
            user = f" user={match[2].strip()}" if match[2] else " user=postgres"
            return f'\\c "dbname={match[1]} host={server.host} port={server.port}{user}"'

        printed = self.ask(self.publisher, "test_pub", CONNECT.sub(elsewhere, script), "-a")
        printed = HOST_PART.sub(r"\1.", printed).replace(f"port {self.publisher.port}", "port 5432")
        printed = SYNC_SLOT.sub("pg_N_sync_N_N", printed).replace(f".s.PGSQL.{self.publisher.port}", ".s.PGSQL.5432")
        back = re.compile(r'\\c "dbname=(\w+) host=\S+ port=\d+ user=(\w+)"')
        return back.sub(lambda m: f"\\c {m[1]}" + ("" if m[2] == "postgres" else f" {m[2]}"), printed)


def play_pgrepl(script: str, folder: Path, options: Sequence[str] = ("-a",), release: int = 17) -> str:
    setup = [part for d in DATABASES for part in ("-c", f"CREATE DATABASE {d}")]
    if release != 17:
        spoken = f"pgrepl.postgres_version = {release}"
        setup += [part for d in DATABASES for part in ("-c", f"ALTER DATABASE {d} SET {spoken}")]
    made = pgrepl("-X", "-q", *setup, cwd=folder, PGUSER="postgres")
    assert made.returncode == 0, made.stderr
    # the servers that were recorded have no logical replication workers either
    command = ["pgrepl", "-X", *options, "-v", "AUTOAPPLY=off", "-d", "test_pub"]
    done = forked.run(command, input=script.encode(), cwd=folder, env=clean_environment(), apart=False)
    printed = CATALOG_PART.sub(r"\1.", done.stdout.decode("utf-8", "surrogateescape"))
    return SYNC_SLOT.sub("pg_N_sync_N_N", printed)


def difference(wanted: str, got: str) -> str:
    """A unified diff without context and line numbers, empty when equal."""
    lines = difflib.unified_diff(wanted.splitlines(), got.splitlines(), lineterm="", n=0)
    return "".join(line + "\n" for line in list(lines)[2:] if not line.startswith("@@"))
