"""Scores for those who publish them: a measurement, however large, becomes a number that placements can weigh."""

HIGHEST, LOWEST = 100, -100


class NoRange(ValueError):
    """A measurement is to be compared with a range that has no width."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__(f"there is nothing between {low} and {high}")
        self.low = low
        self.high = high


def normalized_score(value: float, low: float, high: float) -> int:
    """Return where a measurement is between `low` and `high`, as a score from -100 to 100.

    Beyond them it is the score of the nearer end. Fractions are cut off, as upstream's helper does.
    """
    if not low < high:
        raise NoRange(low, high)
    if value > high:
        return HIGHEST
    if value <= low:
        return LOWEST
    return int((HIGHEST - LOWEST) * (value - low) / (high - low) + LOWEST)
