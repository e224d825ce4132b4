"""pgrepl with the mutant that the environment names (tests/mutants)."""

import runpy

from tests.mutants.mutate import put_named

if __name__ == "__main__":
    put_named()
    runpy.run_module("pgrepl", run_name="__main__", alter_sys=True)
