"""What the Spark session is asked for: by the command line and by the environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pgrepl.errors import PgError
from pgrepl.frozen import frozen

DEFAULT_MASTER = "local[*]"


@frozen
class Options:
    """Where Spark runs: in this machine, on a cluster (`master`), or behind a Spark Connect server (`remote`)."""

    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()


def read_options(
    environment: Mapping[str, str],
    master: str | None = None,
    remote: str | None = None,
    conf: tuple[str, ...] = (),
) -> Options:
    """What the command line says, and where it is silent PGREPL_MASTER, PGREPL_REMOTE and PGREPL_CONF; settings of the
    command line come on top of those of PGREPL_CONF ("k=v k=v", quoted as in a shell)."""
    if master is None and remote is None:
        master, remote = environment.get("PGREPL_MASTER") or None, environment.get("PGREPL_REMOTE") or None
    if master is not None and remote is not None:
        raise PgError("22023", "a master and a remote cannot both be given")
    try:
        words = shlex.split(environment.get("PGREPL_CONF", ""))
    except ValueError as problem:
        raise PgError("22023", f"invalid value of PGREPL_CONF: {problem}") from problem
    settings: dict[str, str] = {}
    for word in [*words, *conf]:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise PgError("22023", f'invalid Spark setting "{word}"', hint="Write it as name=value.")
        settings[name.strip()] = value
    return Options(master, remote, tuple(settings.items()))
