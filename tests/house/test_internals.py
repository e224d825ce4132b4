"""What is used of libraries beyond their documentation stands in pgrepl/internals (of Lark: where tables are made), and
the versions that are installed have it."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from pgrepl.internals import pyspark as internals
from tests.house.trees import nodes_of, tree_of

PACKAGE = Path(__file__).resolve().parents[2] / "pgrepl"
LIBRARIES = ("pyspark", "py4j", "sqlalchemy", "lark")
HOMES = {
    "pyspark": ("internals/pyspark.py",),
    "py4j": ("internals/py4j.py", "internals/pyspark.py"),  # a type's name
    "lark": ("sql/make_tables.py",),
}

# modules that the libraries document
PUBLIC = {
    "pyspark", "pyspark.errors", "pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.functions", "pyspark.sql.types",
    "sqlalchemy", "sqlalchemy.dialects", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.postgresql.base",
    "sqlalchemy.engine", "sqlalchemy.exc", "sqlalchemy.pool", "sqlalchemy.schema", "sqlalchemy.types",
}  # fmt: skip

# attributes of named tuples, of pathlib and of this package's own classes begin with an underscore, too
_INNER = re.compile(
    r"_(jvm|jsc|jdf|jc|sc|gateway|gateway_client|jsparkSession|active_spark_context|instantiatedSession|conf|stackTrace"
    r"|stack_trace|stacktrace|java_\w+|temp_dir|jconf|judf\w*|to_\w+|create_gateway_client|dbapi_connection|sa_\w+)"
    r"|positiontup|binds|dialect_impl|bind_processor|result_processor|is_clause_element|is_connected|pythonExec"
)
_ANY = re.compile("|".join((*LIBRARIES, rf"\.({_INNER.pattern})\b")))


def used(path: Path) -> Iterator[tuple[int, str]]:
    """Inner modules and inner names."""
    if not _ANY.search(path.read_text("utf-8")):
        return  # most modules: a tree costs more than a look
    tree = tree_of(path)
    own = {node.name for node in nodes_of(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in nodes_of(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield from ((node.lineno, n) for n in names if n.split(".")[0] in LIBRARIES and n not in PUBLIC)  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute) and _INNER.fullmatch(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, node.attr


def test_inner_names_are_used_in_one_module_of_each_library() -> None:
    homes = {name for names in HOMES.values() for name in names}
    paths = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
    found = {name: list(used(path)) for name, path in paths.items() if name not in homes}
    assert {name: each for name, each in found.items() if each} == {}
    assert all(list(used(paths[home])) for home in homes)


# --- what each relies on ---------------------------------------------------------------------------------------------


@contextmanager
def relied_on(library: str) -> Iterator[None]:
    """Says which release it is that has not what is used of it."""
    try:
        yield
    except Exception as problem:
        pytest.fail(f"{library} {version(library)} has not what pgrepl uses of it: {problem!r}")


@relied_on("pyspark")
def test_pyspark_has_what_is_used_of_it() -> None:
    from pyspark import SparkContext, daemon, java_gateway
    from pyspark.core import context
    from pyspark.errors.exceptions import captured
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession, session

    assert internals.is_tried()
    for name in internals._OF_JVM:
        assert hasattr(SparkContext, name)
    assert hasattr(SparkSession, "_instantiatedSession")
    assert {"gateway", "jsc"} <= inspect.signature(SparkContext).parameters.keys()
    theirs = {name: str(value).lower() for name, value in context.DEFAULT_CONFIGS.items()}
    assert theirs.items() <= internals._DEFAULTS.items()
    assert "self._temp_dir = " in inspect.getsource(SparkContext)
    assert list(inspect.signature(SparkSession).parameters)[:2] == ["sparkContext", "jsparkSession"]
    launch = inspect.getsource(java_gateway)
    assert tuple(re.findall(r'java_import\(gateway.jvm, "([^"]+)"\)', launch)) == internals.JAVA_IMPORTS
    assert "_PYSPARK_DRIVER_CONN_INFO_PATH" in launch
    assert "read_int(info)" in launch and "UTF8Deserializer().loads(info)" in launch
    assert "pythonExec" in inspect.getsource(SparkContext)
    assert "_stackTrace" in inspect.getsource(captured)
    assert callable(PySparkLogger.getLogger)
    assert inspect.signature(daemon.manager).parameters == {}
    assert inspect.getsource(session)


@relied_on("py4j")
def test_py4j_has_what_is_used_of_it() -> None:
    from py4j.clientserver import ClientServer, JavaClient

    assert list(inspect.signature(JavaClient.send_command).parameters) == ["self", "command", "retry", "binary"]
    assert "finalizer_deque" in inspect.signature(JavaClient).parameters
    assert callable(ClientServer._create_gateway_client) and callable(ClientServer._create_finalizer_worker)
    assert "self._gateway_client" in inspect.getsource(ClientServer.__mro__[1])
    assert "is_connected" in inspect.getsource(JavaClient.__mro__[1])


@relied_on("pyarrow")
def test_pyarrow_computes_without_its_documentation() -> None:
    wanted = """
from pgrepl.internals import pyarrow
pyarrow.leave_documentation_out()
import sys, warnings
warnings.simplefilter("error")
import pyarrow.compute as pc
assert "pydoc" not in sys.modules
print(pc.filter([1, 2, 3], [True, False, None], null_selection_behavior="drop"), pc.round.__name__)
"""
    found = subprocess.run([sys.executable, "-c", wanted], capture_output=True, text=True, cwd=PACKAGE.parent)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["[", "1", "]", "round"]


@relied_on("lark")
def test_lark_has_what_is_used_of_it() -> None:
    lark = pytest.importorskip("lark")
    from lark.grammar import RuleOptions
    from lark.parsers.lalr_analysis import LALR_Analyzer

    assert lark.__version__
    methods = "compute_lalr", "compute_lalr1_states", "compute_includes_lookback", "compute_lookaheads", "expand_rule"
    facts = "lr0_start_states", "lr0_itemsets", "nonterminal_transitions", "directly_reads", "reads", "NULLABLE"
    for name in (*methods, *facts, "digraph"):
        assert name in inspect.getsource(LALR_Analyzer)
    assert "empty_indices" in inspect.signature(RuleOptions).parameters


def test_what_is_played_on_other_releases_is_there() -> None:
    tests = PACKAGE.parent / "tests"
    played = re.findall(r"^  (tests/[\w/.]+)", (tests / "compat.sh").read_text("utf-8"), re.MULTILINE)
    assert len(played) >= 10 and [name for name in played if not (PACKAGE.parent / name).exists()] == []


# --- another version -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "tried"),
    [("4.0.0", True), ("4.1.4", True), ("4.3.0", True), ("4.2.0.dev1", True), ("5.0.0", False), ("3.5.9", False)],
)
def test_a_version_that_nobody_has_tried_is_told(release: str, tried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals, "version", lambda: release)
    assert internals.is_tried() is tried
