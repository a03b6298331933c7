"""The simulated fleet, and the virtual time that it lives in."""
