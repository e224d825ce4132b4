"""The state of a server, which all its processes see."""

from __future__ import annotations

import mmap

STARTING, RUNNING, STOPPING = "starting", "running", "stopping"
_STATES = (STARTING, RUNNING, STOPPING)


class ServerState:
    """Whether the server takes connections; made before the first process is forked."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self, state: str) -> None:
        self._memory[0] = _STATES.index(state)

    def get(self) -> str:
        return _STATES[self._memory[0]]
