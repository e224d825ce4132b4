"""The options of output plugins, from the functions' array of names and values in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.catalog.identifiers import split_identifiers
from pgrepl.errors import PgError
from pgrepl.frozen import frozen
from pgrepl.sql.def_elem import get_boolean, get_streaming
from pgrepl.sql.nodes import DefElem
from pgrepl.types.numbers import parse_bool

Given = Sequence[tuple[str, str]]
_OLDEST_VERSION = 1  # of the protocol
_WITH_TWO_PHASE = 3
_NEWEST_VERSION = 4


@dataclass
class TextOptions:
    """The options of test_decoding."""

    include_xids: bool = True
    include_timestamp: bool = False
    skip_empty_xacts: bool = False
    only_local: bool = False
    force_binary: bool = False
    include_rewrites: bool = False  # no effect: rewrites of tables are not decoded
    stream_changes: bool = False  # no effect: a transaction is decoded only after its commit


def text_options(given: Given) -> TextOptions:
    """Read the options of test_decoding (pg_decode_startup)."""
    options = TextOptions()
    for name, value in given:
        attribute = name.replace("-", "_")
        if "_" in name or not hasattr(options, attribute):
            raise PgError("22023", f'option "{name}" = "{value}" is unknown')
        flag = parse_bool(value)
        if flag is None:
            raise PgError("22023", f'could not parse value "{value}" for parameter "{name}"')
        setattr(options, attribute, flag)
    return options


@frozen
class ProtocolOptions:
    """The options of pgoutput."""

    publications: tuple[str, ...]
    local_only: bool
    messages: bool
    two_phase: bool
    binary: bool  # values in their types' binary format


def protocol_options(given: Given) -> ProtocolOptions:
    """Read and check the options of pgoutput (parse_output_parameters, pgoutput_startup). `streaming` allows large
    transactions to be sent before their end; the protocol leaves it to the publisher, and here none is."""
    seen: dict[str, str] = {}
    flags = dict.fromkeys(("binary", "messages", "two_phase"), False)
    publications: list[str] | None = None
    streaming = "f"
    for name, value in given:
        if name not in ("proto_version", "publication_names", "binary", "messages", "streaming", "two_phase", "origin"):
            raise PgError("XX000", f"unrecognized pgoutput option: {name}")
        if name in seen:
            raise PgError("42601", "conflicting or redundant options")
        seen[name] = value
        if name == "proto_version":
            _check_number(value)
        elif name == "publication_names":
            publications = split_identifiers(value)
            if publications is None:
                raise PgError("42602", "invalid publication_names syntax")
        elif name == "origin":
            if value.lower() not in ("none", "any"):
                raise PgError("22023", f'unrecognized origin value: "{value}"')
        elif name == "streaming":
            streaming = get_streaming(DefElem(name, value))
        else:
            flags[name] = get_boolean(DefElem(name, value))
    for required in ("proto_version", "publication_names"):
        if required not in seen:
            raise PgError("22023", f'option "{required}" missing')
    version = int(seen["proto_version"])
    _check_version(version)
    _check_streaming(version, streaming)
    if flags["two_phase"] and version < _WITH_TWO_PHASE:
        raise PgError(
            "22023",
            f"requested proto_version={version} does not support two-phase commit, need {_WITH_TWO_PHASE} or higher",
        )
    local_only = seen.get("origin", "any").lower() == "none"
    return ProtocolOptions(
        tuple(publications or ()), local_only, flags["messages"], flags["two_phase"], flags["binary"]
    )


def _check_number(value: str) -> None:
    if not value.isascii() or not value.strip().isdigit():
        raise PgError("22023", "invalid proto_version")
    if int(value) > 0xFFFF_FFFF:
        raise PgError("22023", f'proto_version "{value}" out of range')


def _check_streaming(version: int, streaming: str) -> None:
    how, least = ("parallel streaming", 4) if streaming == "p" else ("streaming", 2)
    if version < least and streaming != "f":
        raise PgError("22023", f"requested proto_version={version} does not support {how}, need {least} or higher")


def _check_version(version: int) -> None:
    sent = f"client sent proto_version={version} but server only supports protocol"
    if version > _NEWEST_VERSION:
        raise PgError("0A000", f"{sent} {_NEWEST_VERSION} or lower")
    if version < _OLDEST_VERSION:
        raise PgError("0A000", f"{sent} {_OLDEST_VERSION} or higher")
