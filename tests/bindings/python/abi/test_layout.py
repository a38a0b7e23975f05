"""The package against tests/api/abi/layout.txt, the list that C and Julia are tested with: sizes,
places of fields, values of enumerators."""

import ctypes

import declarations
import pytest
from gqsgd import _abi, _transport
from gqsgd.network import elastic

LIST = declarations.INCLUDE.parent / "tests" / "api" / "abi" / "layout.txt"
STRUCTS = {"gqsgd_config": _abi.ConfigStruct, "gqsgd_site": _abi.SiteStruct,
           "gqsgd_transport": _transport.TransportStruct}
ENUMERATIONS = {"": {**_abi.STATUSES, **_abi.DTYPES, **_abi.OPS}, "SCHEDULE_": _abi.SCHEDULES,
                "STEP_": _abi.STEP_SOURCES, "LOG_": _abi.LOG_LEVELS,
                "CALLS_": {name: number for number, name in enumerate(elastic._CALLS)}}
# Python has no name for what a transport adds, and needs none for limits of enumerations.
C_ALONE = {"GQSGD_ADD_UINT64", "GQSGD_ADD_FLOAT32"}
HANDLES = {"gqsgd_comm", "gqsgd_quantizer", "gqsgd_request"}


def listed(kind):
    """{name: number} of the lines of one kind."""
    lines = [line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return {name: int(number) for of, name, number in lines if of == kind}


def differences(structs):
    """Sentences on sizes and places of `structs` that are not those of the list."""
    places = {f"{name}.{field}": getattr(struct, field).offset
              for name, struct in structs.items() for field, _ in struct._fields_}
    sizes = {name: ctypes.sizeof(struct) for name, struct in structs.items()}
    wanted = {name: place for name, place in listed("offset").items()
              if name.partition(".")[0] in structs}
    return [f"{name}: {found.get(name)}, {of.get(name)} in the list"
            for found, of in ((places, wanted), (sizes, listed("size")))
            for name in {**found, **(wanted if of is wanted else {})}
            if found.get(name) != of.get(name)]


def test_structs_have_the_sizes_and_places_of_the_list():
    assert differences(STRUCTS) == []


def test_other_types_have_the_sizes_of_the_list():
    for name, size_bytes in listed("size").items():
        if name in STRUCTS:
            continue
        if name == "gqsgd_unique_id":
            assert size_bytes == _abi.UNIQUE_ID_SIZE_BYTES
        else:
            kind = ctypes.c_void_p if name in HANDLES else declarations.CTYPES[name]
            assert size_bytes == ctypes.sizeof(kind), name


def test_enumerators_have_the_values_of_the_list():
    ours = {f"GQSGD_{prefix}{name.upper()}": number
            for prefix, table in ENUMERATIONS.items() for name, number in table.items()}
    assert ours == {name: number for name, number in listed("value").items()
                    if name not in C_ALONE and not name.endswith("_MAX_")}


@pytest.mark.parametrize("change", ["moved", "resized", "dropped"])
def test_a_struct_that_differs_is_seen(change):
    fields = list(_abi.ConfigStruct._fields_)
    if change == "moved":
        fields[3], fields[4] = fields[4], fields[3]
    elif change == "resized":
        fields[1] = (fields[1][0], ctypes.c_int64)
    else:
        fields.pop()
    mutated = type("ConfigStruct", (ctypes.Structure,), {"_fields_": fields})
    assert differences({**STRUCTS, "gqsgd_config": mutated})
