"""Informers between parties of one process.

Streams end after some minutes, and begin anew, because servers and connections between them and their clients may be
gone without a word. Here neither can be, and in the days that a rollout takes on virtual time it would be most of what
an agent does. Everything else is as with every informer: lists, gaps in the history, and members that are cut off.
"""

from contextlib import aclosing
from typing import TypeVar

from echelon.kube.informer import Informer

T = TypeVar("T")


class SteadyInformer(Informer[T]):
    """An informer whose streams go on until somebody breaks them."""

    async def _follow(self) -> None:
        """Take in what a stream brings until it breaks."""
        stream = self._reader.watch(
            self.kind, self.namespace, labels=self._labels, fields=self._fields, resource_version=self._resume
        )
        async with aclosing(stream):  # type: ignore[type-var]  # it is a generator, whatever its type says
            async for event in stream:
                self._take(event)
