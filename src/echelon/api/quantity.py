"""Quantities of resources, with the value that Kubernetes' own arithmetic gives them.

Scores are computed from floating point numbers, and two implementations agree only if they round at the same places. So
a quantity is what Kubernetes keeps, an integer and a power of ten, and becomes a float by exactly one multiplication.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

_PATTERN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]{1,9}))?", re.ASCII)
_SHOWN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_BINARY = {unit: 10 * (power + 1) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NANO = 9  # digits after the point that Kubernetes keeps
_LARGEST = 2**63 - 1
_MOST_ZEROS = 400  # more than a float can express, so a long exponent costs nothing


class QuantityError(ValueError):
    """A text that is no quantity."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """The value `mantissa * 10**exponent`."""

    mantissa: int
    exponent: int = 0

    def approximate(self) -> float:
        """Return the value as a float, rounded where Kubernetes rounds."""
        try:
            base = float(self.mantissa)
        except OverflowError:
            return float("inf") if self.mantissa > 0 else float("-inf")
        return base if self.exponent == 0 else base * float(f"1e{self.exponent}")

    def exact(self) -> Fraction:
        """Return the value as it is."""
        if self.exponent < 0:
            return Fraction(self.mantissa, 10**-self.exponent)
        return Fraction(self.mantissa * 10**self.exponent)


def parse_quantity(value: str | int) -> Quantity:
    """Read a quantity: 4, 500m, 1.5Gi, 2e3. A number may come without quotes."""
    text = str(value).strip()
    found = _PATTERN.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        raise QuantityError(f"quantities must match the regular expression '{_SHOWN}'")
    sign = -1 if found[1] == "-" else 1
    whole, fraction = found[2].lstrip("0") or "0", found[3] or ""
    if len(whole) + len(fraction) > _MOST_ZEROS:
        raise QuantityError(f"quantity of more than {_MOST_ZEROS} digits")
    if found[4]:
        return _binary(sign, whole, fraction, _BINARY[found[4]])
    exponent = int(found[6]) if found[6] else _DECIMAL.get(found[5] or "", 0)
    if abs(exponent) > _MOST_ZEROS:
        raise QuantityError(f"exponent of quantity {text!r} is out of range")
    return _decimal(sign, whole, fraction, exponent)


def _decimal(sign: int, whole: str, fraction: str, exponent: int) -> Quantity:
    scale = exponent - len(fraction)
    digits = int(whole + fraction)
    if len(whole) + len(fraction) <= 18 and scale >= -_NANO:
        return Quantity(sign * digits, scale)
    return _in_nanos(sign, digits, scale)


def _binary(sign: int, whole: str, fraction: str, power: int) -> Quantity:
    precision = 15 - len(whole) - power * 3 // 10 - 1
    if not fraction and precision >= 0:
        return Quantity(sign * (int(whole) << power))
    quantity = _in_nanos(sign, int(whole + fraction) << power, -len(fraction))
    most = _LARGEST * 10**_NANO
    return Quantity(max(-most, min(most, quantity.mantissa)), quantity.exponent)


def _in_nanos(sign: int, digits: int, scale: int) -> Quantity:
    """Keep nine digits after the point; what is smaller counts as one more, away from zero."""
    shift = scale + _NANO
    nanos = digits * 10**shift if shift >= 0 else -(-digits // 10**-shift)
    return Quantity(sign * nanos, -_NANO)
