"""Key words of SQL in their four classes, and of PL/pgSQL; names and literals, quoted and read.

An unreserved word may be a name anywhere; a column-name word not that of a function or type; a type-or-function word
the other way round; a reserved word only behind AS.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from pgrepl.ground.errors import PgError, Report
from pgrepl.ground.frozen import frozen
from pgrepl.types.input_checks import invalid_bytes


class KeywordClass(Enum):
    """The class of a key word; the value is pg_get_keywords()'s catcode."""

    UNRESERVED = "U"
    COL_NAME = "C"
    TYPE_FUNC_NAME = "T"
    RESERVED = "R"


_WORDS = {
    KeywordClass.UNRESERVED: """
    abort absent absolute access action add admin after aggregate also alter always asensitive assertion
    assignment at atomic attach attribute backward before begin breadth by cache call called cascade cascaded
    catalog chain characteristics checkpoint class close cluster columns comment comments commit committed
    compression conditional configuration conflict connection constraints content continue conversion copy cost
    csv cube current cursor cycle data database day deallocate declare defaults deferred definer delete
    delimiter delimiters depends depth detach dictionary disable discard document domain double drop each empty
    enable encoding encrypted enforced enum error escape event exclude excluding exclusive execute explain expression
    extension external family filter finalize first following force format forward function functions generated
    global granted groups handler header hold hour identity if immediate immutable implicit import include
    including increment indent index indexes inherit inherits inline input insensitive insert instead invoker
    isolation keep key keys label language large last leakproof level listen load local location lock locked
    logged mapping match matched materialized maxvalue merge method minute minvalue mode month move name names
    nested new next nfc nfd nfkc nfkd no normalized nothing notify nowait nulls object of off oids old omit
    operator option options ordinality others over overriding owned owner parallel parameter parser partial
    partition passing password path period plan plans policy preceding prepare prepared preserve prior privileges
    procedural procedure procedures program publication quote quotes range read reassign recheck recursive ref
    referencing refresh reindex relative release rename repeatable replace replica reset restart restrict return
    returns revoke role rollback rollup routine routines rows rule savepoint scalar schema schemas scroll search
    second security sequence sequences serializable server session set sets share show simple skip snapshot
    source sql stable standalone start statement statistics stdin stdout storage stored strict string strip
    subscription support sysid system tables tablespace target temp template temporary text ties transaction
    transform trigger truncate trusted type types uescape unbounded uncommitted unconditional unencrypted
    unknown unlisten unlogged until update vacuum valid validate validator value varying version view views
    virtual volatile whitespace within without work wrapper write xml year yes zone
    """,
    KeywordClass.COL_NAME: """
    between bigint bit boolean char character coalesce dec decimal exists extract float greatest grouping inout
    int integer interval json json_array json_arrayagg json_exists json_object json_objectagg json_query
    json_scalar json_serialize json_table json_value least merge_action national nchar none normalize nullif
    numeric out overlay position precision real row setof smallint substring time timestamp treat trim values
    varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
    xmlserialize xmltable
    """,
    KeywordClass.TYPE_FUNC_NAME: """
    authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join left
    like natural notnull outer overlaps right similar tablesample verbose
    """,
    KeywordClass.RESERVED: """
    all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create
    current_catalog current_date current_role current_time current_timestamp current_user default deferrable
    desc distinct do else end except false fetch for foreign from grant group having in initially intersect into
    lateral leading limit localtime localtimestamp not null offset on only or order placing primary references
    returning select session_user some symmetric system_user table then to trailing true union unique user using
    variadic when where window with
    """,
}

AS_LABEL = frozenset(
    """
    array as char character create day except fetch filter for from grant group having hour intersect into
    isnull limit minute month notnull offset on order over overlaps precision returning second to union varying
    where window with within without year
    """.split()
)
"""The words that need AS before them to be a column label; all other key words are bare labels too."""

KEYWORDS: dict[str, KeywordClass] = {word: kind for kind, words in _WORDS.items() for word in words.split()}
"""Every key word, in lower case, with its class."""

TOKENS: dict[str, str] = {word: word.upper() for word in KEYWORDS}
"""The name of each key word's terminal in the grammar."""


RESERVED = tuple(
    """all begin by case declare else end execute for foreach from if in into loop not null or strict then to using
    when while""".split()
)

UNRESERVED = tuple(
    """absolute alias and array assert backward call chain close collate column column_name commit constant constraint
    constraint_name continue current cursor datatype debug default detail diagnostics do dump elseif elsif errcode
    error exception exit fetch first forward get hint import info insert is last log merge message message_text move
    next no notice open option perform pg_context pg_datatype_name pg_exception_context pg_exception_detail
    pg_exception_hint pg_routine_oid print_strict_params prior query raise relative return returned_sqlstate reverse
    rollback row_count rowtype schema schema_name scroll slice sqlstate stacked table table_name type use_column
    use_variable variable_conflict warning""".split()
)


# --- quote ------------------------------------------------------------------------------------------------------------


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def quote_identifier(name: str) -> str:
    """A name, quoted unless it is a lower-case word that is no key word or an unreserved one (quote_identifier)."""
    if _PLAIN.match(name) and KEYWORDS.get(name, KeywordClass.UNRESERVED) is KeywordClass.UNRESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_always(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_qualified(schema: str | None, name: str) -> str:
    """`schema.name`, or the name alone (quote_qualified_identifier)."""
    if schema is None:
        return quote_identifier(name)
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def quote_literal(text: str) -> str:
    """A string constant; one with backslashes is an E'' string (quote_literal)."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return "E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


# --- literals ---------------------------------------------------------------------------------------------------------


NAMEDATALEN = 64
OnNotice = Callable[[Report], None]


@frozen
class StringRules:
    """The settings for backslashes in strings (standard_conforming_strings, escape_string_warning and
    backslash_quote), and the release of PostgreSQL that is spoken."""

    conforming: bool = True
    warning: bool = True
    quote: bool = True  # \\' may stand for a quote
    release: int = 17


STANDARD = StringRules()
_UNSAFE_QUOTE = "Use '' to write quotes in strings. \\' is insecure in client-only encodings."
_WARNINGS = {
    "'": ("\\'", "Use '' to write quotes in strings, or use the escape string syntax (E'...')."),
    "\\": ("\\\\", "Use the escape string syntax for backslashes, e.g., E'\\\\'."),
}
_ESCAPE_WARNING = ("escape", "Use the escape string syntax for escapes, e.g., E'\\r\\n'.")

CONTINUATION = re.compile(r"[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'")
"""Whitespace with a newline in it, and a quote: the literal before it goes on."""
_ESCAPE_PART = re.compile(
    r"""(?P<plain>[^\\']+) | (?P<doubled>'') | (?P<quote>')
      | \\x(?P<hex>[0-9A-Fa-f]{1,2}) | \\(?P<octal>[0-7]{1,3})
      | \\(?:u(?P<u4>[0-9A-Fa-f]{4}) | U(?P<u8>[0-9A-Fa-f]{8}))
      | (?P<badunicode>\\(?:u[0-9A-Fa-f]{0,3}|U[0-9A-Fa-f]{0,7}))
      | \\(?P<single>.)""",
    re.X | re.S,
)
_SINGLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_UNICODE = re.compile(r"([0-9A-Fa-f]{4})|\+([0-9A-Fa-f]{6})")


def near(message: str, text: str, start: int, end: int) -> PgError:
    """A syntax error at a slice of the text (scanner_yyerror)."""
    if start >= len(text):
        return PgError("42601", f"{message} at end of input", location=len(text))
    return PgError("42601", f'{message} at or near "{text[start:end]}"', location=start)


def quoted(text: str, index: int, start: int, what: str = "quoted string") -> tuple[str, int]:
    """A literal without escapes, read from behind its opening quote. Only in strings a doubled quote stands for one."""
    end = text.find("'", index)
    if end >= 0 and text[end + 1 : end + 2] not in _MAY_GO_ON:
        return text[index:end], end + 1
    parts = []
    while end >= 0:
        parts.append(text[index:end])
        if what == "quoted string" and text.startswith("'", end + 1):
            parts.append("'")
            index = end + 2
        elif more := CONTINUATION.match(text, end + 1):
            index = more.end()
        else:
            return "".join(parts), end + 1
        end = text.find("'", index)
    raise near(f"unterminated {what}", text, start, len(text))


_MAY_GO_ON = frozenset("' \t\n\r\f\v-")


def quoted_name(text: str, index: int, start: int) -> tuple[str, int]:
    """A name from behind its opening double quote."""
    parts = []
    while True:
        end = text.find('"', index)
        if end < 0:
            raise near("unterminated quoted identifier", text, start, len(text))
        parts.append(text[index:end])
        index = end + 1
        if not text.startswith('"', index):
            break
        parts.append('"')
        index += 1
    name = "".join(parts)
    if not name:
        raise near("zero-length delimited identifier", text, start, index)
    return name, index


def escape_string(
    text: str, index: int, start: int, rules: StringRules = STANDARD, warn: OnNotice | None = None
) -> tuple[str, int]:
    """An E'' literal from behind its opening quote. Octal and hexadecimal escapes are bytes, so the whole is put
    together as bytes and must be UTF-8 in the end. `warn` is told of the first escape."""
    raw = bytearray()
    first_half = 0  # of a surrogate pair
    while True:
        part = _ESCAPE_PART.match(text, index)
        kind = part.lastgroup if part else None
        if first_half and kind not in ("u4", "u8", "badunicode"):
            raise near("invalid Unicode surrogate pair", text, index, index + 1)
        if part is None:
            raise near("unterminated quoted string", text, start, len(text))
        at, index = index, part.end()
        if kind == "single" and part["single"] == "'" and not rules.quote:
            raise PgError("22P06", "unsafe use of \\' in a string literal", hint=_UNSAFE_QUOTE, location=start)
        if warn is not None and kind in ("single", "octal", "hex"):
            what, hint = _WARNINGS.get(part["single"] or "", _ESCAPE_WARNING)
            message = f"nonstandard use of {what} in a string literal"
            warn(Report("WARNING", "22P06", message, hint=hint, position=start + 1))
            warn = None
        if kind == "plain":
            raw += part[0].encode("utf-8", "surrogatepass")
        elif kind == "doubled":
            raw += b"'"
        elif kind == "quote":
            more = CONTINUATION.match(text, index)
            if more is None:
                return _decoded(raw), index
            index = more.end()
        elif kind == "hex":
            raw.append(int(part["hex"], 16))
        elif kind == "octal":
            raw.append(int(part["octal"], 8) & 255)
        elif kind == "single":
            raw += _SINGLE.get(part["single"], part["single"]).encode("utf-8", "surrogatepass")
        elif kind == "badunicode":
            raise PgError(
                "22025", "invalid Unicode escape", hint="Unicode escapes must be \\uXXXX or \\UXXXXXXXX.", location=at
            )
        else:
            code = int(part["u4"] or part["u8"], 16)
            if is_second_half(code) != bool(first_half):
                raise near("invalid Unicode surrogate pair", text, at, index)
            if is_first_half(code):
                first_half = code
                continue
            if first_half:
                code, first_half = joined(first_half, code), 0
            if not 0 < code <= 0x10FFFF:
                raise near("invalid Unicode escape value", text, at, index)
            raw += chr(code).encode("utf-8")


def _decoded(raw: bytearray) -> str:
    try:
        value = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = error.start
    else:
        if 0 not in raw:
            return value
        bad = len(raw)
    if 0 in raw:
        bad = min(bad, raw.index(0))
    raise invalid_bytes(raw, bad)


def is_first_half(code: int) -> bool:
    return 0xD800 <= code <= 0xDBFF


def is_second_half(code: int) -> bool:
    return 0xDC00 <= code <= 0xDFFF


def joined(first: int, second: int) -> int:
    return 0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF)


def unescape_unicode(body: str, escape: str, start: int) -> str:
    """The value of a U&'' or U&"" whose text between the quotes is `body` (str_udeescape)."""
    parts: list[str] = []
    first_half = index = 0

    def broken_pair() -> PgError:
        return PgError("42601", "invalid Unicode surrogate pair", location=start + 3 + index)

    while index < len(body):
        if body[index] != escape or body.startswith(escape, index + 1):
            if first_half:
                raise broken_pair()
            parts.append(body[index])
            index += 2 if body[index] == escape else 1
            continue
        match = _UNICODE.match(body, index + 1)
        if match is None:
            hint = "Unicode escapes must be \\XXXX or \\+XXXXXX."
            raise PgError("42601", "invalid Unicode escape", hint=hint, location=start + 3 + index)
        code = int(match[1] or match[2], 16)
        if not 0 < code <= 0x10FFFF:
            raise PgError("42601", "invalid Unicode escape value", location=start + 3 + index)
        if is_second_half(code) != bool(first_half):
            raise broken_pair()
        if is_first_half(code):
            first_half = code
        else:
            parts.append(chr(joined(first_half, code) if first_half else code))
            first_half = 0
        index = match.end()
    if first_half:
        raise broken_pair()
    return "".join(parts)


# --- names ------------------------------------------------------------------------------------------------------------


_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def fold(word: str) -> str:
    """A name in lower case, ASCII letters only (downcase_identifier)."""
    return word.lower() if word.isascii() else word.translate(_ASCII_LOWER)


def truncate(name: str, on_notice: OnNotice | None = None) -> str:
    """A name truncated to 63 bytes at a character's edge, with PostgreSQL's notice (truncate_identifier)."""
    if len(name) < NAMEDATALEN // 4:
        return name
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) < NAMEDATALEN:
        return name
    cut = raw[: NAMEDATALEN - 1].decode("utf-8", "ignore")
    if on_notice is not None:
        on_notice(Report("NOTICE", "42622", f'identifier "{name}" will be truncated to "{cut}"'))
    return cut
