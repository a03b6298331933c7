"""How objects of one kind are told apart: by namespace and name, in that order everywhere."""

from typing import NamedTuple


class Key(NamedTuple):
    """Where an object is. The namespace is empty where its kind has none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
