"""The alert rules and the dashboard in examples/monitoring ask for metrics and labels that a server has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import pgrepl
from pgrepl.server import metrics
from pgrepl.server.settings import ServerState
from tests.server.test_monitoring import get

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
METRIC = re.compile(r"pgrepl_\w+")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!=|=)\s*\"")
OF_PROMETHEUS = {"instance", "job"}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text("utf-8"))
    return found


def texts() -> Iterator[tuple[str, str]]:
    """Each expression, and the texts with labels of what it finds."""
    for rule in rules():
        yield rule["expr"], " ".join(rule["annotations"].values())
    for panel in board()["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for variable in board()["templating"]["list"]:
        yield variable["query"], ""


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each metric; those of a server's slots and of the threads that collect, which take a server, are
    read in the code."""
    source = Path(metrics.__file__).read_text("utf-8")
    with pgrepl.connect(str(tmp_path_factory.mktemp("lake") / "catalog.db"), autocommit=True) as con:
        families = [
            *metrics.of_processes(ServerState(), 0.0, 1), *metrics.of_catalog(con.session), *metrics.of_publishers([]),
        ]  # fmt: skip
    found = {family.name: {name for given, _ in family.samples for name in given} for family in families}
    more = {"database", "subscription", "slot_name", "state", "worker", "type", "wal_status"}
    assert all(each in source for each in more)
    for name, known in found.items():
        if not known and re.match("pgrepl_(subscription|publisher|replication_slot)_", name):
            found[name] = more
    return found | {"pgrepl_collected_timestamp_seconds": {"part"}, "pgrepl_collect_failures_total": {"part"}}


def test_metrics_and_labels_are_there(labels: dict[str, set[str]]) -> None:
    for expression, told in texts():
        names = METRIC.findall(expression)
        assert set(names) <= labels.keys(), expression
        known = OF_PROMETHEUS.union(*(labels[name] for name in names))
        asked = {*LABEL.findall(expression), *re.findall(r"\{\{ ?(?:\$labels\.)?([a-z_]+) ?\}\}", told)}
        assert asked <= known, (expression, asked - known)


def test_each_alert_says_what_to_do() -> None:
    for rule in rules():
        assert {"summary", "description"} == rule["annotations"].keys() and rule["labels"]["severity"]
        assert len(rule["annotations"]["description"]) > 40
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 12


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.slow
def test_a_server_has_them(tmp_path: Path) -> None:
    from tests.harness.programs import eventually
    from tests.harness.serving import serving
    from tests.postgres.server import free_port

    port = free_port()
    with serving(tmp_path / "served", "--http", str(port)) as served:
        served.ask("CREATE DATABASE source")
        with served.connect(dbname="source") as con:
            con.execute("CREATE TABLE t (a int PRIMARY KEY)")
            con.execute("CREATE PUBLICATION p FOR TABLE t")
        served.ask("CREATE TABLE t (a int PRIMARY KEY)")
        served.ask("CREATE SUBSCRIPTION s CONNECTION 'host=localhost dbname=source' PUBLICATION p")
        wanted = {name for expression, _ in texts() for name in METRIC.findall(expression)}
        of_others = {name for name in wanted if "_publisher_" in name and name != "pgrepl_publisher_up"}
        of_others.add("pgrepl_subscription_rejected_total")  # of files
        eventually(lambda: wanted - of_others <= set(METRIC.findall(get(port, "/metrics")[1])))
