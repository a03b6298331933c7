"""The controllers of policies and policy sets."""
