"""make mutants: plays the tests of each target with one mutant after the other, and tells which of them none notices.

    python -m tests.mutants [-l] [MODULE|MODULE:FUNCTION …]

A process that has loaded the tests is forked for each mutant. One that survives gets a test, or a line in
`targets.py` that says why nobody can tell it from what was written.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.mutants.mutate import VARIABLE, Mutant, functions, mutants, put
from tests.mutants.targets import EQUIVALENT, TARGETS, Target

_LEAST = 20  # seconds that the tests of a mutant may take, however short they are without
_QUIET = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler")
_BROKEN = 77
_AT_ONCE = os.cpu_count() or 1


def _wanted(asked: Sequence[str]) -> Iterator[tuple[Target, str]]:
    for target in TARGETS:
        for function in target.functions or functions(target.module):
            name = f"{target.module}:{function}"
            if not asked or any(name.endswith(each) or f".{each}:" in f".{name}" for each in asked):
                yield target, function


def _forked(tests: Sequence[str], change: tuple[str, str, Mutant] | None, seconds: float) -> bool:
    """Whether the tests pass."""
    child = os.fork()
    if not child:
        code = _BROKEN
        with contextlib.suppress(BaseException):
            os.setsid()
            if change is not None:
                module, function, mutant = change
                put(module, function, mutant)
                os.environ[VARIABLE] = f"{module}:{function}:{mutant.number}"
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            code = 1
            code = int(pytest.main([*_QUIET, *tests]))
        _end_all(os.getpid(), code)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            assert code != _BROKEN, change
            return code == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _end_all(group: int, code: int) -> None:
    """The end of a forked process; `atexit` ends the programs that its tests have started."""
    import atexit

    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    os._exit(code)


def main(arguments: Sequence[str]) -> int:
    lists = "-l" in arguments
    wanted = list(_wanted([each for each in arguments if each != "-l"]))
    if lists:
        for target, function in wanted:
            print(f"{target.module}:{function}", sum(1 for _ in mutants(target.module, function)))
        return 0
    tests = sorted({each.partition("::")[0] for target, _ in wanted for each in target.tests})
    with contextlib.redirect_stdout(io.StringIO()) as told:
        code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *tests])
    if code:
        print(told.getvalue())
        return 2
    seconds: dict[Sequence[str], float] = {}
    for target, _ in wanted:
        if target.tests not in seconds:
            began = time.monotonic()
            if not _forked(target.tests, None, 600):
                print("the tests fail without a mutant:", *target.tests)
                return 2
            seconds[target.tests] = time.monotonic() - began
    count, survived, unused = 0, [], {name for name in EQUIVALENT if not arguments}
    jobs = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for target, function in wanted:
            for mutant in mutants(target.module, function):
                name = f"{target.module}:{function}: {mutant.told}"
                count += 1
                if name in EQUIVALENT:
                    unused.discard(name)
                    continue
                longest = max(_LEAST, 5 * seconds[target.tests])
                change = (target.module, function, mutant)
                jobs.append((name, pool.submit(_forked, target.tests, change, longest)))
        for name, job in jobs:
            if job.result():
                survived.append(name)
                print("survived:", name, flush=True)
    print(f"{count} mutants, {count - len(jobs)} of them equivalent; {len(survived)} survived")
    for name in sorted(unused):
        print("is listed as equivalent, and is no mutant:", name)
    return int(bool(survived or unused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
