"""The controllers of work sets and of works that expire."""
