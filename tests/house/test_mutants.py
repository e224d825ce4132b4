"""What `make mutants` changes, and what it leaves out, is in the code as it is today."""

from __future__ import annotations

from tests.house.trees import tree_of
from tests.mutants.mutate import changes, path_of
from tests.mutants.targets import EQUIVALENT, TARGETS


def test_targets_and_equivalent_mutants_are_there() -> None:
    names = {
        f"{target.module}:{function}: {change}"
        for target in TARGETS
        for function in target.functions
        for change in changes(tree_of(path_of(target.module)), function)
    }
    assert set(EQUIVALENT) - names == set()
