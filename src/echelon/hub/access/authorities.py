"""Exchanging the hub's authority, in the three steps that Kubernetes documents: trust both, use the new one, forget.

Between the steps everybody has time to learn what is to come: `next` publishes the new authority beside the present
one, `switch` has it sign, `finish` ends the trust in the old one. Each step is taken before the hub starts and survives
being interrupted: a key is replaced before its certificate, and a pair of the next authority is recognised.
"""

from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from cryptography import x509

from echelon.hub.access import pki
from echelon.hub.access.private import private_directory, read_private, write_private

RotationStep: TypeAlias = Literal["next", "switch", "finish"]

_PRESENT, _NEXT, _OLD = "ca", "ca-next", "ca-old"


class WrongStep(pki.PkiError):
    """A step of the exchange whose turn it is not."""


def take(step: RotationStep, directory: Path, now: datetime) -> str:
    """Take a step, and say what holds now. One that has been taken is not taken again."""
    private_directory(directory)
    settle(directory)
    if step == "next":
        return _announce(directory, now)
    if step == "switch":
        return _switch(directory)
    _certificate(directory, _OLD).unlink(missing_ok=True)
    return "only the present authority is trusted"


def _announce(directory: Path, now: datetime) -> str:
    if _certificate(directory, _OLD).exists():
        raise WrongStep("an exchange of the authority is under way: finish it before the next one")
    if not _certificate(directory, _NEXT).exists():
        made = pki.new_authority(now)
        write_private(_key(directory, _NEXT), made.key_pem)
        write_private(_certificate(directory, _NEXT), made.certificate_pem)
    return "the next authority is trusted beside the present one; switch when all agents have heard of it"


def _switch(directory: Path) -> str:
    if not _certificate(directory, _NEXT).exists():
        if not _certificate(directory, _OLD).exists():
            raise WrongStep("there is no next authority to switch to: take the step next first")
    else:
        write_private(_certificate(directory, _OLD), _certificate(directory, _PRESENT).read_bytes())
        write_private(_key(directory, _PRESENT), read_private(_key(directory, _NEXT)))
        settle(directory)
    return "the new authority signs, the old one is still trusted; finish when all agents have renewed"


def settle(directory: Path) -> None:
    """Complete a switch that was interrupted after the key was replaced."""
    if not _certificate(directory, _NEXT).exists() or not _key(directory, _PRESENT).exists():
        return
    if read_private(_key(directory, _PRESENT)) != read_private(_key(directory, _NEXT)):
        return
    write_private(_certificate(directory, _PRESENT), _certificate(directory, _NEXT).read_bytes())
    _certificate(directory, _NEXT).unlink()
    _key(directory, _NEXT).unlink()


def others(directory: Path) -> tuple[x509.Certificate, ...]:
    """Return the authorities that are trusted beside the present one."""
    found = []
    for name in (_NEXT, _OLD):
        path = _certificate(directory, name)
        if path.exists():
            try:
                found.append(x509.load_pem_x509_certificate(path.read_bytes()))
            except ValueError as error:
                raise pki.PkiError(f"{path} is not a certificate in PEM form") from error
    return tuple(found)


def _certificate(directory: Path, name: str) -> Path:
    return directory / f"{name}.crt"


def _key(directory: Path, name: str) -> Path:
    return directory / f"{name}.key"
