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
    assert ("tools/install_cuda12" in result.stderr) == (kind == "cu12")


def put_nvcc(folder, release):
    said = f"Cuda compilation tools, release {release}, V{release}"
    (folder / "nvcc").write_text(f"#!/bin/sh\necho '{said}'\n")
    (folder / "nvcc").chmod(0o755)


@pytest.mark.parametrize(("kind", "release"), [("cu12", "13.0"), ("cu13", "12.9")])
def test_another_nvcc_is_refused_with_both_versions(root, tmp_path, kind, release):
    put_nvcc(tmp_path, release)
    result = build(root, f"{tmp_path}:/bin", kind)
    assert result.returncode == 1
    assert f"{kind} needs nvcc {kind[2:]}; in PATH is nvcc {release[:2]}" in result.stderr


@pytest.mark.parametrize(("major", "release"), [("12", "12.9"), ("13", "13.0")])
def test_its_own_nvcc_is_taken(tool, tmp_path, monkeypatch, major, release):
    put_nvcc(tmp_path, release)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    tool.check_nvcc(major)


def test_headers_and_runtime_are_those_of_the_nvcc(tool, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin/nvcc"
    nvcc.write_text(f"#!/bin/sh\necho '#$ _HERE_=x\n#$ TOP={tmp_path}/bin/..\n#$ y' >&2\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin")
    assert tool.toolkit_of_nvcc() == str(tmp_path.resolve())


@pytest.mark.parametrize("kind", ["cu12", "cu13"])
def test_a_wheel_with_cuda_differs_in_name_and_cuda_alone(root, tool, tmp_path, kind):
    project = tmp_path / "pyproject.toml"
    project.write_text((root / "pyproject.toml").read_text())
    expected = tomllib.loads(project.read_text())
    tool.name_project(project, kind)
    made = tomllib.loads(project.read_text())
    setup = expected["tool"]["meson-python"]["args"]["setup"]
    setup[setup.index("-Dcuda=disabled")] = "-Dcuda=enabled"
    expected["project"]["name"] = f"gqsgd-{kind}"
    assert made == expected


def test_what_the_readme_builds_and_installs_in_the_tree_is_not_copied(root, tool):
    """An environment with PyTorch, which the README has people make here, would be gigabytes."""
    made = ["B", "venv", "build", "__pycache__"]
    assert {"/B/", "/venv/"} < set((root / ".gitignore").read_text().splitlines())
    assert tool.LEFT_OUT(root, [*made, "src", "pyproject.toml"]) == set(made)


def test_a_project_that_cannot_be_renamed_is_an_error(tool, tmp_path):
    (tmp_path / "pyproject.toml").write_text('name = "other"\n')
    with pytest.raises(ValueError, match='name = "gqsgd" is there 0 times'):
        tool.name_project(tmp_path / "pyproject.toml", "cu12")
