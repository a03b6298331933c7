"""The HTTP surface: addresses, encodings, and the documents by which clients find their way."""
