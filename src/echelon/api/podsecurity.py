"""The rights of a pod and of its containers."""

from typing import Annotated, TypeAlias

from echelon.api.base import APIStruct, field

Int64: TypeAlias = Annotated[int, field("A number.", format="int64")]


class SELinuxOptions(APIStruct, frozen=True, gc=False, kw_only=True):
    """SELinux labels of a process."""

    user: Annotated[str, field("User label.")] = ""
    role: Annotated[str, field("Role label.")] = ""
    type: Annotated[str, field("Type label.")] = ""
    level: Annotated[str, field("Level label.")] = ""


class SeccompProfile(APIStruct, frozen=True, gc=False, kw_only=True):
    """The system calls that a process may make."""

    type: Annotated[str, field("RuntimeDefault, Unconfined or Localhost.")]
    localhost_profile: Annotated[str | None, field("File of the profile on the node.")] = None


class AppArmorProfile(APIStruct, frozen=True, gc=False, kw_only=True):
    """The AppArmor profile of a process."""

    type: Annotated[str, field("RuntimeDefault, Unconfined or Localhost.")]
    localhost_profile: Annotated[str | None, field("Profile loaded on the node.")] = None


class WindowsSecurityContextOptions(APIStruct, frozen=True, gc=False, kw_only=True):
    """Rights on Windows nodes."""

    gmsa_credential_spec_name: Annotated[str | None, field("Name of the GMSA credential.")] = None
    gmsa_credential_spec: Annotated[str | None, field("Content of the GMSA credential.")] = None
    run_as_user_name: Annotated[str | None, field("User to run as.")] = None
    host_process: Annotated[bool | None, field("Whether it runs as a host process.")] = None


class Capabilities(APIStruct, frozen=True, gc=False, kw_only=True):
    """Linux capabilities to change."""

    add: Annotated[list[str], field("Capabilities to add.", atomic=True)] = []
    drop: Annotated[list[str], field("Capabilities to take away.", atomic=True)] = []


class SecurityContext(APIStruct, frozen=True, gc=False, kw_only=True):
    """Rights of a container."""

    capabilities: Annotated[Capabilities | None, field("Linux capabilities to add and drop.")] = None
    privileged: Annotated[bool | None, field("Whether it has the rights of root on the host.")] = None
    se_linux_options: Annotated[SELinuxOptions | None, field("SELinux labels.")] = None
    windows_options: Annotated[WindowsSecurityContextOptions | None, field("Rights on Windows.")] = None
    run_as_user: Annotated[int | None, field("User id of the process.", format="int64")] = None
    run_as_group: Annotated[int | None, field("Group id of the process.", format="int64")] = None
    run_as_non_root: Annotated[bool | None, field("Whether running as root is refused.")] = None
    read_only_root_filesystem: Annotated[bool | None, field("Whether the root file system is read-only.")] = None
    allow_privilege_escalation: Annotated[
        bool | None, field("Whether a process may gain more rights than its parent.")
    ] = None
    proc_mount: Annotated[str | None, field("How /proc is mounted.")] = None
    seccomp_profile: Annotated[SeccompProfile | None, field("Seccomp profile.")] = None
    app_armor_profile: Annotated[AppArmorProfile | None, field("AppArmor profile.")] = None


class Sysctl(APIStruct, frozen=True, gc=False, kw_only=True):
    """A kernel parameter."""

    name: Annotated[str, field("Name of the parameter.")]
    value: Annotated[str, field("Value to set.")]


class PodSecurityContext(APIStruct, frozen=True, gc=False, kw_only=True):
    """Rights of all containers of a pod."""

    se_linux_options: Annotated[SELinuxOptions | None, field("SELinux labels.")] = None
    windows_options: Annotated[WindowsSecurityContextOptions | None, field("Rights on Windows.")] = None
    run_as_user: Annotated[int | None, field("User id of the processes.", format="int64")] = None
    run_as_group: Annotated[int | None, field("Group id of the processes.", format="int64")] = None
    run_as_non_root: Annotated[bool | None, field("Whether running as root is refused.")] = None
    supplemental_groups: Annotated[list[Int64], field("Further groups of the processes.", atomic=True)] = []
    supplemental_groups_policy: Annotated[str | None, field("Whether the image's groups are added.")] = None
    fs_group: Annotated[int | None, field("Group that owns mounted volumes.", format="int64")] = None
    sysctls: Annotated[list[Sysctl], field("Kernel parameters.", atomic=True)] = []
    fs_group_change_policy: Annotated[str | None, field("When ownership of volumes is changed.")] = None
    seccomp_profile: Annotated[SeccompProfile | None, field("Seccomp profile.")] = None
    app_armor_profile: Annotated[AppArmorProfile | None, field("AppArmor profile.")] = None
    se_linux_change_policy: Annotated[str | None, field("How SELinux labels of volumes are changed.")] = None
