"""Sets of pod cliques: pods in several roles that start, are scaled and are updated as gangs."""
