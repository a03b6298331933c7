import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.kube.scripted_server import Answer, Request, answering, scripted

from echelon.api.core import CONFIG_MAP
from echelon.hub.access.pki import Pki, make_pki, server_ssl_context
from echelon.kube import errors
from echelon.kube.config import ClusterConfig, User
from echelon.kube.http import HttpClient

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


@pytest.fixture(scope="module")
def pki() -> Pki:
    return make_pki(["127.0.0.1", "inner.example"], datetime.now(UTC))


def tls_config(pki: Pki, **options: Any) -> ClusterConfig:
    return ClusterConfig("", **{"authority": pki.authority.certificate_pem, **options})


async def get_over_tls(pki: Pki, config: ClusterConfig) -> Any:
    script = answering((200, {"data": {"k": "v"}}))
    async with (
        scripted(script, server_ssl_context(pki)) as server,
        HttpClient(replace(config, server=server.url)) as client,
    ):
        try:
            return (await client.get(CONFIG_MAP, "a", "b")).data
        except errors.ApiError as error:
            return error


def test_the_server_must_be_the_one_that_the_authority_vouches_for(pki: Pki) -> None:
    other = make_pki(["127.0.0.1"], datetime.now(UTC))
    assert run(get_over_tls(pki, tls_config(pki))) == {"k": "v"}
    for config in (tls_config(other), ClusterConfig("")):
        error = run(get_over_tls(pki, config))
        assert isinstance(error, errors.Unavailable)
        assert "certificate is not trusted" in str(error)
    assert run(get_over_tls(pki, ClusterConfig("", insecure=True))) == {"k": "v"}


def test_the_servers_own_certificate_can_be_the_authority(pki: Pki) -> None:
    assert run(get_over_tls(pki, tls_config(pki, authority=pki.serving.certificate_pem))) == {"k": "v"}


def test_the_name_to_verify_can_be_another_than_the_address(pki: Pki) -> None:
    assert run(get_over_tls(pki, tls_config(pki, tls_server_name="inner.example"))) == {"k": "v"}
    error = run(get_over_tls(pki, tls_config(pki, tls_server_name="outer.example")))
    assert isinstance(error, errors.Unavailable)


def test_a_client_certificate_is_shown_and_a_new_one_after_a_rotation(pki: Pki, tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    seen: list[str] = []

    def rotate(name: str) -> None:
        issued = pki.client_certificate(name, [], datetime.now(UTC))
        certificate.write_bytes(issued.certificate_pem)
        key.write_bytes(issued.key_pem)

    async def script(_: Request, answer: Answer) -> None:
        subject = answer.writer.get_extra_info("peercert")["subject"]
        seen.append(next(value for part in subject for name, value in part if name == "commonName"))
        await answer.send(200 if seen[-1] == "new" else 401, {})

    async def story() -> None:
        rotate("old")
        config = tls_config(pki, user=User(certificate=certificate, key=key))
        async with (
            scripted(script, server_ssl_context(pki)) as server,
            HttpClient(replace(config, server=server.url)) as client,
        ):
            with pytest.raises(errors.Unauthorized):
                await client.get(CONFIG_MAP, "a", "b")
            rotate("new")
            await client.get(CONFIG_MAP, "a", "b")

    run(story())
    assert seen == ["old", "old", "new"]


def test_a_proxy_is_asked_for_a_tunnel_with_its_password(pki: Pki) -> None:
    async def story() -> None:
        async with scripted(answering((200, {"data": {"k": "v"}})), server_ssl_context(pki)) as server:
            connects: list[str] = []

            async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                connects.append((await reader.readuntil(b"\r\n\r\n")).decode())
                back, forth = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await asyncio.gather(_pump(reader, forth), _pump(back, writer))

            proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
            port = proxy.sockets[0].getsockname()[1]
            url = f"http://u:hunter2@127.0.0.1:{port}"
            config = tls_config(pki, tls_server_name="inner.example", proxy_url=url)
            async with HttpClient(replace(config, server="https://inner.example:6443")) as client:
                assert (await client.get(CONFIG_MAP, "a", "b")).data == {"k": "v"}
            proxy.close()
            assert connects[0].startswith("CONNECT inner.example:6443 ")
            assert "Proxy-Authorization: Basic dTpodW50ZXIy" in connects[0]

    run(story())


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


def test_a_proxy_that_refuses_is_said_to_without_its_password(pki: Pki) -> None:
    async def story() -> errors.ApiError:
        async with scripted(answering((407, b""))) as proxy:
            url = proxy.url.replace("//", "//u:hunter2@")
            async with HttpClient(replace(tls_config(pki, proxy_url=url), server="https://c.example")) as client:
                with pytest.raises(errors.Unavailable, match="the proxy answered 407") as caught:
                    await client.get(CONFIG_MAP, "a", "b")
                return caught.value

    assert "hunter2" not in str(run(story()))
