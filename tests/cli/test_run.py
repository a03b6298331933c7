import pytest
from click.testing import CliRunner

from echelon.cli.run import run


@pytest.mark.parametrize("share", ["0", "1.5", "-1", "most"])
def test_a_share_that_means_nothing_is_refused_with_its_name_value_and_rule(share: str) -> None:
    refused = CliRunner().invoke(run, ["--silent-share", share])
    assert refused.exit_code == 2
    assert "'--silent-share'" in refused.output
    assert share in refused.output
    assert "0<x<=1" in refused.output or "is not a valid float" in refused.output
