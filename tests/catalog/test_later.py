"""System tables are made when somebody first asks for them, whoever and how many they are."""

from __future__ import annotations

import sys
import threading

from sqlalchemy import Integer

from pgrepl.catalog import later


def test_several_threads_ask_for_a_table_at_once() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    problems: list[BaseException] = []
    try:
        for number in range(20):
            table = later.later_table(f"asked_for_at_once_{number}", (), *[(f"c{n}", Integer) for n in range(30)])
            together = threading.Barrier(4)

            def ask() -> None:
                together.wait()  # noqa: B023  the threads have ended before the next round
                try:
                    assert table.c.c1.name == "c1"  # noqa: B023
                except BaseException as problem:
                    problems.append(problem)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
        for each in [each for each in later.every if each.name.startswith("asked_for_at_once_")]:
            later.every.remove(each)
            if each._made is not None:
                later.metadata.remove(each._made)
    assert problems == []
