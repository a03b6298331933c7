"""The bodies of requests: read in time, bounded, and decoded beside the event loop where that takes long.

A client may send a body a byte a minute, or three megabytes of the slowest YAML there is. The first holds nothing but
a place of its user, and not for long. The second is decoded in a thread, and whoever sends large ones has them written
one after the other: what a write does with an object takes as long again, and is done in a thread as well.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from echelon.hub.verbs.admission import AT_ONCE
from echelon.hub.verbs.breaks import to_the_end
from echelon.hub.web import codec
from echelon.hub.web.http import Call
from echelon.kube import errors


async def read_bytes(call: Call) -> bytes:
    """Read a body up to the limit; what is longer is refused without being read, and so is what never ends."""
    http = call.http
    if (http.content_length or 0) > codec.MAX_BODY_BYTES:
        raise _too_large()
    chunks, size = [], 0
    try:
        async with asyncio.timeout(call.limits.request_seconds):
            async for chunk in http.content.iter_any():
                size += len(chunk)
                if size > codec.MAX_BODY_BYTES:
                    raise _too_large()
                chunks.append(chunk)
    except TimeoutError:
        raise errors.ServerTimeout("Timeout: request did not complete within the allotted duration") from None
    except web.RequestPayloadError as error:
        raise errors.BadRequest(f"the body of the request cannot be read: {error}") from None
    return b"".join(chunks)


def _too_large() -> errors.TooLarge:
    return errors.TooLarge(f"Request entity too large: limit is {codec.MAX_BODY_BYTES}")


@asynccontextmanager
async def received(call: Call, kind: str = "") -> AsyncIterator[codec.Body]:
    """Have the body of a request, decoded; errors name the kind that was wanted. Use it before the context ends."""
    async with _received(call, await read_bytes(call), kind) as body:
        yield body


@asynccontextmanager
async def received_if_any(call: Call) -> AsyncIterator[codec.Body]:
    """Have a body that need not be there: then it is an empty object."""
    data = await read_bytes(call)
    if not data.strip():
        yield codec.Body({})
        return
    async with _received(call, data, "") as body:
        yield body


@asynccontextmanager
async def _received(call: Call, data: bytes, kind: str) -> AsyncIterator[codec.Body]:
    media = call.http.headers.get("Content-Type", "application/json")
    look = call.http.query.get("fieldValidation") != "Ignore"
    if len(data) <= AT_ONCE:
        yield codec.read(data, media, kind, look_for_repeated=look)
        return
    async with call.limits.large.place(call.share):
        yield await to_the_end(lambda: codec.read(data, media, kind, look_for_repeated=look))
