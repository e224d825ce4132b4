"""The hosts of a connection string, and what libpq says of values that cannot be."""

from __future__ import annotations

import pytest

from pgrepl.replication.conninfo import ConnectionFailure, Endpoint, check_port, endpoints, parse_conninfo


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dbname=x", (Endpoint("", "", "5432"),)),
        ("host=a port=1", (Endpoint("a", "", "1"),)),
        ("host=a,b port=1", (Endpoint("a", "", "1"), Endpoint("b", "", "1"))),
        ("host=a,b port=1,", (Endpoint("a", "", "1"), Endpoint("b", "", "5432"))),
        ("hostaddr=127.0.0.1,::1", (Endpoint("", "127.0.0.1", "5432"), Endpoint("", "::1", "5432"))),
        ("host=a hostaddr=1.2.3.4", (Endpoint("a", "1.2.3.4", "5432"),)),
    ],
)
def test_hosts_in_order(text: str, expected: tuple[Endpoint, ...]) -> None:
    assert endpoints(parse_conninfo(text)) == expected


@pytest.mark.parametrize(
    ("endpoint", "local", "folder", "name"),
    [
        (Endpoint("", "", "5432"), True, False, 'connection to server on socket "/tmp/.s.PGSQL.5432" failed: '),
        (Endpoint("/f", "", "5432"), False, True, 'connection to server on socket "/f/.s.PGSQL.5432" failed: '),
        (
            Endpoint("localhost", "", "5432"), True, False,
            'connection to server at "localhost" (127.0.0.1), port 5432 failed: ',
        ),
        (Endpoint("localhost", "", "5433"), False, False,
            'connection to server at "localhost" (127.0.0.1), port 5433 failed: '),
        (Endpoint("127.0.0.1", "", "5432"), True, False,
            'connection to server at "127.0.0.1", port 5432 failed: '),
        (Endpoint("", "::1", "5432"), True, False, 'connection to server at "::1", port 5432 failed: '),
        (Endpoint("db.example", "127.0.0.1", "5432"), True, False,
            'connection to server at "127.0.0.1", port 5432 failed: '),
        (Endpoint("db.example", "", "1"), False, False, 'connection to server at "db.example", port 1 failed: '),
    ],
)  # fmt: skip
def test_where_a_host_is_and_what_it_is_called(endpoint: Endpoint, local: bool, folder: bool, name: str) -> None:
    assert (endpoint.is_local, endpoint.is_folder, endpoint.name) == (local, folder, name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host=a port=1,2", "could not match 2 port numbers to 1 hosts"),
        ("host=a,b,c port=1,2", "could not match 2 port numbers to 3 hosts"),
        ("host=a,b hostaddr=1.2.3.4", "could not match 2 host names to 1 hostaddr values"),
        ("channel_binding=x sslmode=y", 'invalid channel_binding value: "x"'),
        ("sslmode=y", 'invalid sslmode value: "y"'),
        ("sslmode=", 'invalid sslmode value: ""'),
        ("sslnegotiation=y", 'invalid sslnegotiation value: "y"'),
        (
            "sslnegotiation=direct",
            'weak sslmode "prefer" may not be used with sslnegotiation=direct '
            '(use "require", "verify-ca", or "verify-full")',
        ),
        ("ssl_min_protocol_version=TLSv9", 'invalid "ssl_min_protocol_version" value: "TLSv9"'),
        ("ssl_max_protocol_version=SSLv3", 'invalid "ssl_max_protocol_version" value: "SSLv3"'),
        ("ssl_max_protocol_version=TLSv1.1", "invalid SSL protocol version range"),
        ("sslcertmode=y", 'invalid sslcertmode value: "y"'),
        ("gssencmode=y", 'invalid gssencmode value: "y"'),
        ("gssencmode=require", 'gssencmode value "require" invalid when GSSAPI support is not compiled in'),
        ("target_session_attrs=y", 'invalid target_session_attrs value: "y"'),
        ("load_balance_hosts=y", 'invalid load_balance_hosts value: "y"'),
        ("require_auth=y", 'invalid require_auth value: "y"'),
        ("require_auth=md5,!none", 'negative require_auth method "!none" cannot be mixed with non-negative methods'),
        ("require_auth=!md5,none", 'require_auth method "none" cannot be mixed with negative methods'),
        ("require_auth=md5,md5", 'require_auth method "md5" is specified more than once'),
        ("require_auth=!md5,!md5", 'require_auth method "!md5" is specified more than once'),
    ],
)
def test_values_that_libpq_refuses_before_it_connects(text: str, message: str) -> None:
    with pytest.raises(ConnectionFailure) as caught:
        endpoints(parse_conninfo(text))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("0", 'invalid port number: "0"'),
        ("65536", 'invalid port number: "65536"'),
        ("-1", 'invalid port number: "-1"'),
        ("abc", 'invalid integer value "abc" for connection option "port"'),
        ("1 2", 'invalid integer value "1 2" for connection option "port"'),
        ("99999999999", 'invalid integer value "99999999999" for connection option "port"'),
    ],
)
def test_ports_that_are_none(port: str, message: str) -> None:
    with pytest.raises(ConnectionFailure) as caught:
        check_port(Endpoint("a", "", port))
    assert str(caught.value) == message
