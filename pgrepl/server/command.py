"""`pgrepl serve`: its command line, what it loads before the first backend is forked, and its own processes.

These are one that does what `pgrepl apply --follow` does, and one that has the JVM which all others use.
"""

from __future__ import annotations

import os
import pwd
import secrets
import signal
import ssl
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pgrepl.api.opened import OpenedSession
from pgrepl.api.rounds import launched, server_log, stoppable, vacuuming
from pgrepl.backend import open_session
from pgrepl.catalog.facts import activity
from pgrepl.catalog.store.opening import open_catalog
from pgrepl.engine import spark
from pgrepl.engine.spark_host import Host
from pgrepl.ground import lazy
from pgrepl.ground.errors import PgError
from pgrepl.replication.log import ServerLog
from pgrepl.server import connection_process
from pgrepl.server.authentication import AuthenticationConfig, certificate_hash
from pgrepl.server.connection import Server, settings_in
from pgrepl.server.hba import read_rules
from pgrepl.server.http import listen
from pgrepl.server.iceberg_access import Access, Storage
from pgrepl.server.monitoring import monitoring_process, while_starting
from pgrepl.server.postmaster import AuxiliaryProcess, Postmaster
from pgrepl.server.settings import ServerSettings, ServerState, make_access_files, server_settings
from pgrepl.server.startup import server_context
from pgrepl.shell.commands.subcommand import FAILURE, OK, on_spark
from pgrepl.statements.describe import prepare
from pgrepl.statements.run import run as run_statements

if TYPE_CHECKING:
    from pgrepl.engine.spark_shared import HostChannel
    from pgrepl.replication.subscriber.attach import Round
    from pgrepl.replication.subscriber.launcher import SubscriptionToServe
    from pgrepl.replication.subscriber.worker import Worker

_STATEMENTS = (
    "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(9,2) DEFAULT 1, d timestamptz DEFAULT now())",
    "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL) ON CONFLICT DO NOTHING RETURNING a",
    "UPDATE t SET b = b || 'y', c = c + 1 WHERE a = 1",
    "SELECT a, count(*), sum(c) FROM t x WHERE EXISTS (SELECT FROM t y WHERE y.a = x.a) GROUP BY a ORDER BY 1",
    "SELECT c.relname, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON"
    " i.indrelid = c.oid WHERE c.relname ~ '^t$' AND pg_table_is_visible(c.oid)",
    "CREATE PUBLICATION p FOR TABLE t WHERE (a > 1)",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    "DELETE FROM t WHERE a = 2",
    "SELECT pg_logical_slot_get_binary_changes('s', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')",
    "VACUUM t",  # into a file
    "SELECT b FROM t WHERE a = 1",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    # what a subscriber asks
    "SELECT array_length(gpt.attrs, 1) = c.relnatts, pg_get_expr(gpt.qual, gpt.relid) FROM pg_publication p, LATERAL"
    " pg_get_publication_tables(p.pubname) gpt, pg_class c WHERE c.oid = gpt.relid AND p.pubname IN ('p')",
    "SELECT a.attname, a.attnum = ANY(i.indkey) FROM pg_attribute a LEFT JOIN pg_index i ON i.indexrelid ="
    " pg_get_replica_identity_index('t'::regclass) WHERE a.attnum > 0::int2 AND a.attrelid = 't'::regclass",
    "COPY t (a, b) TO '/dev/null'",
    "COMMIT",
)


def load() -> None:
    """Run some usual statements in a catalog of their own, and load what copies by whole columns."""
    from pgrepl.query import table_rows  # noqa: F401

    lazy.load()
    connection_process.setter()
    with tempfile.TemporaryDirectory(prefix="pgrepl-") as folder:
        opened = OpenedSession(f"{folder}/catalog.db", "postgres", "postgres")
        try:
            for statement in _STATEMENTS:
                for result in opened.run(statement):
                    list(result.rows)
            prepare(opened.session, "SELECT b FROM t WHERE a = $1")
        finally:
            opened.close()


# --- workers ----------------------------------------------------------------------------------------------------------


_INTERVAL = 0.2  # seconds between two looks at a publisher that has nothing new


class Stopped(BaseException):
    """SIGTERM has come."""


def worker_process(
    catalog: str, settings: ServerSettings, log: ServerLog, log_file: str | None
) -> Callable[[int], None]:
    def run(place: int) -> None:
        with stoppable([signal.SIGTERM, signal.SIGINT], lambda number: Stopped()):
            opened = open_catalog(catalog, folder=str(settings.folder))
            try:
                session = open_session(opened, "postgres", "postgres")
                session.settings.set_by_command_line(settings.given)
                activity.show_process(place, "logical replication launcher")
                with (
                    launched(
                        session, (), None if log_file is None else log.path, everywhere=True, keeps_leases=True
                    ) as launcher,
                    vacuuming(session, log.path),
                ):
                    launcher.follow(_INTERVAL, _round)
            except Stopped:
                return
            finally:
                opened.close()

    return run


def spark_process(way: HostChannel, log: ServerLog) -> Callable[[int], None]:
    def run(place: int) -> None:
        activity.show_process(place, "pgrepl spark")
        Host(way, log.log).run()

    return run


def _round(_: SubscriptionToServe, worker: Worker) -> Round:
    return worker.round()


# --- command ----------------------------------------------------------------------------------------------------------


_NO_URL = "pgrepl serve needs a catalog in a file, not on a database server"


@click.command("serve", short_help="let PostgreSQL's clients and subscribers connect")
@click.option("--catalog", envvar="PGREPL_CATALOG", default="catalog.db", help="the catalog's file")
@click.option("--listen", "addresses", metavar="ADDRESS[,…]", help="TCP addresses, such as 127.0.0.1 (default: none)")
@click.option("-p", "--port", type=click.IntRange(1, 65535), help="the port, part of the socket's name (default: 5432)")
@click.option("-k", "--socket-dir", metavar="FOLDER", help="where the socket is (default: beside the catalog)")
@click.option("-c", "settings", metavar="NAME=VALUE", multiple=True, help="a setting, as in ALTER SYSTEM")
@click.option(
    "--http", "--metrics", "metrics", metavar="[ADDRESS:]PORT",
    help="show a page there, and answer /metrics and /healthz (default: nowhere)",
)  # fmt: skip
@click.option("--iceberg", metavar="[ADDRESS:]PORT", help="answer readers of Iceberg there (default: nowhere)")
@click.option("--log-file", type=click.Path(dir_okay=False, path_type=Path), help="append the log to this file")
@click.option(
    "--pidfile", type=click.Path(dir_okay=False, path_type=Path), help="write the server's process number there"
)
@click.option("--daemon", is_flag=True, help="go on in the background once connections are accepted")
@on_spark
def serve_command(
    catalog: str, addresses: str | None, port: int | None, socket_dir: str | None, settings: tuple[str, ...],
    metrics: str | None, iceberg: str | None, log_file: Path | None, pidfile: Path | None, daemon: bool,
    data_path: str | None,
) -> int:  # fmt: skip
    """Serve a catalog to everything that speaks PostgreSQL: psql, drivers, and subscribers.

    Without --listen there is only a Unix socket beside the catalog, where the catalog's owner may be any role. Who else
    may enter stands in pg_hba.conf beside the catalog, with PostgreSQL's rules. Subscriptions of the catalog are kept
    up to date, and tables in shape, while the server runs.

    \b
    pgrepl serve                          psql -h "$PWD" -U postgres shop
    pgrepl serve --listen 127.0.0.1       after a rule in pg_hba.conf and ALTER ROLE … PASSWORD
    pgrepl serve --daemon --log-file l.log --pidfile p.pid

    SIGTERM waits for the clients to leave, SIGINT (Ctrl-C) ends their sessions, SIGQUIT ends all at once.
    """
    given = {**settings_in(os.environ.get("PGOPTIONS", "")), **dict(_pair(setting) for setting in settings)}
    for name, value in (
        ("listen_addresses", addresses),
        ("port", port),
        ("unix_socket_directories", socket_dir),
        ("pgrepl.metrics_listen", metrics),
        ("pgrepl.iceberg_listen", iceberg),
    ):
        if value is not None:
            given[name] = str(value)
    is_shared = "://" in catalog
    if is_shared and (iceberg is None or addresses or port or socket_dir or metrics):
        raise PgError("0A000", _NO_URL, hint="With --iceberg alone it answers readers of Iceberg.")
    path = catalog if is_shared else str(Path(catalog).absolute())
    prepared = _prepared(path, Path.cwd() if is_shared else Path(path).parent, data_path, given)
    if daemon:
        ready = _in_background(log_file)
    else:
        ready = None
    return _serve(path, prepared, given, log_file, pidfile, ready)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"-c {text} requires a value")
    return name.strip().replace("-", "_").lower(), value


def _prepared(path: str, folder: Path, data_path: str | None, given: dict[str, str]) -> ServerSettings:
    """Open the catalog, make it if there is none, and load what every session needs."""
    catalog = open_catalog(path, data_path=data_path)
    try:
        session = open_session(catalog)
        try:
            settings = server_settings(session, folder, given)
            for _ in run_statements(
                session, "SELECT count(*) FROM pg_class WHERE relname = 'x' AND oid > 5 ORDER BY 1"
            ):
                pass
        finally:
            session.close()
    finally:
        catalog.close()
    owner = os.getuid() if "://" in path else os.stat(path).st_uid
    make_access_files(settings, pwd.getpwuid(owner).pw_name)
    return settings


def _serve(
    path: str,
    settings: ServerSettings,
    given: dict[str, str],
    log_file: Path | None,
    pidfile: Path | None,
    ready: int | None,
) -> int:
    log = server_log(log_file)
    tls = _tls(settings, "postgresql")
    binding = None if settings.certificate is None else _certificate_hash(settings.certificate)
    state = ServerState()
    listening = None if settings.metrics is None else listen(settings.metrics, "statistics")
    with while_starting(listening, state):
        load()
    with suppress(PgError):  # who connects is told
        read_rules(settings.hba_file)
    config = AuthenticationConfig(settings.hba_file, settings.ident_file, binding, secrets.token_bytes(32))
    access = Access(config, secrets.token_bytes(32))
    own, way = [], None
    is_shared = "://" in path  # by several machines: only readers of Iceberg are answered
    if not is_shared:
        following = worker_process(path, settings, log, str(log_file) if log_file else None)
        own.append(AuxiliaryProcess("logical replication launcher", following))
        way = spark.share()
    if way is not None:
        own.append(AuxiliaryProcess("spark", spark_process(way, log), way.host, lasts=True))
    if listening is not None:
        answering = monitoring_process(listening, state, settings, path, log, access, _tls(settings, "http/1.1"))
        own.append(AuxiliaryProcess("monitor", answering, listening, lasts=True))
    if settings.iceberg is not None:
        own.append(_iceberg(settings, settings.iceberg, path, access, log))
    server = Server(path, settings, log, tls, config)
    postmaster = Postmaster(settings, log, server.attend, own, state, accepts=not is_shared)
    if not is_shared:
        postmaster.lock_catalog(Path(f"{path}-server.pid"))
    if pidfile is not None:
        pidfile.write_text(f"{os.getpid()}\n")
    try:
        return postmaster.run(lambda: _tell(ready))
    finally:
        if pidfile is not None:
            pidfile.unlink(missing_ok=True)


def _iceberg(
    settings: ServerSettings, address: tuple[str, int], catalog: str, access: Access, log: ServerLog
) -> AuxiliaryProcess:
    """The process that answers readers of Iceberg; its tokens hold as long as this server."""
    from pgrepl.server.iceberg import Routes, iceberg_process

    listening = listen(address, "readers of Iceberg")
    log.log(f'answering readers of Iceberg on address "{address[0]}", port {address[1]}')
    routes = Routes(access, Storage())
    answering = iceberg_process(listening, routes, settings, catalog, log, _tls(settings, "http/1.1"))
    return AuxiliaryProcess("iceberg", answering, listening)


def _tls(settings: ServerSettings, protocol: str) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    return server_context(settings.certificate, settings.key, settings.authority, protocol)


def _certificate_hash(certificate: Path) -> bytes:
    text = certificate.read_text()
    begin = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")
    return certificate_hash(ssl.PEM_cert_to_DER_cert(text[begin:end]), "sha256")


def _in_background(log_file: Path | None) -> int:
    """Leave the terminal; the process that was started ends once connections are accepted."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        told = os.read(reading, 1)
        os._exit(OK if told == b"+" else FAILURE)
    os.close(reading)
    os.setsid()
    if os.fork():
        os._exit(OK)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    if log_file is not None:
        os.dup2(nothing, 2)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return writing


def _tell(ready: int | None) -> None:
    if ready is not None:
        os.write(ready, b"+")
        os.close(ready)
