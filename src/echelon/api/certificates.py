"""Requests for certificates, which somebody approves and somebody else signs."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, JSONObject, field
from echelon.api.kinds import Column, Kind
from echelon.api.meta import ObjectMeta
from echelon.api.printing import AGE, NONE, at

GROUP = "certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


class CertificateSigningRequestSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What is asked for, and by whom."""

    request: Annotated[str, field("The PKCS#10 request as PEM, in base64.", format="byte")]
    signer_name: Annotated[str, field("Who is to sign: a domain and a path.")]
    expiration_seconds: Annotated[
        int | None, field("Seconds that the certificate should be valid.", format="int32")
    ] = None
    usages: Annotated[list[str], field("What the certificate is to be good for.", atomic=True)] = []
    username: Annotated[str, field("Who asked; the server fills it in.")] = ""
    uid: Annotated[str, field("Id of who asked; the server fills it in.")] = ""
    groups: Annotated[list[str], field("Groups of who asked; the server fills them in.", atomic=True)] = []
    extra: Annotated[dict[str, list[str]], field("Further facts on who asked; the server fills them in.")] = {}


class CertificateSigningRequestCondition(APIStruct, frozen=True, gc=False, kw_only=True):
    """A decision about a request."""

    type: Annotated[str, field("Approved, Denied, Failed or a word of the signer.")]
    status: Annotated[str, field("True, False or Unknown; the first three are True or not there.")]
    reason: Annotated[str, field("Why, as one word.")] = ""
    message: Annotated[str, field("Why, as a sentence.")] = ""
    last_update_time: Annotated[str | None, field("When it was last said.", format="date-time", nullable=True)] = None
    last_transition_time: Annotated[
        str | None, field("When the status last changed.", format="date-time", nullable=True)
    ] = None


class CertificateSigningRequestStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What became of a request."""

    conditions: Annotated[
        list[CertificateSigningRequestCondition], field("Decisions about it.", list_map_keys=("type",))
    ] = []
    certificate: Annotated[str, field("The certificate as PEM, in base64.", format="byte")] = ""


class CertificateSigningRequest(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks for a certificate."""

    api_version: str = f"{GROUP}/v1"
    kind: str = "CertificateSigningRequest"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[CertificateSigningRequestSpec, field("What is asked for.")]
    status: Annotated[CertificateSigningRequestStatus, field("What became of it.")] = CertificateSigningRequestStatus()

    def decision(self, kind: str) -> CertificateSigningRequestCondition | None:
        """Return the condition of a type, if there is one."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    @property
    def is_pending(self) -> bool:
        """Whether nobody has decided yet."""
        return not any(each.type in (APPROVED, DENIED, FAILED) for each in self.status.conditions)


def _condition(obj: JSONObject) -> str:
    """Return what became of a request, as kubectl shows it."""
    status = obj.get("status") or {}
    said = {each.get("type") for each in status.get("conditions") or ()}
    words = ["Denied" if DENIED in said else "Approved" if APPROVED in said else "Pending"]
    words += ["Failed"] if FAILED in said else []
    words += ["Issued"] if status.get("certificate") else []
    return ",".join(words)


def _duration(obj: JSONObject) -> str:
    seconds = at(obj, "spec", "expirationSeconds")
    if not isinstance(seconds, int):
        return NONE
    days, rest = divmod(seconds, 86_400)
    return f"{days}d" if days and not rest else f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


CERTIFICATE_SIGNING_REQUEST = Kind(
    GROUP,
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    CertificateSigningRequest,
    namespaced=False,
    short_names=("csr",),
    status=True,
    builtin=True,
    columns=(
        AGE,
        Column("SignerName", ".spec.signerName"),
        Column("Requestor", ".spec.username"),
        Column("RequestedDuration", cell=_duration),
        Column("Condition", cell=_condition),
    ),
    selectable_fields=("spec.signerName",),
)

KINDS: tuple[Kind[Any], ...] = (CERTIFICATE_SIGNING_REQUEST,)
