"""Simulated member clusters: what an agent finds at the other end, a thousand of them in one process."""
