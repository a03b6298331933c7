"""String formats that Kubernetes checks in custom resources.

Every other format is a note to the reader. A value that only another library's parser would refuse must pass, so these
are as lenient as the Go parsers that define them.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from functools import lru_cache

from echelon.api.name_patterns import LABEL, SUBDOMAIN

_UUID = "^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$"
_ANY, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
_BYTE = "(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_CARD = (
    "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
)
_AMOUNT = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"

_TIME = re.compile(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
_GO_DURATION = re.compile(rf"^[-+]?(0|({_AMOUNT})+)$")
# Begins where digits begin, and never reads them twice: a text of a million digits takes no longer than any other.
_WORDY_DURATION = re.compile(r"(?<![0-9])[0-9]++\s*+([A-Za-zµ]++)")
_LONGEST_DURATION = 4096  # characters; nobody writes more of them, and matching them takes memory
_UNIT = re.compile(
    "ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*", re.IGNORECASE | re.DOTALL
)
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_MAC = re.compile(
    r"^([0-9A-Fa-f]{2}([:-])([0-9A-Fa-f]{2}\2){4,6}[0-9A-Fa-f]{2}|([0-9A-Fa-f]{4}\.){2,3}[0-9A-Fa-f]{4})$"
)
_HOSTNAME = re.compile(r"[^\W_](-?[^\W_]{0,62})?|([^\W_](([^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63}")


def _matches(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    found = re.compile(pattern, flags | re.ASCII).search
    return lambda text: found(text) is not None and not text.endswith("\n")


def is_date(text: str) -> bool:
    """Tell whether it is a date like 2006-01-02."""
    if len(text) != 10:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)  # an object repeats its timestamps, and each write looks at all of them
def is_date_time(text: str) -> bool:
    """Tell whether it is a date and a time as RFC 3339 has them."""
    if len(text) < 4:
        return False
    day, separator, clock = text.lower().partition("t")
    if not separator or "t" in clock or not is_date(day):
        return False
    found = _TIME.match(clock)
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def is_duration(text: str) -> bool:
    """Tell whether it is a duration, in Go's notation or in words ("3 days")."""
    if len(text) > _LONGEST_DURATION:
        return False
    if _GO_DURATION.match(text):
        return True
    return any(_UNIT.fullmatch(unit) for unit in _WORDY_DURATION.findall(text))


def is_uri(text: str) -> bool:
    """Tell whether a request could be made to it: an absolute address or path."""
    if not text or any(char < " " or char == "\x7f" for char in text) or _BAD_ESCAPE.search(text.partition("?")[0]):
        return False
    if text.startswith("/"):
        return True
    scheme = _SCHEME.match(text)
    return scheme is not None and " " not in text[scheme.end() :].removeprefix("//").partition("/")[0]


def is_ip(text: str, version: int) -> bool:
    """Tell whether it is an address of that version; zeros in front of IPv4 numbers are tolerated."""
    if version == 4 and "." in text and ":" not in text:
        text = re.sub(r"(^|\.)0+(?=[0-9])", r"\1", text)
    try:
        return ipaddress.ip_address(text).version == version and "%" not in text
    except ValueError:
        return False


def is_cidr(text: str) -> bool:
    """Tell whether it is a network like 10.0.0.0/8."""
    address, slash, bits = text.partition("/")
    version = 4 if is_ip(address, 4) else 6
    return bool(slash) and bits.isdecimal() and int(bits) <= (32 if version == 4 else 128) and is_ip(address, version)


def is_hostname(text: str) -> bool:
    """Tell whether it is a name of a host; its last part, if there are several, has only letters."""
    sizes = [len(part.encode()) for part in text.split(".")]
    return _HOSTNAME.fullmatch(text) is not None and len(text.encode()) <= 255 and max(sizes) <= 63


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(text)


def _is_isbn(text: str, length: int) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if length == 10:
        if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
            return False
        return sum((index + 1) * (10 if char == "X" else int(char)) for index, char in enumerate(digits)) % 11 == 0
    return bool(re.fullmatch(r"[0-9]{13}", digits)) and (
        sum(int(char) * (1, 3)[index % 2] for index, char in enumerate(digits)) % 10 == 0
    )


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not re.match(_CARD, digits):
        return False
    doubled = (int(char) * (2 if index % 2 else 1) for index, char in enumerate(reversed(digits)))
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _name(pattern: str, longest: int) -> Callable[[str], bool]:
    matches = _matches(f"^{pattern}$")
    return lambda text: len(text) <= longest and matches(text)


# By name without dashes, as Kubernetes compares them.
CHECKED: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("^[0-9a-fA-F]{24}$"),
    "uri": is_uri,
    "email": _matches(r"^(.*<[^<>@\s]+@[^<>@\s]+>|[^<>@\s,]+@[^<>@\s,]+)$"),
    "hostname": is_hostname,
    "ipv4": lambda text: "." in text and (is_ip(text, 4) or is_ip(text, 6)),
    "ipv6": lambda text: is_ip(text, 6),
    "cidr": is_cidr,
    "mac": lambda text: _MAC.match(text) is not None,
    "uuid": _matches(_UUID.format(third=_ANY, fourth=_ANY), re.IGNORECASE),
    "uuid3": _matches(_UUID.format(third="3[0-9a-f]{3}", fourth=_ANY), re.IGNORECASE),
    "uuid4": _matches(_UUID.format(third="4[0-9a-f]{3}", fourth=_VARIANT), re.IGNORECASE),
    "uuid5": _matches(_UUID.format(third="5[0-9a-f]{3}", fourth=_VARIANT), re.IGNORECASE),
    "isbn": lambda text: _is_isbn(text, 10) or _is_isbn(text, 13),
    "isbn10": lambda text: _is_isbn(text, 10),
    "isbn13": lambda text: _is_isbn(text, 13),
    "creditcard": _is_credit_card,
    "ssn": _matches(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
    "hexcolor": _matches("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "rgbcolor": _matches(rf"^rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)$"),
    "byte": _is_base64,
    "date": is_date,
    "datetime": is_date_time,
    "duration": is_duration,
    "k8sshortname": _name(LABEL, 63),
    "k8slongname": _name(SUBDOMAIN, 253),
}
