"""_abi.py against gqsgd.h and gqsgd_segments.h: every status, constant, struct and prototype, both
ways."""

import ctypes
import re
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

from gqsgd import _abi

INCLUDE = Path(__file__).resolve().parents[4] / "include"
HEADER = "".join((INCLUDE / name).read_text() for name in ("gqsgd.h", "gqsgd_segments.h"))
CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)

CTYPES = {
    "void": None,
    "gqsgd_status": c_int32,
    "int32_t": c_int32,
    "int64_t": c_int64,
    "uint64_t": c_uint64,
    "size_t": c_size_t,
    "char*": c_char_p,
    "void*": c_void_p,
    "double*": POINTER(c_double),
    "float*": c_void_p,
    "uint32_t*": c_void_p,
    "void**": POINTER(c_void_p),
    "uint32_t**": POINTER(c_void_p),
    "int32_t*": POINTER(c_int32),
    "int64_t*": POINTER(c_int64),
    "uint64_t*": POINTER(c_uint64),
    "uint64_t[2]": POINTER(c_uint64),
    "size_t*": POINTER(c_size_t),
    "gqsgd_comm": c_void_p,
    "gqsgd_comm*": POINTER(c_void_p),
    "gqsgd_quantizer": c_void_p,
    "gqsgd_quantizer*": POINTER(c_void_p),
    "gqsgd_request": c_void_p,
    "gqsgd_request*": POINTER(c_void_p),
    "gqsgd_unique_id*": c_char_p,
    "gqsgd_site*": POINTER(_abi.SiteStruct),
    "gqsgd_log_callback": _abi.LogCallback,
}


def c_type(declaration: str) -> str:
    """ "const void *const *send" -> "void**"; the name of the parameter is dropped."""
    text = re.sub(r"\bconst\b", "", declaration)
    base, pointers, name, array = re.fullmatch(
        r"\s*(\w+)([\s*]*)(\w+)?\s*(\[\d+\])?\s*", text
    ).groups()
    return base + pointers.replace(" ", "").replace("\n", "") + (array or "")


def test_prototypes_equal_the_header():
    declared = {}
    for result, name, parameters in re.findall(
        r"GQSGD_API\s+([\w\s*]*?)(gqsgd_\w+)\(([^;]*)\);", CODE
    ):
        types = [] if parameters == "void" else parameters.split(",")
        declared[name] = CTYPES[c_type(result)], [CTYPES[c_type(each)] for each in types]
    assert len(declared) == CODE.count("GQSGD_API ") - CODE.count("define GQSGD_API ")
    assert declared == _abi.PROTOTYPES


def test_statuses_equal_the_header():
    rows = re.findall(r"X\((\w+), (\d+), \"", HEADER)
    assert {name: int(number) for name, number in rows} == _abi.STATUSES


def test_constants_equal_the_header():
    ours = {name.upper(): number for name, number in {**_abi.DTYPES, **_abi.OPS}.items()}
    ours.update({f"SCHEDULE_{name.upper()}": n for name, n in _abi.SCHEDULES.items()})
    rows = re.findall(r"GQSGD_(\w+) = (\d+)", CODE)
    assert {name: int(number) for name, number in rows} == ours


def test_at_device_equals_the_header():
    assert re.findall(r"#define GQSGD_AT_DEVICE (\w+)", CODE) == ["UINT64_MAX"]
    assert _abi.AT_DEVICE == c_uint64(-1).value


def test_version_equals_the_header():
    numbers = re.findall(r"#define GQSGD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", CODE)
    assert tuple(map(int, numbers)) == _abi.VERSION
    assert f"libgqsgd.so.{_abi.VERSION[0]}" == _abi.SONAME


def test_site_equals_the_header():
    (body,) = re.findall(r"typedef struct \{([^}]*)\} gqsgd_site;", CODE)
    names = re.findall(r"uint64_t (\w+);", body)
    assert [(name, c_uint64) for name in names] == _abi.SiteStruct._fields_
    assert body.count(";") == len(names)
    assert ctypes.sizeof(_abi.SiteStruct) == 8 * len(names)


def test_unique_id_has_the_size_of_the_header():
    (size_bytes,) = re.findall(r"unsigned char bytes\[(\d+)\];\s*\} gqsgd_unique_id;", CODE)
    assert int(size_bytes) == _abi.UNIQUE_ID_SIZE_BYTES


def test_log_callback_equals_the_header():
    (parameters,) = re.findall(r"typedef void \(\*gqsgd_log_callback\)\(([^)]*)\);", CODE)
    assert [CTYPES[c_type(each)] for each in parameters.split(",")] == list(
        _abi.LogCallback._argtypes_
    )


def test_stat_names_equal_the_header():
    (comment,) = re.findall(r"/\*\* One counter by name:(.*?)\*/", HEADER, flags=re.DOTALL)
    assert tuple(re.findall(r'"(\w+)"', comment)) == _abi.STAT_NAMES
