"""Measures the hub from outside, as a client sees it, and its create path from inside, stage by stage."""
