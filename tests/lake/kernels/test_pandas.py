"""Tasks are spared pandas, which a user's own function still finds."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import pyarrow
from pgrepl.internals import pyarrow as hidden
hidden.hide("pgrepl", "pyarrow")
scope = {"__name__": "pgrepl.engine.task", "pyarrow": pyarrow}
exec("pyarrow.array([1]).to_numpy()", scope)
print("pandas" in sys.modules)
import pandas
frame = pyarrow.table({"a": [1, None], "b": ["x", None]}).to_pandas()
print(pyarrow.Table.from_pandas(frame).to_pylist())
print(pyarrow.array(pandas.Series([1, pandas.NA], dtype="Int64")).to_pylist())
"""


def test_pandas_is_hidden_from_what_pgrepl_asks_of_pyarrow() -> None:
    asked = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert asked.stdout == "False\n[{'a': 1.0, 'b': 'x'}, {'a': None, 'b': None}]\n[1, None]\n"
