"""_abi.py against gqsgd.h, gqsgd_stages.h, gqsgd_model.h and gqsgd_log.h: every status, constant,
structure and function, both ways."""

import ctypes
import re
from ctypes import c_uint64

import declarations
from gqsgd import _abi, _mpi, _transport, nccl
from gqsgd.network import elastic, groups

NAMES = "gqsgd.h", "gqsgd_stages.h", "gqsgd_model.h", "gqsgd_log.h"
HEADER, CODE = declarations.header(*NAMES), declarations.code_of(*NAMES)


def test_prototypes_equal_the_headers():
    declared = declarations.functions(CODE)
    assert len(declared) > 50
    assert declared == _abi.PROTOTYPES


def test_no_header_is_left_out():
    """Each header is of one of the modules that the tests compare; gqsgd_mpi_table.h has no
    function that the library exports."""
    others = {"gqsgd_elastic.h", "gqsgd_mpi.h", "gqsgd_mpi_table.h", "gqsgd_nccl.h",
              "gqsgd_network.h", "gqsgd_transport.h"}
    assert {path.name for path in declarations.INCLUDE.glob("*.h")} == {*NAMES, *others}


def test_every_export_has_a_prototype():
    exports = declarations.INCLUDE.parent / "tests" / "api" / "abi" / "exports.txt"
    modules = _abi, elastic, nccl, groups, _transport
    ours = [name for module in modules for name in module.PROTOTYPES]
    assert sorted(ours) == sorted(exports.read_text().split())


def test_mpi_prototypes_equal_those_of_the_header_without_an_mpi_comm():
    text = re.sub(r"/\*.*?\*/", "", declarations.header("gqsgd_mpi.h"), flags=re.DOTALL)
    declared = re.findall(r"GQSGD_MPI_API gqsgd_status\s+(gqsgd_\w+)\(([^()]*)\);", text)
    assert len(declared) == 3
    assert {
        name: [declarations.ctype(each) for each in parameters.split(",")]
        for name, parameters in declared
        if "MPI_Comm" not in parameters
    } == _mpi.PROTOTYPES


def test_a_function_that_is_not_understood_is_an_error():
    for code in ("int32_t gqsgd_f(int32_t a[2]);", "gqsgd_g(void);;\n  x = gqsgd_h(\n"):
        try:
            declarations.functions(code)
        except (AssertionError, AttributeError, KeyError):
            continue
        raise AssertionError(code)


def test_statuses_equal_the_header():
    rows = re.findall(r"X\((\w+), (\d+), \"", HEADER)
    assert {name: int(number) for name, number in rows} == _abi.STATUSES


def test_constants_equal_the_headers():
    tables = {
        "": {**_abi.DTYPES, **_abi.OPS},
        "SCHEDULE_": _abi.SCHEDULES,
        "STEP_": _abi.STEP_SOURCES,
        "LOG_": _abi.LOG_LEVELS,
    }
    ours = {
        prefix + name.upper(): number
        for prefix, table in tables.items()
        for name, number in table.items()
    }
    rows = re.findall(r"GQSGD_(\w+) = (\d+)", CODE)
    assert len(rows) == len(ours)
    assert {name: int(number) for name, number in rows} == ours
    assert re.findall(r"GQSGD_(\w+) = INT32_MAX", CODE) == [
        "DTYPE_MAX_", "OP_MAX_", "SCHEDULE_MAX_", "STEP_MAX_", "LOG_LEVEL_MAX_"
    ]


def test_version_equals_the_header():
    numbers = re.findall(r"#define GQSGD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER)
    assert tuple(map(int, numbers)) == _abi.VERSION
    assert f"libgqsgd.so.{_abi.VERSION[0]}" == _abi.SONAME


def test_site_equals_the_header():
    assert declarations.fields(CODE, "gqsgd_site") == _abi.SiteStruct._fields_
    assert {kind for _, kind in _abi.SiteStruct._fields_} == {c_uint64}


def test_config_equals_the_header_and_begins_as_its_initializer():
    assert declarations.fields(CODE, "gqsgd_config") == _abi.ConfigStruct._fields_
    (values,) = re.findall(r"GQSGD_CONFIG_INIT[\s\\]*\{ ([^}]*) \}", HEADER)
    assert values.split(", ") == [
        "sizeof(gqsgd_config)", "GQSGD_SCHEDULE_AUTO", "GQSGD_STEP_COUNTER", "0", "0", "NULL"
    ]
    config = _abi.ConfigStruct()
    begun = [getattr(config, name) for name, _ in config._fields_]
    assert begun == [ctypes.sizeof(config), 0, 0, 0, 0, None]


def test_unique_id_has_the_size_of_the_header():
    (size_bytes,) = re.findall(r"unsigned char bytes\[(\d+)\];\s*\} gqsgd_unique_id;", CODE)
    assert int(size_bytes) == _abi.UNIQUE_ID_SIZE_BYTES


def test_log_callback_equals_the_header():
    (parameters,) = re.findall(r"typedef void \(\*gqsgd_log_callback\)\(([^)]*)\);", CODE)
    assert [declarations.ctype(each) for each in parameters.split(",")] == list(
        _abi.LogCallback._argtypes_
    )


def test_stat_names_equal_the_header():
    (sentence,) = re.findall(r"/\*\* Running totals of this rank: (.*?)\. ", HEADER, re.DOTALL)
    names = re.sub(r"\([^)]*\)|\n \*", "", sentence).split(",")
    assert tuple(name.strip() for name in names) == _abi.STAT_NAMES
