"""Makes docs/views.md: what every view of the command line looks like, in a terminal of 80 columns.

python tools/captures.py runs a simulated fleet of its own, has things go wrong on it, and writes down what commands
print. Look at what comes out before you commit it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from echelon.cli.examples import example
from echelon.cli.terminal import plain

PAGE = Path(__file__).parents[1] / "docs" / "views.md"
BIN = Path(sys.executable).parent
UP = 'echelon up --clusters 6 --dashboard "" --fleet "image *storefront:3.0 fails on 4"'
PATIENCE_SECONDS = 900.0
_EXAMPLES = ("canary-then-regions", "with-approval", "policy-drift-in-waves", "deployment-one-budget", "everywhere")
_TOKEN = re.compile(r"[A-Za-z0-9+/=_-]{80,}|[a-z0-9]{6}\.[a-z0-9]{16}")  # an invitation, a bootstrap token
_TROUBLE = (2, 5, 6, 7)  # of a command that was not understood, or not answered
_MEMBER = "echelon-eu-1"
_TYPO = """\
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: site, namespace: web}
spec:
  clusterSets: [global]
  decisionStrategy:
    groupStrategy: {clustersPerDecisionGroup: 0}
"""
_INTRODUCTION = """\
# What it looks like

The views of the command line, of a simulated fleet of six clusters on which things go wrong; `tools/captures.py` makes
this page. A terminal has colours, too. [The command line](cli.md) says more about each; the [dashboard](dashboard.md)
has pictures of its own.
"""


@dataclass(frozen=True)
class View:
    """A view: what to call it, and what to type."""

    title: str
    command: str


_AT_REST = (
    View("Rollouts", "echelon rollout list -A"),
    View("A rollout that stopped, and why", "echelon rollout status storefront -n shop"),
    View("One that awaits a person", "echelon rollout status payments -n payments"),
    View("One budget over all clusters", "echelon rollout status deployment/demo -n budgets"),
    View("Waiting for the end, in a pipeline", "echelon rollout watch storefront -n shop"),
    View("Revisions", "echelon rollout history storefront -n shop"),
    View("What a revision changed", "echelon rollout diff storefront -n shop"),
    View("Pods that an update left as they are", f"echelon rollout outdated trainer --context {_MEMBER}"),
    View("Placements", "echelon placement list -A"),
    View("Why clusters are in a placement, or are not", "echelon placement explain storefront -n shop"),
    View("Policies", "echelon policy list -A"),
    View("A policy", "echelon policy show session-limits -n guardrails"),
    View("What enforcing would change", "echelon policy diff session-limits -n guardrails"),
    View("Clusters", "echelon cluster list"),
    View("A cluster", "echelon cluster show eu-1"),
    View("What a hub lacks", "echelon doctor"),
    View("Mistakes in files", "echelon lint -f site.yaml"),
    View("What a change would do", "echelon plan -f storefront-4.yaml"),
    View("Writing a fleet down", "echelon fleet capture -o fleet.json"),
    View(
        "A change, tried on a copy of the fleet",
        'echelon simulate -f storefront-4.yaml --fleet fleet.json --seeds 2 --failures "image on 2"',
    ),
    View("Inviting a cluster", "echelon cluster join edge-7"),
)


class Terminal:
    """Runs commands in a directory, as a person in a terminal of 80 columns would."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "80",
            "NO_COLOR": "1",
            "KUBECONFIG": "echelon.kubeconfig",
        }

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(  # noqa: S602 - ours, and as people type it
            command,
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    @contextmanager
    def started(self, command: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command as long as it is needed."""
        with subprocess.Popen(  # noqa: S602 - as above
            f"exec {command}",
            shell=True,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.terminate()

    def shown(self, view: View) -> str:
        """Return what somebody types, and sees."""
        ended = self.run(view.command)
        if ended.returncode in _TROUBLE:
            raise SystemExit(f"{view.command} exits {ended.returncode}: {ended.stdout}")
        code = f"  # exits {ended.returncode}" if ended.returncode else ""
        return f"$ {view.command}{code}\n{self.cleaned(ended.stdout)}"

    def cleaned(self, text: str) -> str:
        """Return what somebody sees who is elsewhere: other paths, and no secrets."""
        text = (
            "\n".join(map(plain, text.splitlines()))
            .replace(f"{self.directory}/", "")
            .replace(str(example("")), "examples")
        )
        return _TOKEN.sub("…", text).strip("\n")

    def until(self, command: str, holds: Callable[[Any], bool]) -> None:
        """Wait until what a command prints as JSON is as it should be."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            ended = self.run(f"{command} -o json 2>/dev/null")
            if ended.returncode == 0 and holds(json.loads(ended.stdout)):
                return
            time.sleep(2)
        raise SystemExit(f"{command} does not come to what is waited for")


def rehearse(terminal: Terminal, directory: Path) -> None:
    """Have rollouts that are complete, that wait and that stopped."""
    for name in _EXAMPLES:
        apply(terminal, example(f"{name}.yaml").read_text())
    apply(terminal, example("pod-cliques-on-delete.yaml").read_text(), f"--context {_MEMBER}")
    for rollout in ("storefront -n shop", "deployment/demo -n budgets"):
        terminal.until(f"echelon rollout status {rollout}", lambda found: found["state"] == "complete")
    terminal.until(
        f"echelon rollout status trainer --context {_MEMBER}", lambda found: found["state"] in ("complete", "finished")
    )
    apply(terminal, _with(example("canary-then-regions.yaml"), {"storefront:2.0": "storefront:3.0"}))
    apply(terminal, _with(example("deployment-one-budget.yaml"), {"nginx:v1": "nginx:bad"}))
    cliques = re.sub(r"(image: \S+?):\S+", r"\1:next", example("pod-cliques-on-delete.yaml").read_text())
    apply(terminal, cliques, f"--context {_MEMBER}")
    (directory / "storefront-4.yaml").write_text(
        _with(example("canary-then-regions.yaml"), {"storefront:2.0": "storefront:4.0"})
    )
    (directory / "site.yaml").write_text(_TYPO)
    terminal.until("echelon rollout status storefront -n shop", lambda found: found["state"] == "stopped")
    terminal.until(
        "echelon rollout status deployment/demo -n budgets", lambda found: "ImagePullBackOff" in json.dumps(found)
    )


def apply(terminal: Terminal, text: str, options: str = "") -> None:
    """Apply objects with kubectl, as people do."""
    for document in yaml.safe_load_all(text):
        ended = subprocess.run(  # noqa: S602 - as above
            f"kubectl apply --server-side --force-conflicts {options} -f -",
            shell=True,
            input=json.dumps(document),
            cwd=terminal.directory,
            env=terminal.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise SystemExit(ended.stderr)


def _with(file: Path, instead: Mapping[str, str]) -> str:
    text = file.read_text()
    for before, after in instead.items():
        if before not in text:
            raise SystemExit(f"{file} has no {before}")
        text = text.replace(before, after)
    return text


def page(first: str, shown: Sequence[tuple[View, str]]) -> str:
    """Return the page."""
    needs = "<!-- needs: the fleet of tools/captures.py -->\n"
    parts = [_INTRODUCTION, f"## Everything on one machine\n\n{needs}```console\n$ {UP}\n{first}\n```\n"]
    parts += [f"## {view.title}\n\n{needs}```console\n{text}\n```\n" for view, text in shown]
    return "\n".join(parts)


def main() -> None:
    """Make the page."""
    with tempfile.TemporaryDirectory(prefix="echelon-captures-") as made:
        directory = Path(made)
        terminal = Terminal(directory)
        with terminal.started(UP) as up:
            said = ""
            for line in up.stdout or ():
                said += line
                if "logs -n shop" in line:  # the last of its hints
                    break
            else:
                raise SystemExit(f"echelon up ended:\n{said}")
            rehearse(terminal, directory)
            PAGE.write_text(page(terminal.cleaned(said), [(view, terminal.shown(view)) for view in _AT_REST]))


if __name__ == "__main__":
    main()
