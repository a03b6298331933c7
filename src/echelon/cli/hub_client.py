"""The client of commands that ask a hub once, imported without what takes a fifth of such a command's time.

When aiohttp is imported, it reads the system's certificate authorities twice, for connections of which nobody says whom
to trust. Ours do: what a kubeconfig says makes a context of its own. OpenSSL has two variables that say where the
system's are; with them, aiohttp's own contexts trust nobody, and a connection which needs them after all is refused.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from echelon.kube.config import ClusterConfig
    from echelon.kube.http import HttpClient

_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def hub_client(config: "ClusterConfig", patience_seconds: float) -> "HttpClient":
    """Return a client for a hub."""
    with _no_authorities(needed=bool(config.proxy_url)):
        from echelon.kube.http import HttpClient

    return HttpClient(config, timeout_seconds=patience_seconds)


@contextmanager
def _no_authorities(*, needed: bool) -> Iterator[None]:
    """Import aiohttp without the system's authorities, unless they are `needed`, as for a proxy with TLS."""
    if needed or "aiohttp" in sys.modules:
        yield
        return
    before = {name: os.environ.get(name) for name in _AUTHORITIES}
    os.environ.update(dict.fromkeys(_AUTHORITIES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
