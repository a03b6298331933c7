"""The controllers of policies on the hub."""
