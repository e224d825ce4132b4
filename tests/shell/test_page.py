"""The page of a server, and of `pgrepl status --html`: what it shows, that it is well formed, and that no name gets
out of its place."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pgrepl.api.overview import DatabaseFacts, Overview, SlotFacts, SubscriptionFacts, TableFacts, visible
from pgrepl.api.overview_history import History, Point
from pgrepl.catalog.facts.subscription import DATASYNC, INIT, READY
from pgrepl.engine.spark_errors import SparkFacts, SparkJob
from pgrepl.replication.publisher.protocol import Backlog, SlotLag
from pgrepl.replication.publisher.senders import Retained
from pgrepl.replication.subscriber.status import CopyStatus, Status, TableStatus
from pgrepl.shell.page import page, policy
from tests.harness.forked import pgrepl

NOW = 1_800_000_000.0
VOID = {"meta", "link", "br"}
HOSTILE = "\"><script>alert('x')</script>\u202e&amp;\x07"


class Reader(HTMLParser):
    """Checks that elements are closed, and takes what a reader of the page finds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.elements.append((tag, given))
        self.ids += [given["id"] or ""] if "id" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text.append(data)

    @property
    def shown(self) -> str:
        return " ".join(" ".join(self.text).split())

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.elements)


def subscription(name: str = "s", **changes: object) -> SubscriptionFacts:
    tables = (TableStatus("public.t", READY, 1), TableStatus("public.u", DATASYNC, 0, copy=CopyStatus(
        1000, 1 << 20, (3, 8), 65.0)), TableStatus("public.v", INIT, 0))  # fmt: skip
    status = Status(
        "shop", name, ("p",), "erp at db:5432", True, name, 42, tables, 0x100, SlotLag(0x80, 0x80, 0x300), None, 1, 2,
        None, None, None, Retained(5 << 20, status="extended", left=1 << 20),
    )  # fmt: skip
    return SubscriptionFacts(replace(status, **changes), 12345, 1)  # type: ignore[arg-type]


def overview(*subscriptions: SubscriptionFacts, table: str = "public.t", database: str = "shop") -> Overview:
    facts = TableFacts(1, table, 1000, 10, 1 << 20, 3, 1, "2027-01-15T08:00:00+00:00")
    slot = SlotFacts("slot", database, False, False, 5, 7, 3.5, 10, 20, 2, 4096)
    return Overview(NOW, (DatabaseFacts(database, (facts,), {"out": (table,)}),), subscriptions, (slot,), 9)


@pytest.fixture
def history() -> History:
    found = History(None)
    for minute in range(60, -1, -1):
        found.add({("shop", "s"): Point(NOW - 60 * minute, float(minute), minute * 100.0, 4096.0, 600.0 * -minute)})
    return found


def test_a_busy_page(history: History) -> None:
    done = subscription(tables=(TableStatus("public.t", READY, 1),), backlog=Backlog(0, 0, None, True))
    shown = Reader(page(overview(subscription(), replace(done, status=replace(done.status, name="d"))), history,
                        is_served=True))  # fmt: skip
    assert "2 subscriptions: 1 copying, 1 up to date" in shown.shown
    assert "1 ready, 1 being copied, 1 to be copied" in shown.shown
    assert "3 of 8 pieces, 1000 rows, 1024 kB" in shown.shown
    assert "10 rows/s" in shown.shown
    assert "5120 kB of WAL (wal_status extended; 1024 kB left)" in shown.shown
    progress = [given for tag, given in shown.elements if tag == "progress"]
    assert [(given["value"], given["max"]) for given in progress] == [("3", "8")]


def test_how_tables_have_grown(tmp_path: Path) -> None:
    kept = History(tmp_path / "ring")
    for minutes, rows in ((20, 5), (10, 900), (0, 1000)):
        found = overview(table=f"public.{HOSTILE}")
        (database,) = found.databases
        tables = tuple(replace(each, rows=rows) for each in database.tables)
        kept.note(replace(found, at=NOW - 60 * minutes, databases=(replace(database, tables=tables),)))
    assert [each[1] for each in kept.spans(NOW, "shop", f"public.{HOSTILE}", "table")[0][0]] == [5, 900, 1000]
    shown = page(found, History(tmp_path / "ring"), is_served=False)
    assert Reader(shown).count("figure") == 4  # rows and size, of the hour and of the day
    assert "rows, the last hour: 1,000 at last, 1,000 at most." in shown and HOSTILE not in shown
    hidden = replace(found, databases=(replace(found.databases[0], tables=()),))
    assert Reader(page(hidden, kept, is_served=False)).count("figure") == 0


def test_who_sees_nothing_is_told_as_much(history: History) -> None:
    """Landmarks, one heading of the first order, tables with heads, and a text for each picture."""
    text = page(overview(subscription()), history, is_served=True)
    shown = Reader(text)
    assert [shown.count(tag) for tag in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    for tag, given in shown.elements:
        if tag == "svg":
            assert given["role"] == "img" and (given.get("aria-label") or given.get("aria-labelledby"))
        if tag == "th":
            assert given["scope"] in ("col", "row")
        if given.get("role") == "region":
            assert given["aria-label"] and given["tabindex"] == "0"
    assert "s: from erp at db:5432 to shop, copying, 10 rows a second." in shown.shown
    curves = [given["aria-label"] for tag, given in shown.elements if tag == "svg" and given.get("aria-label")]
    assert curves[0] == "Lag, the last hour: 0 s at last, 60 s at most."
    assert shown.count("caption") == shown.count("table")
    named = {given["aria-labelledby"] for tag, given in shown.elements if tag == "section"}
    assert named <= set(shown.ids)


def test_sparks_jobs_are_shown_to_who_may_see_all(history: History) -> None:
    job = SparkJob(7, "copy of <t>", 65.0, 30, 2, 120)

    def shown(facts: SparkFacts) -> str:
        found = replace(overview(subscription()), spark=SparkFacts.read(facts.text()))
        return Reader(page(found, history, is_served=False)).shown

    text = shown(SparkFacts(is_up=True, ui="http://127.0.0.1:4040", jobs=(job,)))
    assert "7 copy of <t> 30/120 30 of 120 2 65 s" in text
    assert "Spark's UI has stages" in text and "spark.ui.enabled" not in text
    assert "No job runs. Spark's UI is off: pgrepl serve --conf spark.ui.enabled=true" in shown(SparkFacts(is_up=True))
    assert "Spark does not run" in shown(SparkFacts())
    assert "Spark Connect" in shown(SparkFacts(is_remote=True))
    assert "javascript" not in shown(SparkFacts(is_up=True, ui="javascript:alert(1)"))
    assert visible(replace(overview(), spark=SparkFacts()), {}).spark is None


@pytest.mark.parametrize("is_served", [True, False])
def test_no_name_gets_out_of_its_place(history: History, is_served: bool) -> None:
    hostile = subscription(
        HOSTILE, database=HOSTILE, publisher=HOSTILE, publications=(HOSTILE,), unreachable=HOSTILE, slot=HOSTILE,
        tables=(TableStatus(HOSTILE, INIT, 0, False, CopyStatus(pieces=(1, 2))),),
    )  # fmt: skip
    plain = page(overview(subscription(), database="shop"), history, is_served=is_served)
    text = page(overview(hostile, table=HOSTILE, database=HOSTILE), history, is_served=is_served)
    shown = Reader(text)
    assert shown.count("script") == Reader(plain).count("script") == int(is_served)
    assert not any(name.startswith("on") or name == "style" for _, given in shown.elements for name in given)
    assert not re.search("[\u202e\x07]", text)
    assert "\"><script>alert('x')</script>\ufffd&amp;\ufffd" in shown.shown


def test_nothing_is_fetched_from_elsewhere(history: History) -> None:
    served, file = (page(overview(subscription()), history, is_served=each) for each in (True, False))
    for text in (served, file):
        places = [given[name] or "" for _, given in Reader(text).elements for name in ("href", "src") if name in given]
        assert places and all(place.startswith(("#", "data:,")) for place in places)
        assert "url(" not in text.replace("url(#head-", "")
    contents = [given.get("content") for tag, given in Reader(file).elements if tag == "meta"]
    assert policy(is_served=False) in contents and "unsafe" not in policy(is_served=True)
    assert 'http-equiv="refresh"' in served and 'http-equiv="refresh"' not in file


def test_a_role_that_may_not_see_publishers(history: History) -> None:
    found = replace(subscription(publisher="", slot=None, lag=None, retained=None), is_whole=False)
    shown = Reader(page(replace(overview(found), slots=(), snapshots=None), history, is_served=True)).shown
    assert "Applied" not in shown and "Lag" not in shown and "kept" not in shown.lower()


def test_status_writes_it(tmp_path: Path) -> None:
    script = (
        "CREATE DATABASE source;\n\\c source\nCREATE TABLE t (a int PRIMARY KEY);\nINSERT INTO t VALUES (1);\n"
        "CREATE PUBLICATION p FOR TABLE t;\n\\c postgres\nCREATE TABLE t (a int PRIMARY KEY);\n"
        "INSERT INTO t VALUES (1);\nCREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=source' PUBLICATION p;\n"
    )
    pgrepl("-X", "-q", cwd=tmp_path, script=script)
    assert pgrepl("status", "--html", "page.html", "--max-lag", "60", cwd=tmp_path).returncode == 1
    shown = Reader((tmp_path / "page.html").read_text("utf-8"))
    assert "1 subscription: 1 stopped" in shown.shown
    assert "TRUNCATE public.t;" in shown.shown
    assert "s: from source to postgres, stopped." in shown.shown
    refused = pgrepl("status", "--html", "no/page.html", cwd=tmp_path)
    assert 'could not write file "no/page.html": No such file or directory' in refused.stderr
    assert "--html cannot be used with --json" in pgrepl("status", "--html", "x", "--json", cwd=tmp_path).stderr


def test_templates_are_no_databases_of_a_person(tmp_path: Path) -> None:
    pgrepl("-X", "-q", cwd=tmp_path, script="CREATE DATABASE shop;\n")
    assert pgrepl("status", "--html", "page.html", cwd=tmp_path).returncode == 0
    assert (
        "2 databases, 0 tables, 0 subscriptions: no subscription" in Reader((tmp_path / "page.html").read_text()).shown
    )
    assert pgrepl("status", "--html", "page.html", "-d", "shop", cwd=tmp_path).returncode == 0
    assert "1 database, 0 tables" in Reader((tmp_path / "page.html").read_text()).shown


def test_a_database_that_is_dropped_meanwhile(history: History) -> None:
    lost = subscription(database="dropped")
    assert "s: from erp at db:5432 to dropped" in Reader(page(overview(lost), history, is_served=True)).shown
