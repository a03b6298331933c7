"""A real browser, driven by the protocol of its developer tools over one websocket: no driver, no dependency."""

import asyncio
import base64
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

PATIENCE_SECONDS = 60.0
ABSENCE = "no browser: tests of the dashboard in Chromium are skipped (Debian's package chromium has it)"
REQUIRED = "ECHELON_REQUIRE_BROWSER"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


def program() -> str | None:
    """Return where a browser is."""
    named = os.environ.get("ECHELON_BROWSER", "chromium")
    return shutil.which(named)


class Page:
    """One tab. Everything that its page logged or refused is kept in `heard`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.heard: list[str] = []
        self._listening = asyncio.create_task(self._listen())

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await answer

    async def open(self, url: str) -> None:
        await self.call("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """Return what an expression gives, in the page."""
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        found = await self.call("Runtime.evaluate", **asked)
        if "exceptionDetails" in found:
            raise AssertionError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    async def until(
        self, script: str, *, holds: Callable[[Any], bool] = bool, why: str = "", seconds: float = PATIENCE_SECONDS
    ) -> Any:
        """Wait until an expression gives what is wanted."""
        last: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    with suppress(AssertionError):  # the page may be on its way to another
                        last = await self.run(script)
                        if holds(last):
                            return last
                    await asyncio.sleep(0.05)
        except TimeoutError:
            text = await self.run("document.body.innerText")
            raise AssertionError(f"{why or script}: {last!r}; the page says: {text[:1500]}; {self.heard}") from None

    async def text(self) -> str:
        found: str = await self.run("document.body.innerText")
        return found

    async def click(self, selector: str) -> None:
        await self.until(
            f"!!document.querySelector({json.dumps(selector)}) "
            f"&& !document.querySelector({json.dumps(selector)}).disabled",
            why=f"no {selector}",
        )
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    async def size(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    async def dark(self, *, on: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def picture(self, path: Path, *, height: int = 0) -> None:
        """Take a picture of the window, or of so much of it from above."""
        wide, high, above = await self.run("[innerWidth, innerHeight, scrollY]")
        clip = {"x": 0, "y": above, "width": wide, "height": height or high, "scale": 1}
        found = await self.call("Page.captureScreenshot", format="png", clip=clip)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))

    async def _listen(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                answer = self._answers.pop(told["id"])
                if answer.done():  # nobody waits for it any more
                    continue
                if "error" in told:
                    answer.set_exception(AssertionError(str(told["error"])))
                else:
                    answer.set_result(told.get("result", {}))
            elif told["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.heard.append(json.dumps(told["params"])[:500])

    async def close(self) -> None:
        self._listening.cancel()
        await self._socket.close()


@asynccontextmanager
async def browser(path: str) -> AsyncIterator[Page]:
    """Start a browser with a profile of its own, and open a tab."""
    with tempfile.TemporaryDirectory(prefix="echelon-browser-", ignore_cleanup_errors=True) as directory:
        process = await asyncio.create_subprocess_exec(
            path,
            *_FLAGS,
            f"--user-data-dir={directory}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            port = await _port(Path(directory) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                    tab = next(each for each in await answer.json() if each["type"] == "page")
                page = Page(await session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0))
                for domain in ("Page", "Runtime", "Log"):
                    await page.call(f"{domain}.enable")
                try:
                    yield page
                finally:
                    await page.close()
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(20):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (text := _read(file)):
            assert process.returncode is None, "the browser has ended"
            await asyncio.sleep(0.05)
    return int(text.split()[0])


def _read(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""
