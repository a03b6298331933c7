from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.api.quantity import Quantity, QuantityError, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("4", 4.0),
        (" 007 ", 7.0),
        ("500m", 0.5),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-2", -2.0),
        ("+3", 3.0),
        ("2k", 2000.0),
        ("2Ki", 2048.0),
        ("64Gi", float(64 * 2**30)),
        ("1Ei", float(2**60)),
        ("12E", 12e18),
        ("12E3", 12000.0),
        ("2e3", 2000.0),
        ("5e-3", 0.005),
        ("100n", 100 * 1e-9),
    ],
)
def test_the_value_as_a_float(text: str, value: float) -> None:
    assert parse_quantity(text).approximate() == value


def test_a_number_needs_no_quotes() -> None:
    assert parse_quantity(8) == Quantity(8)


def test_rounding_is_one_multiplication_as_in_kubernetes() -> None:
    # 3 * 0.1, not 0.3: what others compute is what must be compared.
    assert parse_quantity("0.3").approximate() == 0.30000000000000004
    assert parse_quantity("1.500") == Quantity(1500, -3)


def test_what_is_smaller_than_a_billionth_counts_as_one() -> None:
    assert parse_quantity("1e-12") == Quantity(1, -9)
    assert parse_quantity("-1e-12") == Quantity(-1, -9)
    assert parse_quantity("0.0000000001Ki").exact() == Fraction(103, 10**9)


def test_fractions_of_binary_units_are_exact() -> None:
    assert parse_quantity("1.5Gi").exact() == Fraction(3, 2) * 2**30


def test_binary_quantities_have_a_largest_value() -> None:
    assert parse_quantity("100Ei").exact() == 2**63 - 1


@pytest.mark.parametrize(
    "text", ["", "x", "1 Gi", "1.2.3", "Ki", ".", "1KI", "1e", "--1", "0x10", "1e99999", "9" * 500, "\u0661"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@given(st.integers(0, 10**12), st.sampled_from(["", "k", "M", "m", "Ki", "Mi"]))
def test_the_exact_value_is_number_times_unit(number: int, unit: str) -> None:
    factors: dict[str, int | Fraction] = {"": 1, "k": 1000, "M": 10**6, "m": Fraction(1, 1000), "Ki": 1024, "Mi": 2**20}
    assert parse_quantity(f"{number}{unit}").exact() == number * factors[unit]
