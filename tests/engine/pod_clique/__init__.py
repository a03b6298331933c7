"""Sets of pod cliques, as the engine decides about them."""
