"""The examples of a deployment: what they say is understood by pgrepl, and what they wait for comes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest

import pgrepl
from pgrepl.server.command import serve_command
from tests.harness import forked
from tests.harness.programs import ROOT, environment, eventually, started
from tests.harness.serving import serving

FOLDER = ROOT / "examples" / "deployment"


def options(arguments: list[str]) -> dict[str, object]:
    """The options of a command line of `pgrepl serve`, which it accepts."""
    given = serve_command.make_context("serve", arguments).params
    return {name: value for name, value in given.items() if value}


def test_the_unit_of_systemd() -> None:
    unit = RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(FOLDER / "pgrepl.service")
    service = unit["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("pgrepl", "serve")
    assert options(arguments)["socket_dir"] == "/run/pgrepl"
    assert [service[name] for name in ("Type", "KillSignal", "KillMode", "Restart", "User")] == [
        "notify", "SIGINT", "mixed", "on-failure", "pgrepl",
    ]  # fmt: skip


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(FOLDER / "pgrepl.service")], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "pgrepl.service" in line and "not executable" not in line]
    assert said == []


def test_the_container() -> None:
    text = (FOLDER / "Containerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    found = dict(steps)
    assert (found["USER"], found["VOLUME"], found["STOPSIGNAL"]) == ("10001", "/data", "SIGINT")
    assert json.loads(found["ENTRYPOINT"]) == ["pgrepl", "serve"]
    given = options(json.loads(found["CMD"]))
    assert (given["addresses"], given["metrics"]) == ("*", "0.0.0.0:9187")
    check = json.loads(found["HEALTHCHECK"].partition("CMD")[2])
    compile(check[2], "HEALTHCHECK", "exec")
    assert "127.0.0.1:9187/healthz" in check[2]
    assert [name for name, _ in steps].count("FROM") == 1
    assert {name for name, _ in steps} <= {
        *("FROM", "RUN", "COPY", "USER", "VOLUME", "WORKDIR"),
        *("ENV", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }  # fmt: skip
    assert [given for name, given in steps if name == "COPY"] == ["*.whl /tmp/wheels/"]  # the folder of a release
    for given in (given for name, given in steps if name == "RUN"):
        subprocess.run(["sh", "-n", "-c", given], check=True)


def documents(name: str) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    found: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))
    return found


def test_kubernetes() -> None:
    every = {(each["kind"], each["metadata"]["name"]): each for each in documents("kubernetes.yaml")}
    claims = {name for kind, name in every if kind == "PersistentVolumeClaim"}
    server = every["Deployment", "pgrepl"]["spec"]
    nightly = every["CronJob", "pgrepl-backup"]["spec"]
    assert (server["replicas"], server["strategy"]) == (1, {"type": "Recreate"})  # one catalog, one machine
    assert len(nightly["schedule"].split()) == 5 and nightly["concurrencyPolicy"] == "Forbid"
    labels = server["template"]["metadata"]["labels"]
    assert server["selector"]["matchLabels"] == every["Service", "pgrepl"]["spec"]["selector"] == labels
    backup = nightly["jobTemplate"]["spec"]["template"]["spec"]
    (near,) = backup["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["labelSelector"]["matchLabels"] == labels
    used = set()
    for pod in (server["template"]["spec"], backup):
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
        volumes = {each["name"]: each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]}
        used |= set(volumes.values())
        for container in pod["containers"]:
            assert container["image"] == f"registry.example/pgrepl:{pgrepl.__version__}"
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
            assert mounts["/data"] == "data" and set(mounts.values()) == set(volumes)
    assert used == claims
    (container,) = server["template"]["spec"]["containers"]
    given = options(container["args"])
    assert (given["addresses"], given["metrics"]) == ("*", "0.0.0.0:9187")
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"postgres": 5432, "metrics": 9187}
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert {each["targetPort"] for each in every["Service", "pgrepl"]["spec"]["ports"]} == set(ports)
    (container,) = backup["containers"]
    assert container["command"] == ["pgrepl"] and forked.pgrepl(container["args"][0], "--help").returncode == 0


def test_compose() -> None:
    (compose,) = documents("compose.yaml")
    service = compose["services"]["lake"]
    assert service["build"] == {"context": "../../dist", "dockerfile": "Containerfile"}
    assert service["volumes"] == ["lake:/data"] and set(compose["volumes"]) == {"lake"}
    assert service["ports"] == ["5432:5432", "127.0.0.1:9187:9187"]


def test_the_formula() -> None:
    text = (FOLDER / "pgrepl.rb.in").read_text("utf-8")
    assert set(re.findall(r"@([A-Z0-9]+)@", text)) == {"SDIST", "SHA256", "VERSION", "LICENSE"}
    code = [line.split("#")[0].strip() for line in text.splitlines() if not line.startswith("#")]
    opened = [line for line in code if re.match(r"(class|def) ", line) or line.endswith(" do")]
    assert len(opened) == code.count("end") == 5
    assert all(line.count('"') % 2 == 0 for line in text.splitlines() if not line.startswith("#"))
    (run,) = re.findall(r"run \[(.*)\]", text)
    program, command, *arguments = re.findall(r'"([^"]*)"', run)
    assert (program, command) == ("pgrepl", "serve")
    assert options(arguments) == {"catalog": "pgrepl/catalog.db"}


def test_each_file_is_explained() -> None:
    told = re.findall(r"^\| \[[\w.]+\]\(([\w.]+)\) \|", (FOLDER / "README.md").read_text("utf-8"), re.M)
    assert sorted([*told, "README.md"]) == sorted(path.name for path in FOLDER.iterdir())


def test_a_service_manager_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        told = environment(NOTIFY_SOCKET=str(tmp_path / "notify"))
        with started("serve", cwd=tmp_path, env=told) as process:
            assert manager.recv(100) == b"READY=1"
            process.send_signal(signal.SIGINT)
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(60) == 0


@pytest.mark.slow
def test_a_log_that_is_moved_away_is_begun_anew(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with started("serve", "--log-file", str(log), cwd=tmp_path) as process:
        eventually(lambda: log.exists() and "ready to accept" in log.read_text())
        log.rename(tmp_path / "server.log.1")
        process.send_signal(signal.SIGHUP)
        eventually(lambda: log.exists() and "LOG:  received SIGHUP, reloading configuration files\n" in log.read_text())
        assert "ready to accept" not in log.read_text()


def test_sessions_apply_settings_that_are_read_again(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as one, server.connect() as other:

        def shown(connection: Any) -> object:
            row = connection.execute("SHOW work_mem").fetchone()
            return row and row[0]

        one.execute("ALTER SYSTEM SET work_mem = '11MB'")
        assert (shown(one), shown(other)) == ("4MB", "4MB")
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: (shown(one), shown(other)) == ("11MB", "11MB"))
        one.execute("ALTER SYSTEM RESET work_mem")
        one.execute("SELECT pg_reload_conf()")
        eventually(lambda: shown(other) == "4MB")


def test_processes_say_what_they_do(tmp_path: Path) -> None:
    """With the package setproctitle, for which a module stands here that notes the titles."""
    titles = tmp_path / "titles"
    titles.touch()
    note = (
        f"def setproctitle(title):\n    with open({str(titles)!r}, 'a') as file:\n        file.write(title + '\\n')\n"
    )
    (tmp_path / "setproctitle.py").write_text(note)
    with serving(tmp_path) as served, served.connect(user="postgres") as con:
        con.execute("BEGIN; CREATE TABLE t (a int)")
        con.execute("INSERT INTO t VALUES (%s)", [1])
        con.execute("ROLLBACK; SET update_process_title = off")
        con.execute("SELECT 1")
    said = titles.read_text().splitlines()
    assert {"pgrepl: logical replication launcher", "pgrepl: client connection"} <= set(said)
    done = [title.removeprefix("pgrepl: postgres postgres [local] ") for title in said if "[local]" in title]
    assert done == [
        *("idle", "BEGIN", "CREATE TABLE", "idle in transaction", "INSERT", "idle in transaction", "ROLLBACK", "SET")
    ]
