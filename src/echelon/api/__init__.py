"""The API objects: what Echelon reads and writes, as frozen values, one module an API group."""
