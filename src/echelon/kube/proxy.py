"""Which proxy leads to a server, by the environment variables that kubectl honours.

The rules are those of Go's HTTP client, because people set HTTPS_PROXY and NO_PROXY once for all their tools: loopback
is never proxied; NO_PROXY takes `*`, addresses, CIDRs, `host`, `.suffix` and `*.suffix`, each but the CIDR with an
optional port; a host covers its subdomains and a suffix does not cover the bare domain.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SCHEMES = ("http", "https")
_PORTS = {"http": "80", "https": "443"}


class BadProxy(Exception):
    """A proxy URL that cannot be used; the text has no credentials in it."""


def from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for a server; empty means to connect directly."""
    target = urlsplit(server)
    name = "HTTPS_PROXY" if target.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    if not proxy or _direct(target, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        return checked(proxy)
    except BadProxy as error:
        raise BadProxy(f"{name}: {error}") from None


def checked(proxy: str) -> str:
    """Return a proxy URL if it is one that can be used."""
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadProxy("must be the URL of an http or https proxy")
    return proxy


def _direct(target: SplitResult, exceptions: str) -> bool:
    host = (target.hostname or "").lower()
    port = str(target.port or _PORTS.get(target.scheme, ""))
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(part.strip().lower(), host, port, address) for part in exceptions.split(","))


def _covers(exception: str, host: str, port: str, address: Address | None) -> bool:
    """Tell whether one part of NO_PROXY is about the host."""
    if exception in ("", "*"):
        return exception == "*"
    if "/" in exception:
        return address is not None and _in_network(address, exception)
    wanted_host, wanted_port = _split_port(exception)
    if wanted_port and wanted_port != port:
        return False
    wanted_address = _address(wanted_host)
    if wanted_address is not None:
        return wanted_address == address
    wanted_host = wanted_host.removeprefix("*") if wanted_host.startswith("*.") else wanted_host
    if not wanted_host:
        return False
    if wanted_host.startswith("."):
        return host.endswith(wanted_host)
    return host == wanted_host or host.endswith(f".{wanted_host}")


def _split_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port
    return text, ""


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _in_network(address: Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
