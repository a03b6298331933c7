"""The fleet in a browser, with the rights of whoever looks."""
