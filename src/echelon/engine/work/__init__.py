"""What an agent decides about one work: in which order and how to apply it, and what to report."""
