"""The context of a Spark statement: its named parameters and its fall-back functions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pgrepl.expr.context import Context
from pgrepl.expr.spark.sql import FUNCTION_PREFIX
from pgrepl.frozen import frozen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FUNCTION = re.compile(FUNCTION_PREFIX + "[0-9a-f]+")
_PARAMETER = re.compile(r":(p[0-9]+)\b")
_registered: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


@frozen
class FallBack:
    """A fall-back function to register; `program` is all that a Python worker needs, as JSON (see worker.py)."""

    program: str
    result: str  # Spark type of the value
    volatile: bool = False

    @property
    def name(self) -> str:
        return FUNCTION_PREFIX + hashlib.sha256(f"{self.result} {self.program}".encode()).hexdigest()[:20]

    def register(self, spark: SparkSession) -> None:
        from pgrepl.expr.spark.worker import argument_types, function_of
        from pgrepl.internals.pyspark import arrow_function, check_types

        types = argument_types(self.program)
        check_types(self.result, types)
        function = arrow_function(function_of(self.program), f"struct<v:{self.result},e:string>", types)
        spark.udf.register(self.name, function.asNondeterministic() if self.volatile else function)


class Statement:
    """One statement, with one or many expressions."""

    def __init__(self, context: Context | None = None) -> None:
        self.context = context or Context()
        self.arguments: dict[str, str | bytes] = {}
        self.functions: dict[str, FallBack] = {}
        self._names: dict[str | bytes, str] = {}

    def bind(self, value: str | bytes) -> str:
        """A named parameter for a value."""
        name = self._names.get(value)
        if name is None:
            name = self._names[value] = f"p{len(self._names) + 1}"
            self.arguments[name] = value
        return f":{name}"

    def call(self, function: FallBack, arguments: list[str]) -> str:
        self.functions[function.name] = function
        return f"{function.name}({', '.join(arguments)})"

    def run(self, spark: SparkSession, text: str, frames: Mapping[str, DataFrame] | None = None) -> DataFrame:
        """The statement as a DataFrame, with its parameters and functions; `frames` are input DataFrames, named in
        braces."""
        known = _registered.setdefault(spark, set())
        for name in sorted(set(_FUNCTION.findall(text)) - known):
            if name in self.functions:
                self.functions[name].register(spark)
                known.add(name)
        used = {name: self.arguments[name] for name in _PARAMETER.findall(text) if name in self.arguments}
        return spark.sql(text, args=used or None, **(frames or {}))
