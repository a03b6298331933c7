"""State that survives: revisions, history, watches, and the durable log."""
