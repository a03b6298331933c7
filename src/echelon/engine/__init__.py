"""Every decision that Echelon takes, as functions of values."""
