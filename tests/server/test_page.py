"""Who may see a server's page, and what of it; and the page in a browser."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import pgrepl
from pgrepl.api.overview import overview
from pgrepl.api.overview_history import History
from pgrepl.replication.log import ServerLog
from pgrepl.server.authentication import AuthenticationConfig
from pgrepl.server.http import Answer, Request
from pgrepl.server.iceberg import Desk, open_outside
from pgrepl.server.iceberg_access import Access
from pgrepl.server.page import PageRoutes, Watched
from pgrepl.server.settings import server_settings
from tests.harness.forked import pgrepl as pgrepl_program
from tests.harness.programs import eventually
from tests.harness.serving import serving
from tests.postgres.server import free_port
from tests.server.test_iceberg_access import Peer
from tests.server.test_monitoring import get

NEAR, FAR = "127.0.0.1", "192.0.2.7"
RULES = f"host all trusted {NEAR}/32 trust\nhost all all {NEAR}/32 scram-sha-256\nhost all all {FAR}/32 scram-sha-256\n"


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


class Asking:
    """Asks for the page, by no network."""

    def __init__(self, folder: Path) -> None:
        catalog = str(folder / "catalog.db")
        (folder / "pg_hba.conf").write_text(RULES)
        (folder / "pg_ident.conf").touch()
        with pgrepl.connect(catalog, autocommit=True) as con:
            cursor = con.cursor()
            for role in ("ann", "watcher"):
                cursor.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'of {role}'")
            cursor.execute("CREATE ROLE trusted LOGIN")
            cursor.execute("GRANT pg_monitor TO watcher")
            cursor.execute("CREATE DATABASE closed")
            cursor.execute("REVOKE CONNECT ON DATABASE closed FROM public")
            cursor.execute("CREATE TABLE hers (a int PRIMARY KEY)")
            cursor.execute("CREATE TABLE secret (a int PRIMARY KEY)")
            cursor.execute("GRANT SELECT ON hers TO ann")
            cursor.execute("CREATE PUBLICATION everything FOR TABLE hers, secret")
            cursor.execute(
                "CREATE SUBSCRIPTION far CONNECTION 'host=127.0.0.1 port=1 dbname=erp password=pwpwpw' PUBLICATION x "
                "WITH (connect = false)"
            )
            settings = server_settings(con.session, folder, {})
            watched = Watched(History(None))
            watched.collect(con.session)
            assert [each.name for each in overview(con.session).databases if each.tables] == ["postgres"]
        self.access = Access(AuthenticationConfig(settings.hba_file, settings.ident_file, None, b""), b"k")
        self.desk = Desk(
            PageRoutes(self.access, watched), lambda: open_outside(catalog, settings), ServerLog(folder / "log")
        )
        self.outside = open_outside(catalog, settings)

    def ask(self, authorization: str = "", address: str = NEAR) -> Answer:
        headers = {"authorization": authorization} if authorization else {}
        request = Request("GET", "/", "", headers, b"", Peer(address), time.monotonic())  # type: ignore[arg-type]
        answer: Answer | None = None
        while answer is None:
            answer = self.desk.respond(request)
            time.sleep(0.001)
        return answer


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    found = Asking(tmp_path_factory.mktemp("page"))
    yield found
    found.outside.close()


def test_who_says_nothing_is_asked_for_a_password(asking: Asking) -> None:
    answer = asking.ask()
    assert answer.status == 401
    assert ("WWW-Authenticate", 'Basic realm="pgrepl", charset="UTF-8"') in answer.headers
    assert "pgrepl" not in answer.body


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (basic("ann", "of ann"), 200), (basic("trusted", ""), 200), ("Basic !", 400), ("Digest x", 401),
        ("Bearer x.y", 401), (basic("nobody", "x"), 401),
    ],
)  # fmt: skip
def test_who_may_enter(asking: Asking, authorization: str, status: int) -> None:
    assert asking.ask(authorization).status == status


def test_a_wrong_password_is_told_late(asking: Asking) -> None:
    began = time.monotonic()
    answer = asking.ask(basic("ann", "wrong"))
    assert (answer.status, answer.body) == (401, 'password authentication failed for user "ann"\n')
    assert time.monotonic() - began >= 1


def test_a_password_that_others_could_read_is_not_taken(asking: Asking) -> None:
    answer = asking.ask(basic("ann", "of ann"), FAR)
    assert (answer.status, answer.body) == (400, "a password is taken over TLS only\n")


def test_a_token_of_the_iceberg_catalog_is_taken(asking: Asking) -> None:
    from pgrepl.catalog.session.transaction import reading

    form = b"grant_type=client_credentials&client_id=ann&client_secret=of+ann"
    request = Request("POST", "/", "", {}, form, Peer(NEAR), 0.0)  # type: ignore[arg-type]
    with reading(asking.outside):
        token = asking.access.grant(asking.outside, request)["access_token"]
    assert asking.ask(f"Bearer {token}").status == 200


def test_what_a_role_may_not_see_is_not_there(asking: Asking) -> None:
    hers = asking.ask(basic("ann", "of ann")).body
    assert "public.hers" in hers and "far" in hers
    for hidden in ("secret", "erp", "127.0.0.1", "closed", "refused", "of ann", "pwpwpw"):
        assert hidden not in hers
    everything = asking.ask(basic("watcher", "of watcher")).body
    for shown in ("public.hers", "public.secret", "erp at 127.0.0.1:1"):
        assert shown in everything
    assert "pwpwpw" not in everything and "closed" not in everything


def test_what_a_browser_is_told(asking: Asking) -> None:
    answer = asking.ask(basic("ann", "of ann"))
    headers = dict(answer.headers)
    assert answer.content_type == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
    assert "Set-Cookie" not in headers


def _chromium() -> str | None:
    return next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
                None)  # fmt: skip


def _browse(address: str, *options: str) -> Any:
    program = _chromium()
    assert program is not None
    given = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *options, address]
    return subprocess.run(given, capture_output=True, text=True, timeout=300, check=True)


@pytest.mark.slow
@pytest.mark.skipif(_chromium() is None, reason="there is no chromium: apt-get install chromium")
def test_in_a_browser(tmp_path: Path) -> None:
    """It breaks no rule of its policy, its script runs, and it is as wide as a narrow or a large screen."""
    port = free_port()
    with serving(tmp_path / "served", "--http", str(port)) as served:
        served.ask('CREATE TABLE "<b>a table with quite a long name that has to go somewhere</b>" (a int PRIMARY KEY)')
        eventually(lambda: "a table with" in get(port, "/")[1])
        shown = _browse(
            f"http://127.0.0.1:{port}/", "--dump-dom", "--virtual-time-budget=25000", "--enable-logging=stderr"
        )
        assert "Pause</button>" in shown.stdout  # the script was allowed to run
        assert "&lt;b&gt;a table" in shown.stdout
        assert "Content Security Policy" not in shown.stderr
        done = pgrepl_program("status", "--html", "page.html", cwd=served.folder)
        assert done.returncode == 0, done.stderr
        (served.folder / "frame.html").write_text(_FRAME)
        with _files(served.folder) as address:
            shown = _browse(
                f"{address}/frame.html", "--dump-dom", "--virtual-time-budget=5000", "--window-size=4000,900"
            )
    assert re.findall(r"<p>(\d+) (\d+)</p>", shown.stdout) == [("400", "0"), ("3840", "0")]


_FRAME = """<script>
for (const width of [400, 3840]) {
  const frame = document.createElement("iframe");
  frame.style = `width: ${width}px; border: 0`;
  frame.onload = () => {
    const page = frame.contentDocument.documentElement;
    document.body.insertAdjacentHTML("beforeend", `<p>${width} ${page.scrollWidth - page.clientWidth}</p>`);
  };
  frame.src = "page.html";
  addEventListener("load", () => document.body.append(frame));
}
</script><body></body>"""


@contextmanager
def _files(folder: Path) -> Iterator[str]:
    """Serve the files of a folder."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
