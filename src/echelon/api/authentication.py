"""Questions about who somebody is. They are answered when they are created and never stored."""

from typing import Annotated, Any

from echelon.api.base import APIStruct, field
from echelon.api.kinds import Kind
from echelon.api.meta import ObjectMeta


class UserInfo(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who somebody is."""

    username: Annotated[str, field("Name of the user.")] = ""
    uid: Annotated[str, field("Id of the user.")] = ""
    groups: Annotated[list[str], field("Groups of the user.", atomic=True)] = []
    extra: Annotated[dict[str, list[str]], field("Further facts, by key.")] = {}


class TokenReviewSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A token to check."""

    token: Annotated[str, field("The token.")] = ""
    audiences: Annotated[list[str], field("Whom the token should be for.", atomic=True)] = []


class TokenReviewStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """What a token says."""

    authenticated: Annotated[bool, field("Whether the token is good.")] = False
    user: Annotated[UserInfo, field("Whose token it is.")] = UserInfo()
    audiences: Annotated[list[str], field("Whom the token is for.", atomic=True)] = []
    error: Annotated[str, field("Why it could not be checked.")] = ""


class TokenReview(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks whose token this is."""

    api_version: str = "authentication.k8s.io/v1"
    kind: str = "TokenReview"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[TokenReviewSpec, field("The token.")]
    status: Annotated[TokenReviewStatus, field("The answer.")] = TokenReviewStatus()


class SelfSubjectReviewStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """Who is asking."""

    user_info: Annotated[UserInfo, field("The user.")] = UserInfo()


class SelfSubjectReview(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks who the asker is."""

    api_version: str = "authentication.k8s.io/v1"
    kind: str = "SelfSubjectReview"
    metadata: ObjectMeta = ObjectMeta()
    status: Annotated[SelfSubjectReviewStatus, field("The answer.")] = SelfSubjectReviewStatus()


class BoundObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """The object that a token lives and dies with."""

    kind: Annotated[str, field("Kind of the object: Pod, Secret or Node.")] = ""
    api_version: Annotated[str, field("API version of the object.")] = ""
    name: Annotated[str, field("Name of the object.")] = ""
    uid: Annotated[str, field("UID of the object.")] = ""


class TokenRequestSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """A token that is wanted."""

    audiences: Annotated[list[str], field("Whom the token is for; the API server if empty.", atomic=True)] = []
    expiration_seconds: Annotated[
        int,
        field("Seconds that the token should be valid.", default=3600, minimum=600, maximum=4294967296, format="int64"),
    ] = 3600
    bound_object_ref: Annotated[BoundObjectReference | None, field("Object that the token lives and dies with.")] = None
    attestations: Annotated[dict[str, str], field("Facts that the token should carry.")] = {}


class TokenRequestStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """A token."""

    token: Annotated[str, field("The token.")] = ""
    expiration_timestamp: Annotated[
        str | None, field("When the token runs out.", format="date-time", nullable=True)
    ] = None


class TokenRequest(APIStruct, frozen=True, gc=False, kw_only=True):
    """Asks for a token of a service account."""

    api_version: str = "authentication.k8s.io/v1"
    kind: str = "TokenRequest"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[TokenRequestSpec, field("The token that is wanted.")] = TokenRequestSpec()
    status: Annotated[TokenRequestStatus, field("The answer.")] = TokenRequestStatus()


GROUP = "authentication.k8s.io"

TOKEN_REVIEW = Kind(GROUP, "v1", "TokenReview", "tokenreviews", TokenReview, namespaced=False, builtin=True)
SELF_SUBJECT_REVIEW = Kind(
    GROUP, "v1", "SelfSubjectReview", "selfsubjectreviews", SelfSubjectReview, namespaced=False, builtin=True
)
# Served as the `token` subresource of service accounts, never as a resource of its own.
TOKEN_REQUEST = Kind(GROUP, "v1", "TokenRequest", "serviceaccounts/token", TokenRequest, builtin=True)

KINDS: tuple[Kind[Any], ...] = (TOKEN_REVIEW, SELF_SUBJECT_REVIEW)
