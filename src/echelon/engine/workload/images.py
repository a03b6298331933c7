"""Names of images, `[registry/]repository[:tag|@digest]`, taken apart and put together."""

from dataclasses import dataclass, replace

REGISTRY, REPOSITORY, TAG = "Registry", "Repository", "Tag"


@dataclass(frozen=True, slots=True)
class Image:
    """The parts of an image's name. The tag has its sign: `:v1` or `@sha256:…`."""

    registry: str
    repository: str
    tag: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.registry, self.repository))) + self.tag


def parse_image(name: str) -> Image:
    """Take a name apart. What comes before the first slash is a registry if it looks like a host."""
    first, slash, rest = name.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, rest) if is_host else ("", name)
    at = path.find("@")
    if at < 0:
        at = path.rfind(":")
        at = at if at > path.rfind("/") else -1
    return Image(registry, path, "") if at < 0 else Image(registry, path[:at], path[at:])


def changed_image(name: str, component: str, operator: str, value: str) -> str:
    """Return an image with a part added to, replaced or removed."""
    image = parse_image(name)
    match component:
        case "Registry":
            return str(replace(image, registry=_changed(image.registry, operator, value)))
        case "Repository":
            return str(replace(image, repository=_changed(image.repository, operator, value)))
        case _:
            return str(replace(image, tag=_changed_tag(image.tag, operator, value)))


def _changed(before: str, operator: str, value: str) -> str:
    return {"add": before + value, "replace": value}.get(operator, "")


def _changed_tag(before: str, operator: str, value: str) -> str:
    """Return another tag or digest; a value may come with its sign or without."""
    if operator == "remove":
        return ""
    if operator == "add" and before:
        return before + value
    if value.startswith((":", "@")):
        return value
    return f"@{value}" if value.startswith("sha256:") else f":{value}"
