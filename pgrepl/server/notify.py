"""Messages to the service manager that has started the server (sd_notify): systemd's Type=notify."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Tell the service manager, if there is one; a name that begins with @ is in the abstract namespace."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect("\0" + path[1:] if path[0] == "@" else path)
        sender.sendall(state.encode())
