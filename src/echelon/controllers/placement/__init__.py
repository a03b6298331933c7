"""The controllers that choose clusters and publish the choice."""
