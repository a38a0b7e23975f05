"""tools/cpu_only.py: an installation with CUDA packages is refused, one without is not."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("names", "status"), [
    (["torch", "sympy"], 0), ([], 0), (["torch", "nvidia-cublas-cu12", "triton"], 1),
])
def test_cuda_packages_are_refused(root, tmp_path, names, status):
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"install": [{"metadata": {"name": name}} for name in names]}))
    result = subprocess.run([sys.executable, root / "tools/cpu_only.py", report],
                            capture_output=True, text=True)
    assert result.returncode == status, result.stderr
    assert ("2 CUDA packages would come along, nvidia" in result.stdout) == (status == 1)
