"""Says before a run of the tests what it will be compared with."""

import sys

from tools.kubernetes.build import BuildError

from tests.dashboard.browser import ABSENCE as NO_BROWSER
from tests.dashboard.browser import program
from tests.environment.programs import ABSENCE, MissingProgramError, programs

try:
    found = programs()
except (BuildError, MissingProgramError) as error:
    sys.exit(f"error: {error}")
print(f"==> real Kubernetes: {found.directory}" if found else f"==> {ABSENCE}; those tests are skipped")
print(f"==> browser: {path}" if (path := program()) else f"==> {NO_BROWSER}")
