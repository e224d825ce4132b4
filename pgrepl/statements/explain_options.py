"""The options of EXPLAIN, as ExplainQuery reads them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pgrepl.errors import PgError
from pgrepl.sql.def_elem import get_boolean, get_string
from pgrepl.sql.nodes import DefElem
from pgrepl.types import oids

FORMATS = {"text": oids.TEXT, "xml": oids.XML, "json": oids.JSON, "yaml": oids.TEXT}
_SERIALIZATIONS = {"off": "", "none": "", "text": "text", "binary": "binary"}
_FLAGS = frozenset(
    ("analyze", "verbose", "costs", "timing", "summary", "buffers", "wal", "settings", "generic_plan", "memory")
)


@dataclass
class ExplainOptions:
    flags: dict[str, bool]
    format: str = "text"
    serialize: str = ""  # text or binary

    def flag(self, name: str, default: bool = False) -> bool:
        return self.flags.get(name, default)

    @property
    def analyze(self) -> bool:
        return self.flag("analyze")

    @property
    def timing(self) -> bool:
        return self.flag("timing", self.analyze)

    @property
    def summary(self) -> bool:
        return self.flag("summary", self.analyze)


def read_options(given: tuple[DefElem, ...]) -> ExplainOptions:
    options = ExplainOptions({})
    for option in given:
        if option.name in _FLAGS:
            options.flags[option.name] = get_boolean(option)
        elif option.name == "serialize":
            options.serialize = "text" if option.value is None else _SERIALIZATIONS[_chosen(option, _SERIALIZATIONS)]
        elif option.name == "format":
            options.format = _chosen(option, FORMATS)
        else:
            raise PgError("42601", f'unrecognized EXPLAIN option "{option.name}"', location=option.location)
    for name, wanted in (("wal", "WAL"), ("timing", "TIMING")):
        if options.flag(name) and not options.analyze:
            raise PgError("22023", f"EXPLAIN option {wanted} requires ANALYZE")
    if options.serialize and not options.analyze:
        raise PgError("22023", "EXPLAIN option SERIALIZE requires ANALYZE")
    if options.flag("generic_plan") and options.analyze:
        raise PgError("22023", "EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together")
    return options


def _chosen(option: DefElem, values: Collection[str]) -> str:
    text = get_string(option)
    if text not in values:
        message = f'unrecognized value for EXPLAIN option "{option.name}": "{text}"'
        raise PgError("22023", message, location=option.location)
    return text
