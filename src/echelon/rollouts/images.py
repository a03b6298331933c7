"""The images in an object, whatever its kind: wherever a part of it has containers."""

from collections.abc import Iterator

from echelon.api.base import JSON

_LISTS = ("initContainers", "containers")
_DEEPEST = 12  # below a manifest; a CronJob's are at six


def images_of(manifest: JSON, depth: int = 0) -> Iterator[str]:
    """Walk the images of a manifest, in the order in which it has them."""
    if depth > _DEEPEST:
        return
    if isinstance(manifest, list):
        for each in manifest:
            yield from images_of(each, depth + 1)
    elif isinstance(manifest, dict):
        for name, value in manifest.items():
            if name in _LISTS and isinstance(value, list):
                containers = [each for each in value if isinstance(each, dict)]
                yield from (each["image"] for each in containers if isinstance(each.get("image"), str))
            elif isinstance(value, dict | list):
                yield from images_of(value, depth + 1)
