"""Scripts of several sessions, played alike on a server and on pgrepl: what each statement answers, with notices,
errors and notifications. Process numbers are shown as the sessions' names."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.harness.programs import PATIENCE, eventually

Connect = Callable[..., "psycopg.Connection[Any]"]


class PlayedSessions:
    """Sessions that begin with their first statement."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._sessions: dict[str, psycopg.Connection[Any]] = {}
        self._running: dict[str, threading.Thread] = {}
        self._beside: dict[str, list[str]] = {}  # what a session tells that runs beside others
        self._snapshot = ""  # the last that was exported
        self.lines: list[str] = []

    def session(self, name: str) -> psycopg.Connection[Any]:
        if name not in self._sessions:
            con = self._sessions[name] = self._connect()
            con.add_notice_handler(lambda diag: self._tell(name, f"{diag.severity}: {diag.message_primary}"))
        return self._sessions[name]

    def _tell(self, name: str, text: str) -> None:
        for other, con in self._sessions.items():
            text = re.sub(rf"\b{con.info.backend_pid}\b", f"<{other}>", text) if not con.closed else text
        self._beside.get(name, self.lines).append(f"{name}: {text}")

    def run(self, name: str, query: str) -> None:
        con = self.session(name)
        try:
            cursor = con.execute(query)
            rows = cursor.fetchall() if cursor.description else cursor.statusmessage
        except psycopg.Error as error:
            diag = error.diag
            about = [each for each in (diag.message_detail, diag.message_hint, diag.context) if each]
            self._tell(name, f"{diag.severity} {diag.sqlstate}: {' | '.join([diag.message_primary or '', *about])}")
            return
        if re.search(r"pg_export_snapshot", query) and isinstance(rows, list):
            self._snapshot = rows[0][0]
            rows = [(re.sub(r"\w+", "hex", self._snapshot),)]
        self._tell(name, str(rows))

    def play(self, script: str) -> list[str]:
        """Play lines of `name: statement`. `name& statement` runs beside the next ones, which begin when it waits for a
        lock; `name!` waits for its end; `name= statement` has the last exported snapshot for `{}`; `name?` tells the
        notifications that have come; `name-` ends the session."""
        for line in script.strip().splitlines():
            found = re.fullmatch(r"\s*(\w+)([:&!?=-])\s*(.*)", line)
            assert found is not None, line
            name, kind, query = found.groups()
            if kind == ":":
                self.run(name, query)
            elif kind == "=":
                self.run(name, query.format(self._snapshot))
            elif kind == "&":
                self.session(name)
                self._beside[name] = []
                self._running[name] = threading.Thread(target=self.run, args=(name, query))
                self._running[name].start()
                self._until_it_waits(name)
            elif kind == "!":
                self._running.pop(name).join(PATIENCE)
                self.lines += self._beside.pop(name)
            elif kind == "?":
                self.session(name).execute("SELECT 1")  # what has come is told before its end
                for each in self.session(name).notifies(timeout=0):
                    self._tell(name, f"{each.channel} {each.payload!r} from {each.pid}")
            else:
                self._sessions.pop(name).close()
        return self.lines

    def _until_it_waits(self, name: str) -> None:
        pid = self._sessions[name].info.backend_pid
        asked = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s"
        observer = self.session("observer")
        eventually(lambda: observer.execute(asked, [pid]).fetchall()[0][0] > 0)

    def close(self) -> None:
        for con in self._sessions.values():
            con.close()
        for thread in self._running.values():
            thread.join(PATIENCE)


@contextmanager
def played_sessions(connect: Connect) -> Iterator[PlayedSessions]:
    made = PlayedSessions(connect)
    try:
        yield made
    finally:
        made.close()
