"""The port of a hub that keeps its data.

Agents, kubeconfigs and what agents recorded on their clusters know a hub by its address. A hub that took any free port
at each start would be another one to them each time, so the port is kept with the data.
"""

from pathlib import Path

from echelon.hub.access.private import write_private

_FILE = "port"
_LAST = 65535


class PortTaken(OSError):
    """Another process listens where the hub is to be."""

    def __init__(self, host: str, port: int, *, remembered: bool) -> None:
        if remembered:
            what = f"port {port}, which this hub had before, is taken by another process; end that one, or move the hub"
            super().__init__(f"{what} with --listen {host or 'HOST'}:PORT")
        else:
            super().__init__(f"port {port} of {host or 'this machine'} is taken by another process")


class PortUnreadable(OSError):
    """What is kept as the hub's port is none."""

    def __init__(self, file: Path, content: str) -> None:
        super().__init__(f"{file}: {content[:20]!r} must be a port from 1 to {_LAST}; give one with --listen HOST:PORT")


def remembered_port(data: Path) -> int:
    """Return the port that a hub had before; 0 if it never had one. Raises `PortUnreadable`."""
    file = data / _FILE
    try:
        text = file.read_text(errors="replace").strip()
    except FileNotFoundError:
        return 0
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= _LAST):
        raise PortUnreadable(file, text)
    return int(text)


def remember_port(data: Path, port: int) -> None:
    """Keep the port for the next start."""
    text = f"{port}\n".encode()
    file = data / _FILE
    if not file.exists() or file.read_bytes() != text:
        write_private(file, text)
