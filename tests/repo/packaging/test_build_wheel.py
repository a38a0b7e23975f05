"""tools/build_wheel up to where pip begins; test_wheel.py has what pip makes."""

import subprocess
import sys
import tomllib

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("build_wheel")


def build(root, path, kind):
    return subprocess.run([sys.executable, "-B", root / "tools/build_wheel", kind],
                          capture_output=True, text=True, env={"PATH": str(path)}, timeout=60)


@pytest.mark.parametrize("kind", ["cu12", "cu13"])
def test_without_nvcc_it_says_which_is_needed(root, tmp_path, kind):
    result = build(root, tmp_path, kind)
    assert result.returncode == 1
    assert f"{kind} needs nvcc {kind[2:]}, and there is no nvcc in PATH" in result.stderr


def test_another_nvcc_is_refused_with_both_versions(root, tmp_path):
    (tmp_path / "nvcc").write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13'\n")
    (tmp_path / "nvcc").chmod(0o755)
    result = build(root, f"{tmp_path}:/bin", "cu12")
    assert result.returncode == 1
    assert "cu12 needs nvcc 12; in PATH is nvcc 13" in result.stderr


def test_a_wheel_with_cuda_has_a_name_of_its_own(root, tool, tmp_path):
    project = tmp_path / "pyproject.toml"
    project.write_text((root / "pyproject.toml").read_text())
    tool.name_project(project, "cu13")
    made = tomllib.loads(project.read_text())
    assert made["project"]["name"] == "gqsgd-cu13"
    assert "-Dcuda=enabled" in made["tool"]["meson-python"]["args"]["setup"]


def test_a_project_that_cannot_be_renamed_is_an_error(tool, tmp_path):
    (tmp_path / "pyproject.toml").write_text('name = "other"\n')
    with pytest.raises(ValueError, match='name = "gqsgd" is there 0 times'):
        tool.name_project(tmp_path / "pyproject.toml", "cu12")
