"""How the preview of a policy looks: clusters that would change in the same way together, with the differences."""

import textwrap
from collections.abc import Iterator, Sequence

from echelon.api.base import JSONObject
from echelon.cli.policy_changes import MOST_LISTED, Alike, Preview, TemplateChange
from echelon.cli.terminal import style

NOTHING, SOMETHING, NOT_KNOWN = 0, 1, 11  # exit codes
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_VERBS = {"Create": "create", "Update": "update", "Delete": "delete"}
_NAMED = 5


def exit_code(preview: Preview) -> int:
    """Return what a script has to know."""
    if preview.changes_something:
        return SOMETHING
    return NOTHING if preview.is_certain else NOT_KNOWN


def lines(preview: Preview, *, everything: bool, width: int) -> Iterator[str]:
    """Walk the lines of a preview."""
    for each in preview.alike:
        yield from _headed(each.clusters, "would change", everything=everything, width=width)
        yield from _changes(each)
    if preview.unchanged:
        yield from _headed(preview.unchanged, "would not change", everything=everything, width=width)
        if preview.violating:
            what = "in violation of the policy, which enforcing does not mend"
            yield from _headed(preview.violating, what, everything=everything, width=width, indent="  ")
    for why, clusters in preview.unknown.items():
        yield from _headed(clusters, why, everything=everything, width=width)
    if preview.enforced:
        yield from _headed(preview.enforced, "enforced already", everything=everything, width=width)


def _changes(alike: Alike) -> Iterator[str]:
    for number, each in enumerate(alike.changes):
        if number == 0 or alike.changes[number - 1].template != each.template:
            yield f"  {each.template}"
        yield f"    {_VERBS.get(each.change.change, each.change.change)} {each.title}"
        for line in each.change.diff.splitlines():
            yield style(f"      {line}", fg=_COLOURS.get(line[:1]))
        if not each.change.diff:
            yield "      (without a diff: there was no room for it)"
    for template in alike.cut:
        yield f"  {template} would change more than the {MOST_LISTED} objects that it can list at most"


def _headed(clusters: Sequence[str], what: str, *, everything: bool, width: int, indent: str = "") -> Iterator[str]:
    """Name clusters, as many as fit on two lines, or all, and say what is about them."""
    shown = clusters if everything else clusters[:_NAMED]
    more = f" and {len(clusters) - len(shown)} more" if len(shown) < len(clusters) else ""
    noun = "cluster" if len(clusters) == 1 else "clusters"
    text = f"{len(clusters)} {noun} {what}: {', '.join(shown)}{more}"
    yield from textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )


def document(preview: Preview) -> JSONObject:
    """Return a preview for programs."""
    return {
        "wouldChange": [
            {
                "clusters": list(each.clusters),
                "changes": [_change_document(one) for one in each.changes],
                "cutTemplates": list(each.cut),
            }
            for each in preview.alike
        ],
        "wouldNotChange": list(preview.unchanged),
        "violating": list(preview.violating),
        "notKnown": [{"reason": why, "clusters": list(clusters)} for why, clusters in preview.unknown.items()],
        "enforced": list(preview.enforced),
    }


def _change_document(each: TemplateChange) -> JSONObject:
    change = each.change
    return {
        "template": each.template,
        "change": change.change,
        "apiVersion": change.api_version,
        "kind": change.kind,
        "namespace": change.namespace,
        "name": change.name,
        "diff": change.diff,
    }
