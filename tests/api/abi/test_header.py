"""Every header compiles alone, as every language that includes it, and the program at the top of
gqsgd.h does what its reader expects."""

import re
import shlex
import shutil
import subprocess

import pytest

HEADERS = ["gqsgd.h", "gqsgd_elastic.h", "gqsgd_log.h", "gqsgd_model.h", "gqsgd_nccl.h",
           "gqsgd_network.h", "gqsgd_stages.h", "gqsgd_transport.h"]
MPI_HEADERS = ["gqsgd_mpi.h", "gqsgd_mpi_table.h"]
CORE_LINES_MAX = 300  # of gqsgd.h, which people read from top to bottom
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
LANGUAGES = [
    (["gcc", "-std=c99", "-Wstrict-prototypes"], "c"),
    (["g++", "-std=c++11"], "c++"),
    (["g++", "-std=c++20"], "c++"),
]
TIMEOUT_S = 60


@pytest.fixture
def clang():
    """A clang, plain or with a version in its name."""
    for name in ["clang", *(f"clang-{version}" for version in range(25, 13, -1))]:
        if shutil.which(name):
            return name
    return pytest.fail("no clang found; Debian's package is clang")


@pytest.fixture
def mpi_flags():
    """Where the first MPI that is here has mpi.h, as a header of the system."""
    for module in ("ompi-c", "mpich"):
        found = subprocess.run(["pkg-config", "--cflags-only-I", module],
                               capture_output=True, text=True)
        if found.returncode == 0:
            return [flag.replace("-I", "-isystem", 1) for flag in shlex.split(found.stdout)]
    return pytest.skip("no MPI found")


def compile_text(compiler, language, text, root):
    return subprocess.run(
        [*compiler, *STRICT, "-I", root / "include", "-x", language, "-"],
        input=text, capture_output=True, text=True)


def test_all_headers_are_tested(root):
    names = sorted(path.name for path in (root / "include").glob("*.h"))
    assert names == sorted(HEADERS + MPI_HEADERS)


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("compiler, language", LANGUAGES)
def test_header_compiles_alone_with_gcc(compiler, language, header, root):
    result = compile_text(compiler, language, f"#include <{header}>\n", root)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("standard, language", [("c99", "c"), ("c11", "c"), ("c++20", "c++")])
def test_header_compiles_alone_with_clang(standard, language, header, clang, root):
    result = compile_text([clang, f"-std={standard}"], language, f"#include <{header}>\n", root)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", MPI_HEADERS)
@pytest.mark.parametrize("compiler, language", LANGUAGES)
def test_mpi_header_compiles_alone(compiler, language, header, mpi_flags, root):
    result = compile_text([*compiler, *mpi_flags], language, f"#include <{header}>\n", root)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", HEADERS + MPI_HEADERS)
def test_header_exports_what_it_declares_and_no_more(header, root):
    """Whatever is included before or after it: its own declarations alone are visible."""
    text = (root / "include" / header).read_text()
    pushes = [match.start() for match in re.finditer(r"^#pragma GCC visibility push\(default\)$",
                                                     text, re.MULTILINE)]
    pops = [match.start() for match in re.finditer(r"^#pragma GCC visibility pop$", text,
                                                   re.MULTILINE)]
    includes = [match.start() for match in re.finditer(r"^#include", text, re.MULTILINE)]
    assert len(pushes) == len(pops) == 1
    assert max(includes) < pushes[0] < pops[0]
    assert "GQSGD_API" not in text


@pytest.mark.parametrize("flags", [[], ["-fshort-enums"]])
@pytest.mark.parametrize("compiler, language", [("gcc", "c"), ("g++", "c++")])
def test_enumerations_have_32_bits(compiler, language, flags, root):
    names = ["gqsgd_dtype", "gqsgd_op", "gqsgd_schedule", "gqsgd_step_source", "gqsgd_log_level"]
    text = "#include <gqsgd_log.h>\n"
    text += "".join(f"char {name}_size[sizeof({name}) == 4 ? 1 : -1];\n" for name in names)
    text += "char config_size[sizeof(gqsgd_config) == 40 ? 1 : -1];\n"
    assert compile_text([compiler, *flags], language, text, root).returncode == 0
    small = text + "typedef enum { A } small;\nchar small_size[sizeof(small) == 4 ? 1 : -1];\n"
    short = compile_text([compiler, *flags], language, small, root).returncode != 0
    assert short == bool(flags), "the flag changes enumerations without a large enumerator"


CALL = """#include <gqsgd.h>
gqsgd_status call(gqsgd_comm comm, gqsgd_quantizer q, float *x) {
  return gqsgd_allreduce(comm, q, x, x, 1, %s, 0, 0);
}
"""


@pytest.mark.parametrize("arguments, compiles", [
    ("GQSGD_FLOAT32, GQSGD_MEAN", True),
    ("GQSGD_MEAN, GQSGD_FLOAT32", False),
    ("GQSGD_FLOAT32, GQSGD_SCHEDULE_RING", False),
    ("GQSGD_FLOAT32, 1", False),
])
def test_swapped_arguments_are_errors_in_cpp(arguments, compiles, root):
    result = compile_text(["g++", "-std=c++11"], "c++", CALL % arguments, root)
    assert (result.returncode == 0) == compiles, result.stderr


def test_swapped_arguments_are_warnings_in_c(root, clang):
    """-Wenum-conversion, which is part of -Wextra."""
    swapped = CALL % "GQSGD_MEAN, GQSGD_FLOAT32"
    for compiler in (["gcc", "-std=c99"], [clang, "-std=c99"]):
        result = compile_text(compiler, "c", swapped, root)
        assert "enum-conversion" in result.stderr


def test_the_core_header_is_short(root):
    assert len((root / "include/gqsgd.h").read_text().splitlines()) <= CORE_LINES_MAX


def program_in_header(root):
    """The program in the comment at the top of gqsgd.h."""
    comment = (root / "include/gqsgd.h").read_text().partition("*/")[0]
    indented = re.findall(r"^ \*     (.*)$", comment, re.MULTILINE)
    first = indented.index("#include <gqsgd.h>")
    return "\n".join(indented[first:indented.index("}", first) + 1]) + "\n"


def test_the_program_in_the_header_prints_the_mean_of_both_ranks(root, library, tmp_path):
    source, program = tmp_path / "first.c", tmp_path / "first"
    source.write_text(program_in_header(root))
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", source, "-I", root / "include", library,
                    f"-Wl,-rpath,{library.parent}", "-o", program], check=True)
    result = subprocess.run([program], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert result.returncode == 0, result.stdout + result.stderr
    ranks = dict(line.removeprefix("rank ").split(": ") for line in result.stdout.splitlines())
    assert sorted(ranks) == ["0", "1"]
    assert ranks["0"] == ranks["1"]
    # A step of 8 bits is norm / 127; rounding and re-encode are each off by less than one.
    values = [float(value) for value in ranks["0"].split()]
    assert values == pytest.approx([0.5, 2, -4], abs=2 * 4 / 127)


def test_the_strict_compilers_refuse_what_is_not_c99(root):
    text = "#include <gqsgd.h>\nint f(void) { return 0b1; }\n"
    assert compile_text(["gcc", "-std=c99"], "c", text, root).returncode != 0
