"""Storage parameters: `WITH (fillfactor = 70)`, `ALTER TABLE … SET (…)`, of tables, indexes, views and columns.

pgrepl keeps them as PostgreSQL does (reloptions: a list of `name=value`) and shows them; autovacuum reads its own. The
namespace `iceberg`, which PostgreSQL lacks, has how the table looks to readers of Iceberg (iceberg/tables.py);
`pgrepl.history` says what is kept of a subscribed table's past (replication/subscriber/history.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.ground.errors import PgError
from pgrepl.ground.frozen import frozen
from pgrepl.sql.location import get_boolean, get_string
from pgrepl.sql.nodes import DefElem
from pgrepl.types.numbers import parse_bool

HEAP, TOAST, ICEBERG, PGREPL, VIEW, ATTRIBUTE = "heap", "toast", "iceberg", "pgrepl", "view", "attribute"
NAMESPACES = (TOAST, ICEBERG, PGREPL)  # of parameters of tables
BTREE, HASH, GIST, SPGIST, GIN, BRIN = "btree", "hash", "gist", "spgist", "gin", "brin"
TSVECTOR, MULTI, BLOOM = OPCLASSES = ("tsvector_ops", "_minmax_multi_ops", "_bloom_ops")

INT_MAX = 2**31 - 1
DBL_MAX = 1.7976931348623157e308


@frozen
class StorageParameter:
    name: str
    kinds: tuple[str, ...]
    type: str  # bool, int, real, enum
    low: float = 0
    high: float = 0
    words: tuple[str, ...] = ()
    detail: str | None = None


def _ints(kinds: tuple[str, ...], **ranges: tuple[int, int]) -> list[StorageParameter]:
    return [StorageParameter(name, kinds, "int", low, high) for name, (low, high) in ranges.items()]


_ON_OFF_AUTO = 'Valid values are "on", "off", and "auto".'
_TABLES = (HEAP, TOAST)
PARAMETERS: tuple[StorageParameter, ...] = (
    StorageParameter("autosummarize", (BRIN,), "bool"),
    StorageParameter("autovacuum_enabled", _TABLES, "bool"),
    StorageParameter("user_catalog_table", (HEAP,), "bool"),
    StorageParameter("fastupdate", (GIN,), "bool"),
    StorageParameter("security_barrier", (VIEW,), "bool"),
    StorageParameter("security_invoker", (VIEW,), "bool"),
    StorageParameter("vacuum_truncate", _TABLES, "bool"),
    StorageParameter("deduplicate_items", (BTREE,), "bool"),
    *_ints((HEAP, BTREE, HASH, GIST, SPGIST), fillfactor=(10, 100)),
    *_ints(
        _TABLES,
        autovacuum_vacuum_threshold=(0, INT_MAX),
        autovacuum_vacuum_insert_threshold=(-1, INT_MAX),
        autovacuum_vacuum_cost_limit=(1, 10000),
        autovacuum_freeze_min_age=(0, 1000000000),
        autovacuum_multixact_freeze_min_age=(0, 1000000000),
        autovacuum_freeze_max_age=(100000, 2000000000),
        autovacuum_multixact_freeze_max_age=(10000, 2000000000),
        autovacuum_freeze_table_age=(0, 2000000000),
        autovacuum_multixact_freeze_table_age=(0, 2000000000),
        log_autovacuum_min_duration=(-1, INT_MAX),
    ),
    *_ints(
        (HEAP,), autovacuum_analyze_threshold=(0, INT_MAX), toast_tuple_target=(128, 8160), parallel_workers=(0, 1024)
    ),
    *_ints((BRIN,), pages_per_range=(1, 131072)),
    *_ints((GIN,), gin_pending_list_limit=(64, 2147483647)),
    *_ints((TSVECTOR,), siglen=(1, 2024)),
    *_ints((MULTI,), values_per_range=(8, 256)),
    StorageParameter("n_distinct_per_range", (BLOOM,), "real", -1, INT_MAX),
    StorageParameter("false_positive_rate", (BLOOM,), "real", 0.0001, 0.25),
    StorageParameter("autovacuum_vacuum_cost_delay", _TABLES, "real", 0, 100),
    StorageParameter("autovacuum_vacuum_scale_factor", _TABLES, "real", 0, 100),
    StorageParameter("autovacuum_vacuum_insert_scale_factor", _TABLES, "real", 0, 100),
    StorageParameter("autovacuum_analyze_scale_factor", (HEAP,), "real", 0, 100),
    StorageParameter("n_distinct", (ATTRIBUTE,), "real", -1, DBL_MAX),
    StorageParameter("n_distinct_inherited", (ATTRIBUTE,), "real", -1, DBL_MAX),
    StorageParameter("vacuum_cleanup_index_scale_factor", (BTREE,), "real", 0, 1e10),
    StorageParameter(
        "vacuum_index_cleanup",
        _TABLES,
        "enum",
        words=("auto", "on", "off", "true", "false", "yes", "no", "1", "0"),
        detail=_ON_OFF_AUTO,
    ),
    StorageParameter("buffering", (GIST,), "enum", words=("auto", "on", "off"), detail=_ON_OFF_AUTO),
    StorageParameter(
        "version", (ICEBERG,), "enum", words=("auto", "2", "3"), detail='Valid values are "auto", "2", and "3".'
    ),
    StorageParameter("time", (ICEBERG,), "enum", words=("keep", "omit"), detail='Valid values are "keep" and "omit".'),
    StorageParameter(
        "history",
        (PGREPL,),
        "enum",
        words=("none", "changes", "versions"),
        detail='Valid values are "none", "changes", and "versions".',
    ),
    StorageParameter(
        "check_option", (VIEW,), "enum", words=("local", "cascaded"), detail='Valid values are "local" and "cascaded".'
    ),
)


def _split(name: str) -> tuple[str | None, str]:
    """`toast.fillfactor` is fillfactor in the namespace toast."""
    namespace, dot, rest = name.partition(".")
    return (namespace, rest) if dot else (None, name)


def transform(
    old: Sequence[str] | None,
    options: Sequence[DefElem],
    *,
    namespaces: tuple[str, ...] = (),
    accept_oids: bool = False,
    reset: bool = False,
) -> list[str]:
    """The new list of `name=value`, as transformRelOptions makes it; options of the toast table as
    `toast.name=value`."""
    named = {_full_name(option) for option in options}
    result = [text for text in old or () if text.partition("=")[0] not in named]
    for option in options:
        if reset:
            if option.value is not None:
                raise PgError("42601", "RESET must not include values for parameters")
            continue
        namespace, name = option.namespace, option.name
        if namespace is not None and namespace not in namespaces:
            raise PgError("22023", f'unrecognized parameter namespace "{namespace}"')
        value = "true" if option.value is None else get_string(option)
        if "=" in name:
            raise PgError("22023", f'invalid option name "{name}": must not contain "="')
        if accept_oids and namespace is None and name == "oids":
            if get_boolean(option):
                raise PgError("0A000", "tables declared WITH OIDS are not supported")
            continue
        result.append(f"{_full_name(option)}={value}")
    return sorted(result, key=lambda text: text.startswith(("toast.", "iceberg.", "pgrepl.")))


def _full_name(option: DefElem) -> str:
    return option.name if option.namespace is None else f"{option.namespace}.{option.name}"


def validate(options: Sequence[str], kind: str) -> None:
    """Refuse unknown parameters and bad values, as build_reloptions does."""
    seen: dict[str, set[str]] = {}
    for text in options:
        full, _, value = text.partition("=")
        namespace, name = _split(full)
        where = namespace or kind
        parameter = next((p for p in PARAMETERS if p.name == name and where in p.kinds), None)
        if parameter is None:
            raise PgError("22023", f'unrecognized parameter "{name}"')
        if name in seen.setdefault(where, set()):
            raise PgError("22023", f'parameter "{name}" specified more than once')
        seen[where].add(name)
        _check_value(parameter, value)


def _check_value(parameter: StorageParameter, value: str) -> None:
    if parameter.type == "bool":
        if parse_bool(value) is None:
            raise PgError("22023", f'invalid value for boolean option "{parameter.name}": {value}')
    elif parameter.type == "int":
        number = parse_int(value)
        if number is None:
            raise PgError("22023", f'invalid value for integer option "{parameter.name}": {value}')
        if not parameter.low <= number <= parameter.high:
            raise PgError(
                "22023",
                f'value {value} out of bounds for option "{parameter.name}"',
                detail=f'Valid values are between "{int(parameter.low)}" and "{int(parameter.high)}".',
            )
    elif parameter.type == "real":
        real = _parse_real(value)
        if real is None:
            raise PgError("22023", f'invalid value for floating point option "{parameter.name}": {value}')
        if not parameter.low <= real <= parameter.high:
            raise PgError(
                "22023",
                f'value {value} out of bounds for option "{parameter.name}"',
                detail=f'Valid values are between "{parameter.low:f}" and "{parameter.high:f}".',
            )
    elif value.lower() not in parameter.words:
        raise PgError("22023", f'invalid value for enum option "{parameter.name}": {value}', detail=parameter.detail)


def read_option(options: Sequence[str] | None, name: str) -> bool | int | float | None:
    """The value of a table's option; None: it has none."""
    parameter = next(known for known in PARAMETERS if known.name == name)
    for text in options or ():
        given, _, value = text.partition("=")
        if given == name:
            return {"bool": parse_bool, "int": parse_int, "real": _parse_real}[parameter.type](value)
    return None


def parse_int(text: str) -> int | None:
    """An integer as a GUC reads it: decimal, 0x…, 0…, or a fraction, rounded half to even."""
    word = text.strip()
    try:
        number = int(word, 16 if word.lower().lstrip("+-").startswith("0x") else 8 if _octal(word) else 10)
    except ValueError:
        real = _parse_real(word)
        if real is None or real != real:
            return None
        number = round(real) if abs(real) < 2**62 else 2**62
    return number if -(2**31) <= number <= INT_MAX else None


def _octal(word: str) -> bool:
    digits = word.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits.isdigit()


def _parse_real(text: str) -> float | None:
    try:
        return float(text.replace("_", "x"))
    except ValueError:
        return None


def table_options(options: Sequence[DefElem], *, partitioned: bool) -> list[str]:
    """WITH (…) of CREATE TABLE."""
    texts = transform(None, options, namespaces=NAMESPACES, accept_oids=True)
    if partitioned:
        refuse_partitioned_options(texts)
    else:
        validate(texts, HEAP)
    return texts


def refuse_partitioned_options(texts: Sequence[str]) -> None:
    own = [text for text in texts if text.startswith((f"{ICEBERG}.", f"{PGREPL}."))]
    validate(own, HEAP)
    if len(own) < len(texts):
        raise PgError(
            "42809",
            "cannot specify storage parameters for a partitioned table",
            hint="Specify storage parameters for its leaf partitions instead.",
        )
