"""Volumes of pods, and the claims behind them.

The sources that clusters still use are spelled out. Those that CSI has replaced are kept as they come: Kubernetes
accepts them for ever, and nothing here looks inside.
"""

from typing import Annotated, ClassVar

import msgspec

from echelon.api.base import APIStruct, IntOrString, JSONObject, field
from echelon.api.containers import ObjectFieldSelector, ResourceFieldSelector
from echelon.api.meta import LabelSelector, ObjectMeta, ProbedCondition
from echelon.api.references import LocalObjectReference


class KeyToPath(APIStruct, frozen=True, gc=False, kw_only=True):
    """A key as a file."""

    key: Annotated[str, field("Key to show.")]
    path: Annotated[str, field("Relative path of the file.")]
    mode: Annotated[int | None, field("Permission bits of the file.", minimum=0, maximum=511)] = None
    user: Annotated[int | None, field("User that owns the file.", format="int64")] = None


class ConfigMapVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A ConfigMap as files."""

    name: Annotated[str, field("Name of the ConfigMap.")] = ""
    items: Annotated[list[KeyToPath], field("Keys to show; all of them if empty.", atomic=True)] = []
    default_mode: Annotated[int, field("Permission bits of the files.", default=420, minimum=0, maximum=511)] = 420
    optional: Annotated[bool | None, field("Whether it may be missing.")] = None
    default_user: Annotated[int | None, field("User that owns the files.", format="int64")] = None


class SecretVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A Secret as files."""

    secret_name: Annotated[str, field("Name of the Secret.")] = ""
    items: Annotated[list[KeyToPath], field("Keys to show; all of them if empty.", atomic=True)] = []
    default_mode: Annotated[int, field("Permission bits of the files.", default=420, minimum=0, maximum=511)] = 420
    optional: Annotated[bool | None, field("Whether it may be missing.")] = None
    default_user: Annotated[int | None, field("User that owns the files.", format="int64")] = None


class DownwardAPIVolumeFile(APIStruct, frozen=True, gc=False, kw_only=True):
    """A field of the pod as a file."""

    path: Annotated[str, field("Relative path of the file.")]
    field_ref: Annotated[ObjectFieldSelector | None, field("A field of the pod.")] = None
    resource_field_ref: Annotated[ResourceFieldSelector | None, field("A resource of a container.")] = None
    mode: Annotated[int | None, field("Permission bits of the file.", minimum=0, maximum=511)] = None
    user: Annotated[int | None, field("User that owns the file.", format="int64")] = None


class DownwardAPIVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """Fields of the pod as files."""

    items: Annotated[list[DownwardAPIVolumeFile], field("The files.", atomic=True)] = []
    default_mode: Annotated[int, field("Permission bits of the files.", default=420, minimum=0, maximum=511)] = 420
    default_user: Annotated[int | None, field("User that owns the files.", format="int64")] = None


class EmptyDirVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """An empty directory that lives as long as the pod."""

    medium: Annotated[str, field("Memory, or empty for disk.")] = ""
    size_limit: Annotated[IntOrString | None, field("Largest size.")] = None
    mode: Annotated[int | None, field("Permission bits of the directory.")] = None


class HostPathVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A path of the node."""

    path: Annotated[str, field("Path on the node.")]
    type: Annotated[str, field("What the path has to be.", default="")] = ""


class ImageVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """An OCI image as files."""

    reference: Annotated[str, field("The image.")] = ""
    pull_policy: Annotated[str, field("When to pull the image.")] = ""


class NFSVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """An NFS share."""

    server: Annotated[str, field("Address of the server.")]
    path: Annotated[str, field("Exported path.")]
    read_only: Annotated[bool, field("Whether it is mounted read-only.")] = False


class PersistentVolumeClaimVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A claim in the same namespace."""

    claim_name: Annotated[str, field("Name of the claim.")]
    read_only: Annotated[bool, field("Whether it is mounted read-only.")] = False


class CSIVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A volume that a CSI driver makes for the pod."""

    driver: Annotated[str, field("Name of the driver.")]
    read_only: Annotated[bool | None, field("Whether it is mounted read-only.")] = None
    fs_type: Annotated[str | None, field("File system.")] = None
    volume_attributes: Annotated[dict[str, str], field("Parameters for the driver.")] = {}
    node_publish_secret_ref: Annotated[LocalObjectReference | None, field("Secret for the driver.")] = None


class TypedLocalObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object of some kind in the same namespace."""

    api_group: Annotated[str | None, field("API group of the object.")] = None
    kind: Annotated[str, field("Kind of the object.")]
    name: Annotated[str, field("Name of the object.")]

    schema_extra: ClassVar[JSONObject] = {"x-kubernetes-map-type": "atomic"}


class TypedObjectReference(APIStruct, frozen=True, gc=False, kw_only=True):
    """An object of some kind."""

    api_group: Annotated[str | None, field("API group of the object.")] = None
    kind: Annotated[str, field("Kind of the object.")]
    name: Annotated[str, field("Name of the object.")]
    namespace: Annotated[str | None, field("Namespace of the object.")] = None


class VolumeResourceRequirements(APIStruct, frozen=True, gc=False, kw_only=True):
    """How much storage is asked for."""

    limits: Annotated[dict[str, IntOrString], field("The most.")] = {}
    requests: Annotated[dict[str, IntOrString], field("The least, such as storage.")] = {}


class PersistentVolumeClaimSpec(APIStruct, frozen=True, gc=False, kw_only=True):
    """What storage is asked for."""

    access_modes: Annotated[list[str], field("How the volume will be mounted.", atomic=True)] = []
    selector: Annotated[LabelSelector | None, field("Volumes that may be bound.")] = None
    resources: Annotated[VolumeResourceRequirements, field("How much storage.", default={})] = (
        VolumeResourceRequirements()
    )
    volume_name: Annotated[str, field("The volume that is bound.")] = ""
    storage_class_name: Annotated[str | None, field("Storage class; the default one if not given.")] = None
    volume_mode: Annotated[str, field("Filesystem or Block.", default="Filesystem", enum=("Filesystem", "Block"))] = (
        "Filesystem"
    )
    data_source: Annotated[TypedLocalObjectReference | None, field("What to fill the volume from.")] = None
    data_source_ref: Annotated[TypedObjectReference | None, field("What to fill the volume from, of any kind.")] = None
    volume_attributes_class_name: Annotated[str | None, field("Class of attributes that may change later.")] = None


class PersistentVolumeClaimTemplate(APIStruct, frozen=True, gc=False, kw_only=True):
    """A claim to be made for the pod."""

    metadata: Annotated[ObjectMeta, field("Labels and annotations of the claim.")] = ObjectMeta()
    spec: Annotated[PersistentVolumeClaimSpec, field("What is asked for.")]


class EphemeralVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """A claim that lives as long as the pod."""

    volume_claim_template: Annotated[PersistentVolumeClaimTemplate | None, field("The claim to make.")] = None


class ConfigMapProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """A ConfigMap within a projected volume."""

    name: Annotated[str, field("Name of the ConfigMap.")] = ""
    items: Annotated[list[KeyToPath], field("Keys to show; all of them if empty.", atomic=True)] = []
    optional: Annotated[bool | None, field("Whether it may be missing.")] = None


class SecretProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """A Secret within a projected volume."""

    name: Annotated[str, field("Name of the Secret.")] = ""
    items: Annotated[list[KeyToPath], field("Keys to show; all of them if empty.", atomic=True)] = []
    optional: Annotated[bool | None, field("Whether it may be missing.")] = None


class DownwardAPIProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """Fields of the pod within a projected volume."""

    items: Annotated[list[DownwardAPIVolumeFile], field("The files.", atomic=True)] = []


class ServiceAccountTokenProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """A token of the pod's service account."""

    audience: Annotated[str, field("Whom the token is for; the API server if empty.")] = ""
    expiration_seconds: Annotated[
        int, field("How long a token is valid.", default=3600, minimum=600, format="int64")
    ] = 3600
    path: Annotated[str, field("Relative path of the file.")]
    user: Annotated[int | None, field("User that owns the file.", format="int64")] = None


class ClusterTrustBundleProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """CA certificates."""

    name: Annotated[str | None, field("One bundle by name.")] = None
    signer_name: Annotated[str | None, field("Signer whose bundles are taken.")] = None
    label_selector: Annotated[LabelSelector | None, field("Bundles to take, with a signer name.")] = None
    optional: Annotated[bool | None, field("Whether it may be missing.")] = None
    path: Annotated[str, field("Relative path of the file.")]
    user: Annotated[int | None, field("User that owns the file.", format="int64")] = None


class PodCertificateProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """A key and certificate made for the pod."""

    signer_name: Annotated[str, field("Who signs.")]
    key_type: Annotated[str, field("Kind of key to make.")]
    max_expiration_seconds: Annotated[int | None, field("Longest validity.")] = None
    credential_bundle_path: Annotated[str, field("File for key and certificates together.")] = ""
    key_path: Annotated[str, field("File for the key.")] = ""
    certificate_chain_path: Annotated[str, field("File for the certificates.")] = ""
    user_annotations: Annotated[dict[str, str], field("Notes for the signer.")] = {}
    user: Annotated[int | None, field("User that owns the file.", format="int64")] = None


class VolumeProjection(APIStruct, frozen=True, gc=False, kw_only=True):
    """One source of a projected volume."""

    secret: Annotated[SecretProjection | None, field("A Secret.")] = None
    downward_api: Annotated[DownwardAPIProjection | None, field("Fields of the pod.")] = msgspec.field(
        default=None, name="downwardAPI"
    )
    config_map: Annotated[ConfigMapProjection | None, field("A ConfigMap.")] = None
    service_account_token: Annotated[ServiceAccountTokenProjection | None, field("A service account token.")] = None
    cluster_trust_bundle: Annotated[ClusterTrustBundleProjection | None, field("CA certificates.")] = None
    pod_certificate: Annotated[PodCertificateProjection | None, field("A certificate for the pod.")] = None


class ProjectedVolumeSource(APIStruct, frozen=True, gc=False, kw_only=True):
    """Several sources in one directory."""

    sources: Annotated[list[VolumeProjection] | None, field("What is put together.", atomic=True, nullable=True)] = []
    default_mode: Annotated[int, field("Permission bits of the files.", default=420, minimum=0, maximum=511)] = 420
    default_user: Annotated[int | None, field("User that owns the files.", format="int64")] = None


class Volume(APIStruct, frozen=True, gc=False, kw_only=True):
    """A directory that containers can mount; exactly one source."""

    name: Annotated[str, field("Name, unique in the pod.")]
    host_path: Annotated[HostPathVolumeSource | None, field("A path of the node.")] = None
    empty_dir: Annotated[EmptyDirVolumeSource | None, field("An empty directory.")] = None
    gce_persistent_disk: Annotated[JSONObject | None, field("A Google disk; superseded by CSI.")] = None
    aws_elastic_block_store: Annotated[JSONObject | None, field("An AWS disk; superseded by CSI.")] = None
    git_repo: Annotated[JSONObject | None, field("A git checkout; no longer supported.")] = None
    secret: Annotated[SecretVolumeSource | None, field("A Secret as files.")] = None
    nfs: Annotated[NFSVolumeSource | None, field("An NFS share.")] = None
    iscsi: Annotated[JSONObject | None, field("An iSCSI disk.")] = None
    glusterfs: Annotated[JSONObject | None, field("A Glusterfs mount; no longer supported.")] = None
    persistent_volume_claim: Annotated[
        PersistentVolumeClaimVolumeSource | None, field("A persistent volume claim.")
    ] = None
    rbd: Annotated[JSONObject | None, field("A Ceph block device; superseded by CSI.")] = None
    flex_volume: Annotated[JSONObject | None, field("A volume by an exec plugin; superseded by CSI.")] = None
    cinder: Annotated[JSONObject | None, field("An OpenStack volume; superseded by CSI.")] = None
    cephfs: Annotated[JSONObject | None, field("A CephFS mount; superseded by CSI.")] = None
    flocker: Annotated[JSONObject | None, field("A Flocker volume; no longer supported.")] = None
    downward_api: Annotated[DownwardAPIVolumeSource | None, field("Fields of the pod as files.")] = msgspec.field(
        default=None, name="downwardAPI"
    )
    fc: Annotated[JSONObject | None, field("A Fibre Channel disk.")] = None
    azure_file: Annotated[JSONObject | None, field("An Azure file share; superseded by CSI.")] = None
    config_map: Annotated[ConfigMapVolumeSource | None, field("A ConfigMap as files.")] = None
    vsphere_volume: Annotated[JSONObject | None, field("A vSphere disk; superseded by CSI.")] = None
    quobyte: Annotated[JSONObject | None, field("A Quobyte mount; no longer supported.")] = None
    azure_disk: Annotated[JSONObject | None, field("An Azure disk; superseded by CSI.")] = None
    photon_persistent_disk: Annotated[JSONObject | None, field("A Photon disk; no longer supported.")] = None
    projected: Annotated[ProjectedVolumeSource | None, field("Several sources in one directory.")] = None
    portworx_volume: Annotated[JSONObject | None, field("A Portworx volume; superseded by CSI.")] = None
    scale_io: Annotated[JSONObject | None, field("A ScaleIO volume; no longer supported.")] = msgspec.field(
        default=None, name="scaleIO"
    )
    storageos: Annotated[JSONObject | None, field("A StorageOS volume; no longer supported.")] = None
    csi: Annotated[CSIVolumeSource | None, field("A volume by a CSI driver.")] = None
    ephemeral: Annotated[EphemeralVolumeSource | None, field("A claim made for the pod.")] = None
    image: Annotated[ImageVolumeSource | None, field("An OCI image.")] = None


class ModifyVolumeStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """A change of attributes in progress."""

    target_volume_attributes_class_name: Annotated[str, field("Class that is being applied.")] = ""
    status: Annotated[str, field("Pending, InProgress or Infeasible.")]


class PersistentVolumeClaimStatus(APIStruct, frozen=True, gc=False, kw_only=True):
    """State of a claim."""

    phase: Annotated[str, field("Pending, Bound or Lost.")] = ""
    access_modes: Annotated[list[str], field("How the volume can be mounted.", atomic=True)] = []
    capacity: Annotated[dict[str, IntOrString], field("Size of the volume.")] = {}
    conditions: Annotated[
        list[ProbedCondition],
        field("Aspects of its state.", list_map_keys=("type",), patch_merge_key="type"),
    ] = []
    allocated_resources: Annotated[dict[str, IntOrString], field("Resources set aside for it.")] = {}
    allocated_resource_statuses: Annotated[dict[str, str], field("State of a resize, by resource.")] = {}
    current_volume_attributes_class_name: Annotated[str | None, field("Class that is in force.")] = None
    modify_volume_status: Annotated[ModifyVolumeStatus | None, field("A change of attributes in progress.")] = None
    health_status: Annotated[JSONObject | None, field("Health of the volume.")] = None


class PersistentVolumeClaim(APIStruct, frozen=True, gc=False, kw_only=True):
    """A request for storage."""

    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PersistentVolumeClaimSpec, field("What is asked for.")] = PersistentVolumeClaimSpec()
    status: Annotated[PersistentVolumeClaimStatus, field("Its state.")] = PersistentVolumeClaimStatus()
