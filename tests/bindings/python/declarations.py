"""Declarations of the C headers, for tests that compare a binding with them."""

import re
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

from gqsgd import _abi, _transport

INCLUDE = Path(__file__).resolve().parents[3] / "include"

CTYPES = {
    "void": None,
    "gqsgd_status": c_int32,
    "gqsgd_dtype": c_int32,
    "gqsgd_op": c_int32,
    "gqsgd_schedule": c_int32,
    "gqsgd_step_source": c_int32,
    "gqsgd_log_level": c_int32,
    "int32_t": c_int32,
    "int64_t": c_int64,
    "uint64_t": c_uint64,
    "size_t": c_size_t,
    "char*": c_char_p,
    "char**": POINTER(c_char_p),
    "void*": c_void_p,
    "double*": POINTER(c_double),
    "float*": c_void_p,
    "uint8_t*": c_void_p,
    "uint32_t*": c_void_p,
    "void**": POINTER(c_void_p),
    "uint32_t**": POINTER(c_void_p),
    "int32_t*": POINTER(c_int32),
    "int64_t*": POINTER(c_int64),
    "uint64_t*": POINTER(c_uint64),
    "size_t*": POINTER(c_size_t),
    "gqsgd_comm": c_void_p,
    "gqsgd_comm*": POINTER(c_void_p),
    "gqsgd_quantizer": c_void_p,
    "gqsgd_quantizer*": POINTER(c_void_p),
    "gqsgd_request": c_void_p,
    "gqsgd_request*": POINTER(c_void_p),
    "gqsgd_unique_id*": c_char_p,
    "gqsgd_config*": POINTER(_abi.ConfigStruct),
    "gqsgd_site*": POINTER(_abi.SiteStruct),
    "gqsgd_transport*": POINTER(_transport.TransportStruct),
    "gqsgd_log_callback": _abi.LogCallback,
}


def header(*names):
    """The text of headers, one after the other."""
    return "".join((INCLUDE / name).read_text() for name in names)


def code_of(*names):
    """The same without comments and without lines of the preprocessor."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header(*names), flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", code, flags=re.MULTILINE)


def functions(code):
    """{name: (result, [type of each parameter])} of all functions that code declares, in ctypes.

    They are counted in another way as well: a declaration that the pattern does not understand is
    an error, not a function less.
    """
    found = re.findall(r"^([\w\s*]*?)\b(gqsgd_\w+)\(([^()]*)\);", code, re.MULTILINE)
    named = re.findall(r"\b(gqsgd_\w+)\(", code)
    assert [name for _, name, _ in found] == named, set(named) ^ {name for _, name, _ in found}
    return {
        name: (ctype(result), [ctype(each) for each in parameters.split(",") if each != "void"])
        for result, name, parameters in found
    }


def ctype(declaration):
    """ "const void *const *send" is "void**"; the name of the parameter is dropped."""
    plain = re.sub(r"\bconst\b", "", declaration)
    base, pointers = re.fullmatch(r"\s*(\w+)([\s*]*)(?:\w+)?\s*", plain).groups()
    return CTYPES[base + re.sub(r"\s", "", pointers)]


def fields(code, name):
    """[(name, type)] of the fields of a structure whose fields are no arrays."""
    (body,) = re.findall(r"typedef struct \{([^{}]*)\} " + name + ";", code)
    declared = [each.strip() for each in body.split(";") if each.strip()]
    return [(re.search(r"\w+$", each)[0], ctype(each)) for each in declared]
