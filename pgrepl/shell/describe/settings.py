r"""`\dconfig`: configuration parameters and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgrepl.catalog import parameters
from pgrepl.shell.describe.listing import print_listing, read_pattern, session_of

if TYPE_CHECKING:
    from pgrepl.shell.shell import Shell


def list_parameters(shell: Shell, text: str | None, verbose: bool) -> bool:
    """List the parameters; without a pattern those that do not have their default."""
    pattern = read_pattern(shell, text)
    if isinstance(pattern, bool):
        return False
    settings = session_of(shell).settings
    listed = []
    for parameter in sorted(parameters.all_parameters(), key=lambda p: p.name):
        if not settings.may_examine(parameter.name):
            continue
        if pattern is not None:
            if not pattern.name.matches(parameter.name.lower()):
                continue
        elif (
            settings.source(parameter.name) == "default"
            or parameters.raw(parameter, settings.value(parameter.name)) == parameter.boot
        ):
            continue
        cells: list[str | None] = [parameter.name, settings.get(parameter.name)]
        listed.append(cells + ([parameter.vartype, parameter.context, None] if verbose else []))
    headers = ("Parameter", "Value", "Type", "Context", "Access privileges")[: 5 if verbose else 2]
    title = "List of configuration parameters" if text is not None else "List of non-default configuration parameters"
    return print_listing(shell, title, headers, listed)
