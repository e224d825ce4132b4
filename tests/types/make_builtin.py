"""Generates `pgrepl/types/data/*.tsv`: the rows that initdb puts into PostgreSQL's system catalogs.

    python -m tests.types.make_builtin "host=/var/run/postgresql user=postgres"

Reads a server of the version that pgrepl speaks as (17). The files are COPY text with a header line, in OID order, so
that a newer minor version shows as a readable diff. Only objects of initdb are read (OIDs below 16384).
"""

from __future__ import annotations

import sys
from pathlib import Path

from pgrepl.types.builtin import LATER

DATA = Path(__file__).resolve().parents[2] / "pgrepl" / "types" / "data"

# Vectors are written as space-separated OIDs ("" when empty), names as a comma-separated list.
CATALOGS = {
    "pg_type": """
        SELECT t.oid, typname AS name, n.nspname AS schema, typlen AS len, typbyval AS byval, typtype,
               typcategory AS category, typispreferred AS preferred, typdelim AS delim, typrelid::oid AS relid,
               typelem AS elem, typarray AS array, typinput::text AS input, typoutput::text AS output,
               typreceive::text AS receive, typsend::text AS send, typmodin::text AS modin, typmodout::text AS modout,
               typanalyze::text AS analyze, typsubscript::text AS subscript, typalign AS align, typstorage AS storage,
               typnotnull AS notnull, typbasetype AS basetype, typtypmod AS typmod, typndims AS ndims,
               typcollation AS collation
        FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace WHERE t.oid < 16384 ORDER BY t.oid""",
    "pg_proc": """
        SELECT p.oid, proname AS name, n.nspname AS schema, prolang AS lang, provariadic AS variadic, prokind AS kind,
               proisstrict AS strict, proleakproof AS leakproof, proretset AS retset, provolatile AS volatile,
               proparallel AS parallel, procost AS cost, prorows AS rows, pronargs AS nargs,
               pronargdefaults AS ndefaults,
               prorettype AS rettype, proargtypes AS argtypes, array_to_string(proallargtypes, ' ') AS allargtypes,
               array_to_string(proargmodes, '') AS argmodes, array_to_string(proargnames, ',') AS argnames,
               (SELECT string_agg(pg_get_function_arg_default(p.oid, i), chr(10) ORDER BY i)
                FROM generate_series(1, coalesce(cardinality(proallargtypes), pronargs)) i
                WHERE pg_get_function_arg_default(p.oid, i) IS NOT NULL) AS defaults,
               prosrc AS src, prosupport::oid AS support
        FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE p.oid < 16384 ORDER BY p.oid""",
    "pg_operator": """
        SELECT oid, oprname AS name, oprkind AS kind, oprcanmerge AS canmerge, oprcanhash AS canhash, oprleft AS left,
               oprright AS right, oprresult AS result, oprcom AS commutator, oprnegate AS negator, oprcode::oid AS code,
               oprrest::oid AS rest, oprjoin::oid AS join
        FROM pg_operator WHERE oid < 16384 ORDER BY oid""",
    "pg_cast": """
        SELECT oid, castsource AS source, casttarget AS target, castfunc AS func, castcontext AS context,
               castmethod AS method
        FROM pg_cast WHERE oid < 16384 ORDER BY oid""",
    "pg_aggregate": """
        SELECT aggfnoid::oid AS oid, aggkind AS kind, aggnumdirectargs AS numdirectargs, aggtransfn::oid AS transfn,
               aggfinalfn::oid AS finalfn, aggsortop AS sortop, aggtranstype AS transtype, agginitval AS initval
        FROM pg_aggregate WHERE aggfnoid::oid < 16384 ORDER BY 1""",
    "pg_collation": """
        SELECT oid, collname AS name, collprovider AS provider, collisdeterministic AS deterministic,
               collencoding AS encoding, collcollate AS collate, collctype AS ctype, colllocale AS locale,
               collicurules AS icurules, collversion AS version
        FROM pg_collation WHERE oid < 12000 ORDER BY oid""",
    "pg_range": """
        SELECT rngtypid AS oid, rngsubtype AS subtype, rngmultitypid AS multirange, rngcollation AS collation,
               rngsubopc AS subopc, rngcanonical::oid AS canonical, rngsubdiff::oid AS subdiff
        FROM pg_range WHERE rngtypid < 16384 ORDER BY 1""",
    "pg_am": """
        SELECT oid, amname AS name, amhandler::oid AS handler, amtype AS type
        FROM pg_am WHERE oid < 16384 ORDER BY 1""",
    "pg_opfamily": """
        SELECT oid, opfmethod AS method, opfname AS name FROM pg_opfamily WHERE oid < 16384 ORDER BY 1""",
    "pg_opclass": """
        SELECT oid, opcmethod AS method, opcname AS name, opcfamily AS family, opcintype AS intype,
               opcdefault AS default, opckeytype AS keytype FROM pg_opclass WHERE oid < 16384 ORDER BY 1""",
    "pg_amop": """
        SELECT oid, amopfamily AS family, amoplefttype AS lefttype, amoprighttype AS righttype,
               amopstrategy AS strategy, amoppurpose AS purpose, amopopr AS operator, amopmethod AS method,
               amopsortfamily AS sortfamily
        FROM pg_amop WHERE oid < 16384 AND amopmethod IN (403, 405) ORDER BY 1""",
    "pg_amproc": """
        SELECT pg_amproc.oid, amprocfamily AS family, amproclefttype AS lefttype, amprocrighttype AS righttype,
               amprocnum AS number, amproc::oid AS proc
        FROM pg_amproc JOIN pg_opfamily f ON f.oid = amprocfamily
        WHERE pg_amproc.oid < 16384 AND f.opfmethod IN (403, 405) ORDER BY 1""",
    "pg_conversion": """
        SELECT oid, conname AS name, conforencoding AS source, contoencoding AS target, conproc::oid AS proc
        FROM pg_conversion WHERE oid < 16384 ORDER BY 1""",
    "pg_ts_parser": """
        SELECT oid, prsname AS name, prsstart::oid AS start, prstoken::oid AS token, prsend::oid AS end,
               prsheadline::oid AS headline, prslextype::oid AS lextype
        FROM pg_ts_parser WHERE oid < 16384 ORDER BY 1""",
    "pg_ts_template": """
        SELECT oid, tmplname AS name, tmplinit::oid AS init, tmpllexize::oid AS lexize
        FROM pg_ts_template WHERE oid < 16384 ORDER BY 1""",
    "pg_ts_dict": """
        SELECT oid, dictname AS name, dicttemplate AS template, dictinitoption AS initoption
        FROM pg_ts_dict WHERE oid < 16384 ORDER BY 1""",
    "pg_ts_config": """
        SELECT oid, cfgname AS name, cfgparser AS parser FROM pg_ts_config WHERE oid < 16384 ORDER BY 1""",
    "pg_ts_config_map": """
        SELECT row_number() OVER (ORDER BY mapcfg, maptokentype, mapseqno) AS oid, mapcfg AS cfg,
               maptokentype AS tokentype, mapseqno AS seqno, mapdict AS dict
        FROM pg_ts_config_map ORDER BY 1""",
}


# functions of 18, whose rows stay as they are
UUIDS = ("6428", "6429", "6430")  # which sessions that speak 17 see, too


def _later(name: str) -> list[bytes]:
    """The rows of 18 that stand in a file now."""
    place = {"pg_proc": 0, "pg_aggregate": 0, "pg_cast": 3}.get(name)
    if place is None:
        return []
    lines: list[bytes] = (DATA / f"{name}.tsv").read_bytes().splitlines(keepends=True)[1:]
    oids = [line.split(b"\t")[place].decode() for line in lines]
    return [line for line, oid in zip(lines, oids, strict=True) if oid in UUIDS or int(oid) in LATER]


def _with_later(text: bytes, later: list[bytes]) -> bytes:
    def oid(line: bytes) -> int:
        return int(line.split(b"\t")[0])

    head, *lines = text.splitlines(keepends=True)
    found: list[bytes] = [*lines, *later]
    found.sort(key=oid)
    return head + b"".join(found)


def make(conninfo: str) -> None:
    import psycopg

    DATA.mkdir(exist_ok=True)
    with psycopg.connect(conninfo) as connection:
        if connection.info.server_version // 10000 != 17:
            raise SystemExit("make_builtin: the server is not PostgreSQL 17")
        for name, query in CATALOGS.items():
            with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (HEADER)".encode()) as copy:
                text = b"".join(bytes(block) for block in copy)
            (DATA / f"{name}.tsv").write_bytes(_with_later(text, _later(name)))
        row = connection.execute(
            "SELECT pg_read_file(setting || '/timezonesets/Default') FROM pg_config WHERE name = 'SHAREDIR'"
        ).fetchone()
        (DATA / "timezone_abbreviations.tsv").write_text(_abbreviations(row[0] if row else ""), "ascii")


def _abbreviations(default_set: str) -> str:
    """The words of the Default set: `EST -18000`, `EDT -14400 D` (summer time) or `MSK Europe/Moscow`."""
    lines = ["name\tseconds\tisdst\tzone"]
    for line in default_set.splitlines():
        words = line.partition("#")[0].split()
        if not words or words[0].startswith("@"):
            continue
        fixed = words[1].lstrip("+-").isdigit()
        summer = "t" if words[2:] == ["D"] else "f"
        lines.append("\t".join([words[0], words[1] if fixed else "", summer, "" if fixed else words[1]]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "")
