"""A black-box benchmark finds a server, the CRDs and a controller that works."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import Programs

_ROOT = Path(__file__).parents[2]

# Waits for what only a controller does: a placement without clusters gets a condition that says so.
SCRIPT = """
import json, ssl, subprocess, sys, time
from urllib.request import Request, urlopen

arguments = sys.argv[1:]
own, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
server, token = own[own.index("--server") + 1], own[own.index("--token") + 1]
trusting = ssl._create_unverified_context()

def ask(path, body=None):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    with urlopen(Request(server + path, data=data, headers=headers), context=trusting) as answer:
        return json.load(answer)

placements = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/default/placements"
kind = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement"}
if "default" not in {each["metadata"]["name"] for each in ask("/api/v1/namespaces")["items"]}:
    ask("/api/v1/namespaces", {"metadata": {"name": "default"}})
ask(placements, {**kind, "metadata": {"name": "p"}, "spec": {}})
controller = subprocess.Popen(command)
try:
    while not (conditions := ask(placements + "/p").get("status", {}).get("conditions")):
        assert controller.poll() is None, "the controller ended"
        time.sleep(0.1)
finally:
    controller.terminate()
    controller.wait()
print(json.dumps({"own": own[4:], "conditions": [each["type"] for each in conditions]}))
sys.exit(7)
"""


@pytest.mark.parametrize("on", ["hub", "kube-apiserver"])
def test_a_script_plays_on_a_server_of_its_own(kubernetes: Programs, tmp_path: Path, on: str) -> None:
    del kubernetes  # built, or the test does not run
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "bench.outside", str(script), "--on", on, "--controllers", "placement"]
    done = subprocess.run(
        [*command, "--", "--clusters", "3"], cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 7, done.stderr  # the script's own
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["own"] == ["--clusters", "3"]
    assert "PlacementSatisfied" in said["conditions"]
