"""The controllers of clusters themselves: sets, health, registration and the way out."""
