"""How built-in kinds behave beyond their schema."""
