"""Programs in processes forked from one that has loaded pgrepl: most of what a short one computes is its imports.

What a process loads by itself is looked at by tests/house/test_startup.py and tests/statements/test_alone.py.
`python -m tests.harness.forked ADDRESS` forks for each request at its socket, and ends with its starter.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.harness.programs import PATIENCE, environment
from tests.mutants.mutate import put_named

_PROGRAM = """#!{python} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps([["pgrepl", *sys.argv[1:]], os.getcwd(), dict(os.environ), False]).encode()
socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
connection.sendall(request)
_, code = connection.makefile()
sys.exit(int(code) & 255)
"""
# What Python reads when it starts
_OF_PYTHON = ("PYTHON", "LC_", "LANG", "COLUMNS")

# what other programs load: Spark's tasks, SQLAlchemy, pytest
_OF_OTHERS = ("pgrepl.api.datasource.", "pgrepl.api.sqlalchemy_dialect", "pgrepl.api.pytest_plugin")


def load_everything() -> None:
    """Every module of pgrepl, and of others what nearly all processes load."""
    import pgrepl
    from pgrepl.ground import lazy

    lazy.load()

    for module in pkgutil.walk_packages(pgrepl.__path__, "pgrepl."):
        if not module.name.endswith("__main__") and not module.name.startswith(_OF_OTHERS):
            importlib.import_module(module.name)
    importlib.import_module("sqlalchemy.dialects.sqlite")


def run(
    program: Sequence[str],
    *,
    input: bytes = b"",
    cwd: Path | str | None = None,
    env: dict[str, str] | None = None,
    apart: bool = True,
    new_session: bool = False,
    timeout: float = PATIENCE,
) -> subprocess.CompletedProcess[bytes]:
    """`python -m MODULE ARGUMENT…` to its end; both streams go to one file unless `apart`."""
    variables = environment() if env is None else env
    address = _server()
    assert _read_at_start(variables) == _read_at_start(environment()), "Python has read these already"
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        reading, writing = os.pipe()
        connection.connect(address)
        request = json.dumps([list(program), str(cwd or Path.cwd()), variables, new_session]).encode()
        streams = [reading, output.fileno(), (errors if apart else output).fileno()]
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], streams)
        connection.sendall(request)
        os.close(reading)
        threading.Thread(target=_write, args=(writing, input), daemon=True).start()
        connection.settimeout(timeout)
        answers = connection.makefile()
        pid = int(answers.readline())
        try:
            code = int(answers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(program, code, output.read(), errors.read() if apart else None)


def pgrepl(
    *arguments: str, cwd: Path | None = None, script: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run it to its end; `variables` go to its environment."""
    done = run(["pgrepl", *arguments], input=script.encode(), cwd=cwd, env=environment(**variables))
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def put_program(folder: Path) -> Path:
    """A folder with a `pgrepl` that is forked, for scripts that find it by PATH."""
    program = folder / "pgrepl"
    program.write_text(_PROGRAM.format(python=sys.executable, address=_server()))
    program.chmod(0o755)
    return folder


def _read_at_start(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_OF_PYTHON)}


def _write(end: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(end, "wb") as pipe:
        pipe.write(text)


@functools.cache
def _server() -> str:
    """Its address; started when it is needed first."""
    folder = tempfile.TemporaryDirectory()
    address = f"{folder.name}/socket"
    command = [sys.executable, "-m", "tests.harness.forked", address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment(), cwd=folder.name, **pipes)  # type: ignore[call-overload]
    assert process.stdout.readline() == b"ready\n"

    def end() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(end)
    return address


def _serve(address: str) -> list[str]:
    """The program that this process, a forked one, is to be."""
    load_everything()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy all of it
    ended, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while True:
            ready = select.select([0, ended, listening], [], [])[0]
            if 0 in ready:
                sys.exit()
            if ended in ready:
                os.read(ended, 4096)
                with contextlib.suppress(ChildProcessError):
                    while (status := os.waitpid(-1, os.WNOHANG))[0]:
                        with running.pop(status[0]) as connection, contextlib.suppress(BrokenPipeError):
                            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status[1]))
            if listening in ready:
                connection, _ = listening.accept()
                length, streams, _, _ = socket.recv_fds(connection, 4, 3)
                with connection.makefile("rb") as lines:
                    program, folder, variables, new_session = json.loads(lines.read(int.from_bytes(length, "big")))
                child = os.fork()
                if not child:
                    break
                connection.sendall(b"%d\n" % child)
                running[child] = connection
                for stream in streams:
                    os.close(stream)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for end in (ended, signalled, *(connection.fileno() for connection in [connection, *running.values()])):
        os.close(end)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if new_session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    return program


def _run(module: str) -> object:
    """The exit status, or what `sys.exit` was given in its place."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


def _end(code: object) -> None:
    """As the interpreter ends; but what was loaded before the fork is not taken apart, which would copy all of it."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit((code or 0) & 255)


if __name__ == "__main__":
    sys.argv = _serve(sys.argv[1])
    put_named()
    _end(_run(sys.argv[0]))
