"""Rollouts as people look at them and steer them, whatever they look with."""
