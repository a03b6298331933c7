"""A server that does exactly what a test says: answers, half answers, silence, resets."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(self.target).query).items()}


@dataclass
class Answer:
    """Where a script writes to."""

    writer: asyncio.StreamWriter

    async def send(self, status: int = 200, body: Any = None, **headers: str) -> None:
        """Answer in full; anything but bytes goes out as JSON."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else {})
        named = {"Content-Type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        head = self._head(status, {**named, "Content-Length": str(len(content))})
        await self.raw(head + content)

    async def stream(self, *chunks: bytes, end: bool = True) -> None:
        """Answer with a chunked body."""
        await self.raw(self._head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        for chunk in chunks:
            await self.chunk(chunk)
        if end:
            await self.raw(b"0\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        self.writer.transport.abort()

    @staticmethod
    def _head(status: int, headers: dict[str, str]) -> bytes:
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode()


Script = Callable[[Request, Answer], Awaitable[None]]


def answering(*answers: tuple[int, Any] | tuple[int, Any, dict[str, str]]) -> Script:
    """Give one answer after the other, the last one for ever."""
    left = list(answers)

    async def script(_: Request, answer: Answer) -> None:
        status, body, *headers = left.pop(0) if len(left) > 1 else left[0]
        await answer.send(status, body, **(headers[0] if headers else {}))

    return script


@dataclass
class ScriptedServer:
    script: Script
    scheme: str = "http"
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)  # some connection is over

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                await self.script(request, Answer(writer))
                if writer.transport.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
            self.ended.set()


@asynccontextmanager
async def scripted(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(script, "https" if context else "http")
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    length = next((int(value) for key, value in headers if key.lower() == "content-length"), 0)
    return Request(method, target, headers, await reader.readexactly(length) if length else b"")
