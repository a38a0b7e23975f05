"""xla_ffi.h against the header that comes with jaxlib: every member, constant and size."""

import re
import subprocess
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).resolve().parents[3]
OURS = "bindings/jax/xla_ffi.h"
HEADER = (ROOT / OURS).read_text()

# Our struct: XLA's, and the members that have another name here.
STRUCTS = {
    "XlaExtension": ("XLA_FFI_Extension_Base", {}),
    "XlaApiVersion": ("XLA_FFI_Api_Version", {}),
    "XlaErrorCreateArgs": ("XLA_FFI_Error_Create_Args", {}),
    "XlaStreamArgs": ("XLA_FFI_Stream_Get_Args", {}),
    "XlaDeviceOrdinalArgs": ("XLA_FFI_DeviceOrdinal_Get_Args", {}),
    "XlaApi": (
        "XLA_FFI_Api",
        {
            "error_create": "XLA_FFI_Error_Create",
            "others": "XLA_FFI_Error_GetMessage",
            "stream_get": "XLA_FFI_Stream_Get",
            "more_others": "XLA_FFI_Type_Register",
            "device_ordinal_get": "XLA_FFI_DeviceOrdinal_Get",
        },
    ),
    "XlaBuffer": ("XLA_FFI_Buffer", {}),
    "XlaBuffers": ("XLA_FFI_Args", {"buffers": "args"}),
    "XlaBytes": ("XLA_FFI_ByteSpan", {}),
    "XlaScalar": ("XLA_FFI_Scalar", {}),
    "XlaArray": ("XLA_FFI_Array", {}),
    "XlaAttributes": ("XLA_FFI_Attrs", {}),
    "XlaCallFrame": ("XLA_FFI_CallFrame", {}),
    "XlaMetadata": ("XLA_FFI_Metadata", {}),
    "XlaMetadataExtension": ("XLA_FFI_Metadata_Extension", {}),
}
# Runs of functions that are counted.
COUNTED = {"others", "more_others"}
# XLA has more at the end of these, which is not used here.
OPEN_ENDED = {"XlaCallFrame", "XlaMetadata", "XlaApi"}

CONSTANTS = {
    "XLA_API_MAJOR": "XLA_FFI_API_MAJOR",
    "XLA_API_MINOR": "XLA_FFI_API_MINOR",
    "XLA_EXTENSION_METADATA": "XLA_FFI_Extension_Metadata",
    "XLA_STAGE_EXECUTE": "XLA_FFI_ExecutionStage_EXECUTE",
    "XLA_ATTRIBUTE_ARRAY": "XLA_FFI_AttrType_ARRAY",
    "XLA_ATTRIBUTE_SCALAR": "XLA_FFI_AttrType_SCALAR",
    **{f"XLA_{name}": f"XLA_FFI_DataType_{name}" for name in "S32 U32 F16 F32 F64 BF16".split()},
    **{
        f"XLA_{name}": f"XLA_FFI_Error_Code_{name}"
        for name in (
            "UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED RESOURCE_EXHAUSTED FAILED_PRECONDITION "
            "ABORTED UNIMPLEMENTED INTERNAL UNAVAILABLE"
        ).split()
    },
}


def our_structs():
    """{struct: its members} of xla_ffi.h."""
    bodies = re.findall(r"typedef struct \w* ?\{(.*?)\n\} (\w+);", HEADER, flags=re.DOTALL)
    return {
        name: re.findall(r"\(?\*?(\w+)(?:\[\d+\])?\)?(?:\([^;()]*\))?;", body)
        for body, name in bodies
    }


def assertions():
    """A C file that both headers have to agree for."""
    lines = ["#include <xla/ffi/api/c_api.h>", f'#include "{OURS}"']
    for ours, members in our_structs().items():
        theirs, renamed = STRUCTS[ours]
        for member in members:
            twin = renamed.get(member, member)
            lines.append(
                f"_Static_assert(offsetof({ours}, {member}) == offsetof({theirs}, {twin}), "
                f'"{ours}.{member}");'
            )
            if member not in COUNTED:
                lines.append(
                    f"_Static_assert(sizeof((({ours}*)0)->{member}) <= "
                    f'sizeof((({theirs}*)0)->{twin}), "size of {ours}.{member}");'
                )
        relation = "<=" if ours in OPEN_ENDED else "=="
        lines.append(f'_Static_assert(sizeof({ours}) {relation} sizeof({theirs}), "{ours}");')
    for ours, theirs in CONSTANTS.items():
        lines.append(f'_Static_assert((int){ours} == (int){theirs}, "{ours}");')
    return "\n".join(lines) + "\n"


def compiled(text):
    return subprocess.run(
        ["gcc", "-std=c11", "-fsyntax-only", "-I", ROOT, "-I", jax.ffi.include_dir()]
        + ["-x", "c", "-"],
        input=text,
        capture_output=True,
        text=True,
    )


def test_every_declaration_is_jaxlibs():
    done = compiled(assertions())
    assert done.returncode == 0, done.stderr


def test_every_struct_member_and_constant_is_compared():
    structs = our_structs()
    assert structs.keys() == STRUCTS.keys()
    assert structs["XlaApi"][3:] == [
        "internal_api",
        "error_create",
        "others",
        "stream_get",
        "more_others",
        "device_ordinal_get",
    ]
    assert structs["XlaCallFrame"][-3:] == ["args", "rets", "attrs"]
    assert set(re.findall(r"\b(XLA_\w+) = \d+", HEADER)) == CONSTANTS.keys()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("offsetof(XlaBuffer, data)", "offsetof(XlaBuffer, dims)"),
        ("(int)XLA_F64 ==", "(int)XLA_F32 =="),
        ("sizeof(XlaScalar) ==", "1 + sizeof(XlaScalar) =="),
    ],
)
def test_a_difference_is_seen(right, wrong):
    text = assertions()
    assert right in text
    assert compiled(text.replace(right, wrong)).returncode != 0
