"""The server's own processes: one that applies what publishers of this catalog's subscriptions send, with autovacuum
beside it, which is what `pgrepl apply --follow` is; and one that has the JVM which all others use.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgrepl.api.rounds import launched, stoppable, vacuuming
from pgrepl.catalog import activity
from pgrepl.replication.log import ServerLog
from pgrepl.server.settings import ServerSettings

if TYPE_CHECKING:
    from pgrepl.lake.spark_shared import HostChannel
    from pgrepl.replication.subscriber.launcher import SubscriptionToServe
    from pgrepl.replication.subscriber.round import Round
    from pgrepl.replication.subscriber.worker import Worker

_INTERVAL = 0.2  # seconds between two looks at a publisher that has nothing new


class Stopped(BaseException):
    """SIGTERM has come."""


def worker_process(
    catalog: str, settings: ServerSettings, log: ServerLog, log_file: str | None
) -> Callable[[int], None]:
    def run(place: int) -> None:
        from pgrepl.backend import open_session
        from pgrepl.catalog.opening import open_catalog

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
        from pgrepl.lake.spark_host import Host

        activity.show_process(place, "pgrepl spark")
        Host(way, log.log).run()

    return run


def _round(_: SubscriptionToServe, worker: Worker) -> Round:
    return worker.round()
