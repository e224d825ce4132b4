"""PostgreSQL 17's built-in catalog rows, as initdb makes them: types, functions, operators, casts, aggregates,
collations, operator classes, conversions and the configurations of text search.

The rows are stored in `data/*.tsv` (`tests/types/make_builtin.py` makes them). Files, rows and indexes are loaded on
first use: a prompt that never calls a function never reads `pg_proc`.

    >>> type_by_name("integer") is None, type_by_name("int4").oid
    (True, 23)
    >>> [p.argtypes for p in procs_by_name("lower")]
    [(25,), (3831,), (4537,)]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from pgrepl.types.oids import BOOL, FIRST_USER_OID


def read_data(name: str) -> str:
    """The text of a file in data/, also when the package is in a zip archive (engine/on_spark.py)."""
    loader: Any = __spec__.loader  # as pkgutil.get_data does, whose import takes longer than the reading
    content: bytes = loader.get_data(os.path.join(os.path.dirname(__file__), "data", name))
    return content.decode("utf-8")


SQL = 14  # of pg_language


class PgType(NamedTuple):
    oid: int
    name: str
    schema: str
    len: int
    byval: bool
    typtype: str
    category: str
    preferred: bool
    delim: str
    relid: int
    elem: int
    array: int
    input: str
    output: str
    receive: str
    send: str
    modin: str
    modout: str
    analyze: str
    subscript: str
    align: str
    storage: str
    notnull: bool
    basetype: int
    typmod: int
    ndims: int
    collation: int


class Proc(NamedTuple):
    """argtypes are the input arguments; allargtypes, argmodes are None unless there are OUT, VARIADIC or TABLE ones."""

    oid: int
    name: str
    schema: str
    lang: int
    variadic: int
    kind: str  # f, p, a, w
    strict: bool
    leakproof: bool
    retset: bool
    volatile: str
    parallel: str
    cost: float
    rows: float
    nargs: int
    ndefaults: int
    rettype: int
    argtypes: tuple[int, ...]
    allargtypes: tuple[int, ...] | None
    argmodes: str | None
    argnames: tuple[str, ...] | None
    defaults: tuple[str, ...]  # SQL of the last ndefaults arguments
    src: str
    support: int


class Operator(NamedTuple):
    oid: int
    name: str
    kind: str  # b, l
    canmerge: bool
    canhash: bool
    left: int
    right: int
    result: int
    commutator: int
    negator: int
    code: int
    rest: int
    join: int


class Cast(NamedTuple):
    oid: int
    source: int
    target: int
    func: int
    context: str  # e, a, i
    method: str  # f, i, b


class Aggregate(NamedTuple):
    oid: int
    kind: str  # n, o, h
    numdirectargs: int
    transfn: int
    finalfn: int
    sortop: int
    transtype: int
    initval: str | None


class Collation(NamedTuple):
    oid: int
    name: str
    provider: str
    deterministic: bool
    encoding: int
    collate: str | None
    ctype: str | None
    locale: str | None
    icurules: str | None
    version: str | None


class Range(NamedTuple):
    """oid is the range type."""

    oid: int
    subtype: int
    multirange: int
    collation: int
    subopc: int
    canonical: int
    subdiff: int


class AccessMethod(NamedTuple):
    oid: int
    name: str
    handler: int
    type: str


class OpFamily(NamedTuple):
    oid: int
    method: int
    name: str


class OpClass(NamedTuple):
    oid: int
    method: int
    name: str
    family: int
    intype: int
    default: bool
    keytype: int


class Amop(NamedTuple):
    oid: int
    family: int
    lefttype: int
    righttype: int
    strategy: int
    purpose: str
    operator: int
    method: int
    sortfamily: int


class Amproc(NamedTuple):
    oid: int
    family: int
    lefttype: int
    righttype: int
    number: int
    proc: int


class Conversion(NamedTuple):
    """Encodings are numbers."""

    oid: int
    name: str
    source: int
    target: int
    proc: int


class TsParser(NamedTuple):
    oid: int
    name: str
    start: int
    token: int
    end: int
    headline: int
    lextype: int


class TsTemplate(NamedTuple):
    oid: int
    name: str
    init: int
    lexize: int


class TsDict(NamedTuple):
    oid: int
    name: str
    template: int
    initoption: str | None


class TsConfig(NamedTuple):
    oid: int
    name: str
    parser: int


class TsConfigMap(NamedTuple):
    """oid counts the rows: they have none."""

    oid: int
    cfg: int
    tokentype: int
    seqno: int
    dict: int


Row = TypeVar("Row")

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def _field(text: str) -> str | None:
    """One field of COPY text format."""
    if "\\" not in text:
        return text
    if text == "\\N":
        return None
    out = []
    chars = iter(text)
    for char in chars:
        out.append(_ESCAPES[next(chars)] if char == "\\" else char)
    return "".join(out)


def _oids(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split())) if text else ()


_READERS: dict[str, Callable[[str | None], object]] = {
    "int": lambda s: int(s or 0),
    "float": lambda s: float(s or 0),
    "bool": lambda s: s == "t",
    "str": lambda s: s,
    "str | None": lambda s: s,
    "tuple[int, ...]": _oids,
    "tuple[int, ...] | None": lambda s: None if s is None else _oids(s),
    "tuple[str, ...]": lambda s: tuple(s.split("\n")) if s else (),
    "tuple[str, ...] | None": lambda s: None if s is None else tuple(s.split(",")),
}


class BuiltinCatalog(Generic[Row]):
    """One system catalog: lines by OID, rows parsed when asked for. Threads may read it at the same time, as each part
    is built completely before it is published."""

    def __init__(self, name: str, row: type[Row]) -> None:
        self._name = name
        self._row = row
        self._lines: dict[int, str] = {}
        self._rows: dict[int, Row] = {}
        self._names: dict[str, list[int]] = {}
        self._columns: list[Callable[[str | None], object]] = []

    def __iter__(self) -> Iterator[Row]:
        """All rows, in OID order."""
        return (self._make(oid) for oid in self._read())

    def get(self, oid: int) -> Row | None:
        row = self._rows.get(oid)
        if row is None and oid in self._read():
            row = self._make(oid)
        return row

    def named(self, name: str) -> list[Row]:
        """The rows with this name (always the second field)."""
        if not self._names:
            names: dict[str, list[int]] = {}
            for oid, line in self._read().items():
                start = line.index("\t") + 1
                names.setdefault(line[start : line.index("\t", start)], []).append(oid)
            self._names = names
        return [self._make(oid) for oid in self._names.get(name, ())]

    def _read(self) -> dict[int, str]:
        """OID → line of the file."""
        if not self._lines:
            lines = read_data(f"{self._name}.tsv").split("\n")[1:-1]
            kinds = self._row.__annotations__.values()  # text, or a typing.ForwardRef around it
            self._columns = [_READERS[str(getattr(kind, "__forward_arg__", kind))] for kind in kinds]
            self._lines = {int(line[: line.index("\t")]): line for line in lines}
        return self._lines

    def _make(self, oid: int) -> Row:
        row = self._rows.get(oid)
        if row is None:
            fields = self._lines[oid].split("\t")
            row = self._row(*[read(_field(text)) for read, text in zip(self._columns, fields, strict=True)])
            self._rows[oid] = row
        return row


types: BuiltinCatalog[PgType] = BuiltinCatalog("pg_type", PgType)
procs: BuiltinCatalog[Proc] = BuiltinCatalog("pg_proc", Proc)
operators: BuiltinCatalog[Operator] = BuiltinCatalog("pg_operator", Operator)
casts: BuiltinCatalog[Cast] = BuiltinCatalog("pg_cast", Cast)
aggregates: BuiltinCatalog[Aggregate] = BuiltinCatalog("pg_aggregate", Aggregate)
collations: BuiltinCatalog[Collation] = BuiltinCatalog("pg_collation", Collation)
ranges: BuiltinCatalog[Range] = BuiltinCatalog("pg_range", Range)
access_methods: BuiltinCatalog[AccessMethod] = BuiltinCatalog("pg_am", AccessMethod)
opfamilies: BuiltinCatalog[OpFamily] = BuiltinCatalog("pg_opfamily", OpFamily)
opclasses: BuiltinCatalog[OpClass] = BuiltinCatalog("pg_opclass", OpClass)
amops: BuiltinCatalog[Amop] = BuiltinCatalog("pg_amop", Amop)
amprocs: BuiltinCatalog[Amproc] = BuiltinCatalog("pg_amproc", Amproc)
conversions: BuiltinCatalog[Conversion] = BuiltinCatalog("pg_conversion", Conversion)
ts_parsers: BuiltinCatalog[TsParser] = BuiltinCatalog("pg_ts_parser", TsParser)
ts_templates: BuiltinCatalog[TsTemplate] = BuiltinCatalog("pg_ts_template", TsTemplate)
ts_dicts: BuiltinCatalog[TsDict] = BuiltinCatalog("pg_ts_dict", TsDict)
ts_configs: BuiltinCatalog[TsConfig] = BuiltinCatalog("pg_ts_config", TsConfig)
ts_config_maps: BuiltinCatalog[TsConfigMap] = BuiltinCatalog("pg_ts_config_map", TsConfigMap)

# pg_proc of 18 alone: sessions that speak 17 see none of them, nor the casts and aggregates that are made of them
LATER = frozenset(range(6347, 6427))

proc_by_oid = procs.get
operator_by_oid = operators.get
aggregate_by_oid = aggregates.get
collation_by_oid = collations.get
opclass_by_oid = opclasses.get


def type_by_oid(oid: int) -> PgType | None:
    """The row of a built-in type, or of a user's type whose OID knows it (types/user_types.py)."""
    return types.get(oid) if oid < FIRST_USER_OID else getattr(oid, "row", None)


def type_by_name(name: str, schema: str = "pg_catalog") -> PgType | None:
    """The type with this name in pg_type: int4, not integer."""
    return next((t for t in types.named(name) if t.schema == schema), None)


def procs_by_name(name: str) -> list[Proc]:
    return [p for p in procs.named(name) if p.schema == "pg_catalog" and p.oid not in LATER]


def procs_named(name: str, release: int) -> list[Proc]:
    """The functions of this name in all schemas, as a release has them."""
    named = procs.named(name)
    if release < 18:
        return [p for p in named if p.oid not in LATER]
    return [_as_of_18(p) for p in named] if name in _CHANGED else named


def procs_of(release: int) -> Iterator[Proc]:
    """All functions, as a release has them."""
    if release < 18:
        return (p for p in procs if p.oid not in LATER)
    return (_as_of_18(p) for p in procs)


_CHANGED = ("json_strip_nulls", "jsonb_strip_nulls")


def _as_of_18(proc: Proc) -> Proc:
    """A function of 17 as 18 has it: these two have one parameter more."""
    if proc.name not in _CHANGED:
        return proc
    types, names = (*proc.argtypes, BOOL), ("target", "strip_in_arrays")
    return proc._replace(nargs=2, ndefaults=1, argtypes=types, argnames=names, defaults=("false",))


def proc_in(oid: int, release: int) -> Proc | None:
    """A function by its OID, as a release has it."""
    proc = procs.get(oid)
    return proc if proc is None or release < 18 else _as_of_18(proc)


operators_by_name = operators.named


def operator(name: str, left: int, right: int) -> Operator | None:
    """The operator with exactly these operand types (left 0: prefix)."""
    return next((o for o in operators.named(name) if o.left == left and o.right == right), None)


@cache
def _casts() -> dict[tuple[int, int], Cast]:
    return {(c.source, c.target): c for c in casts}


def cast(source: int, target: int) -> Cast | None:
    return _casts().get((source, target))


def collation_by_name(name: str) -> Collation | None:
    return next(iter(collations.named(name)), None)


def access_method_by_name(name: str) -> AccessMethod | None:
    return next(iter(access_methods.named(name)), None)


def range_by_oid(oid: int) -> Range | None:
    """The row of a range type, built in or a user's."""
    range_row = ranges.get(oid) if oid < FIRST_USER_OID else getattr(oid, "range", None)
    return range_row if range_row is not None and range_row.oid == oid else None


def range_of_multirange(multirange: int) -> Range | None:
    if multirange < FIRST_USER_OID:
        return next((r for r in ranges if r.multirange == multirange), None)
    range_row: Range | None = getattr(multirange, "range", None)
    return range_row if range_row is not None and range_row.multirange == multirange else None


def default_opclass(typoid: int, method: int) -> OpClass | None:
    """The default operator class whose input type is exactly this one."""
    return next((c for c in opclasses if c.default and c.intype == typoid and c.method == method), None)


def amops_of_family(family: int) -> list[Amop]:
    return [a for a in amops if a.family == family]


def amops_of_operator(oid: int) -> list[Amop]:
    return [a for a in amops if a.operator == oid]


def amproc(family: int, lefttype: int, righttype: int, number: int) -> int:
    """The OID of a family's support function; 0 when it has none."""
    wanted = (family, lefttype, righttype, number)
    return next((a.proc for a in amprocs if (a.family, a.lefttype, a.righttype, a.number) == wanted), 0)


def element_type(oid: int) -> int:
    """The element type of a true array type, else 0 (as get_element_type does)."""
    type_row = type_by_oid(oid)
    return type_row.elem if type_row is not None and type_row.subscript == "array_subscript_handler" else 0


def array_type(oid: int) -> int:
    """The array type over this type; 0 when it has none."""
    type_row = type_by_oid(oid)
    return type_row.array if type_row is not None else 0


def base_type(oid: int) -> int:
    """The base type of a domain; any other type itself."""
    return base_type_and_typmod(oid, -1)[0]


def base_type_and_typmod(oid: int, typmod: int) -> tuple[int, int]:
    """The same with the type modifier, which is the domain's own (as getBaseTypeAndTypmod does)."""
    type_row = type_by_oid(oid)
    while type_row is not None and type_row.typtype == "d":
        oid, typmod = type_row.basetype, type_row.typmod
        type_row = type_by_oid(oid)
    return oid, typmod
