"""A change tried on a copy of a fleet: real controllers and agents, simulated clusters, virtual time."""
