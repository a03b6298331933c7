"""A durable hub stays where its agents and kubeconfigs know it."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from echelon.cli import main
from echelon.hub.address import PortTaken, PortUnreadable
from echelon.hub.server import Hub, Settings


def port_of(data: Path, port: int = 0) -> int:
    async def start() -> int:
        hub = await Hub.start(Settings(data=data, port=port))
        try:
            return hub.port
        finally:
            await hub.stop()

    return asyncio.run(start())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_hub_with_data_has_the_same_port_at_every_start(tmp_path: Path) -> None:
    first = port_of(tmp_path)
    assert port_of(tmp_path) == first


def test_a_port_that_was_asked_for_is_the_one_that_is_remembered(tmp_path: Path) -> None:
    port_of(tmp_path)
    chosen = free_port()
    assert port_of(tmp_path, chosen) == chosen
    assert port_of(tmp_path) == chosen


def taken(port: int, meanwhile: Callable[[], None]) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        meanwhile()


def test_a_hub_whose_port_is_taken_says_so_and_takes_no_other(tmp_path: Path) -> None:
    port = port_of(tmp_path)

    def start() -> None:
        with pytest.raises(PortTaken, match=rf"port {port}, which this hub had before, is taken.*--listen"):
            port_of(tmp_path)
        done = CliRunner().invoke(main, ["hub", "--data", str(tmp_path)])
        assert done.exit_code == 1
        assert f"port {port}, which this hub had before, is taken" in done.output

    taken(port, start)
    assert port_of(tmp_path) == port


def test_a_port_that_was_asked_for_and_is_taken_is_named(tmp_path: Path) -> None:
    port = free_port()

    def start() -> None:
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is taken"):
            port_of(tmp_path, port)

    taken(port, start)


@pytest.mark.parametrize("content", ["", "many", "70000", "-1", "\N{SUPERSCRIPT TWO}"])
def test_a_memory_that_is_no_port_is_an_error_that_names_the_file(tmp_path: Path, content: str) -> None:
    port_of(tmp_path)
    (tmp_path / "port").write_text(content)
    with pytest.raises(PortUnreadable, match=r"port: .*must be a port"):
        port_of(tmp_path)
    chosen = free_port()
    assert port_of(tmp_path, chosen) == chosen
