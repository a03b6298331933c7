"""A simulation as a page: one file without scripts, with drawings in it, for a ticket or a chat.

Names come from tenants and members. They are text here, and nothing else: every one of them is escaped.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from html import escape

from echelon.cli.simulate_views import Simulation, lines_of, rollout_title, spread
from echelon.cli.terminal import clean, plain
from echelon.engine.rollout.durations import elapsed
from echelon.fleet.rehearsal.chronicle import Counts, RolloutName
from echelon.fleet.rehearsal.lives import Fate

_WIDTH, _HEIGHT, _LEFT, _BELOW = 760, 220, 60, 30
_BARS = 20
_PHASES = (
    ("succeeded", "done", "#2e8b57"),
    ("progressing", "in flight", "#4a90d9"),
    ("failed", "failed", "#d9534f"),
    ("timed_out", "timed out", "#8b1a1a"),
    ("skipped", "skipped", "#999999"),
    ("to_apply", "waiting", "#b8bec8"),
)
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; padding: 1rem }
h1, h2 { overflow-wrap: anywhere }
 svg { max-width: 100%; height: auto }
figure { margin: 1rem 0 }
svg text { font: 12px system-ui, sans-serif; fill: #444 } .key { display: inline-block; width: .8em; height: .8em }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b } pre { background: #2a2a2a }
  svg text { fill: #bbb } }
"""


def report_of(found: Simulation) -> str:
    """Return the page."""
    return "\n".join(_page(found))


def _page(found: Simulation) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Nothing is loaded and nothing runs, whatever a name may try.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>Simulation</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Simulation</h1>"
    yield f"<pre>{escape(chr(10).join(plain(line) for line in lines_of(found)))}</pre>"
    for rollout in found.trial.rollouts:
        fates = [each for _, each in found.fates(rollout)]
        if fates:
            yield from _rollout(rollout, fates)
    yield "</body>\n</html>\n"


def _rollout(rollout: RolloutName, fates: Sequence[Fate]) -> Iterator[str]:
    yield f"<h2>{escape(clean(rollout_title(rollout)))}</h2>"
    yield _figure("How long it took, over all lives", _distribution([each.seconds for each in fates]))
    middle = sorted(fates, key=lambda each: each.seconds)[(len(fates) - 1) // 2]
    yield _figure("Waves: clusters that had got the change, in the life in the middle", _waves(middle))
    keys = " ".join(f'<span class="key" style="background:{colour}"></span> {called}' for _, called, colour in _PHASES)
    yield _figure(f"Clusters by phase, in the same life: {keys}", _phases(middle.told))


def _figure(caption: str, drawing: str) -> str:
    return f"<figure>\n<figcaption>{caption}</figcaption>\n{drawing}\n</figure>"


def _svg(title: str, parts: Iterable[str]) -> str:
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img"'
    return f'{head} aria-label="{escape(title)}">\n' + "\n".join(parts) + "\n</svg>"


def _axes(right: float, top: float) -> Iterator[str]:
    bottom = _HEIGHT - _BELOW
    yield f'<path d="M{_LEFT} 10V{bottom}H{_WIDTH - 10}" fill="none" stroke="#888"/>'
    for share in (0.0, 0.5, 1.0):
        x = _LEFT + share * (_WIDTH - _LEFT - 10)
        label = elapsed(timedelta(seconds=round(share * right))) if share * right >= 1 else "0"
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        yield f'<text x="{x:.0f}" y="{_HEIGHT - 10}" text-anchor="{anchor}">{label}</text>'
    yield f'<text x="{_LEFT - 6}" y="20" text-anchor="end">{top:g}</text>'
    yield f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'


def _x(at: float, right: float) -> float:
    return _LEFT + at / right * (_WIDTH - _LEFT - 10)


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BELOW - value / top * (_HEIGHT - _BELOW - 10)


def _distribution(seconds: Sequence[float]) -> str:
    right = max(spread(seconds)[3], 1.0)
    counts = [0] * _BARS
    for each in seconds:
        counts[min(int(each / right * _BARS), _BARS - 1)] += 1
    top = float(max(counts))
    width = (_WIDTH - _LEFT - 10) / _BARS
    bars = (
        f'<rect x="{_LEFT + number * width:.1f}" y="{_y(count, top):.1f}" width="{width - 1:.1f}" '
        f'height="{_HEIGHT - _BELOW - _y(count, top):.1f}" fill="#4a90d9"/>'
        for number, count in enumerate(counts)
        if count
    )
    return _svg("lives by duration", [*_axes(right, top), *bars])


def _waves(fate: Fate) -> str:
    right = max(fate.seconds, *(at for at, _ in fate.starts), 1.0) if fate.starts else 1.0
    top = float(max(len(fate.starts), 1))
    path = f"M{_LEFT} {_HEIGHT - _BELOW}"
    for number, (at, _) in enumerate(fate.starts, start=1):
        path += f"H{_x(at, right):.1f}V{_y(number, top):.1f}"
    line = f'<path d="{path}H{_WIDTH - 10}" fill="none" stroke="#4a90d9" stroke-width="2"/>'
    return _svg("clusters over time", [*_axes(right, top), line])


def _phases(told: Sequence[tuple[float, Counts]]) -> str:
    right = max((at for at, _ in told), default=1.0) or 1.0
    top = float(max((sum(counts) for _, counts in told), default=1) or 1)
    parts: list[str] = []
    ends = [at for at, _ in told[1:]] + [right]
    for (at, counts), end in zip(told, ends, strict=True):
        below = 0
        for name, _, colour in _PHASES:
            many = getattr(counts, name)
            if many and end > at:
                y = _y(below + many, top)
                size = f'width="{_x(end, right) - _x(at, right) + 0.3:.1f}" height="{_y(below, top) - y:.1f}"'
                parts.append(f'<rect x="{_x(at, right):.1f}" y="{y:.1f}" {size} fill="{colour}"/>')
            below += many
    return _svg("clusters by phase", [*_axes(right, top), *parts])
