"""How kinds behave beyond their schema, and their subresources."""
