"""What is to be done about a work set: which works to write, which to remove, and what to say about it."""
