"""What this library says of NCCL's interface is what NCCL's own header says, where that is here."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

# Ours of nccl_types.h: NCCL's.
TYPES = {"Comm": "ncclComm_t", "Id": "ncclUniqueId", "Result": "ncclResult_t",
         "DataType": "ncclDataType_t", "ReduceOp": "ncclRedOp_t", "Config": "ncclConfig_t",
         "Stream": "cudaStream_t"}
CONSTANTS = {"kSuccess": "ncclSuccess", "kInvalidArgument": "ncclInvalidArgument",
             "kInProgress": "ncclInProgress", "kUint8": "ncclUint8", "kUint64": "ncclUint64",
             "kFloat32": "ncclFloat32", "kBfloat16": "ncclBfloat16", "kSum": "ncclSum"}


@pytest.fixture
def ours(root):
    return (root / "src/transport/nccl/nccl_types.h").read_text()


@pytest.fixture
def theirs():
    """NCCL's header: GQSGD_NCCL_HEADER, or that of the package nvidia-nccl-cu13."""
    named = os.environ.get("GQSGD_NCCL_HEADER")
    if named:
        return Path(named).read_text()
    try:
        package = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        package = None
    folders = list(package.submodule_search_locations) if package else []
    found = [Path(folder) / "include/nccl.h" for folder in folders]
    if not any(path.is_file() for path in found):
        pytest.skip("nccl.h is not here")
    return next(path for path in found if path.is_file()).read_text()


def types_of(parameters):
    """The types of a list of parameters, without their names."""
    without_names = (re.sub(r"\b\w+\s*$", "", one.strip()) for one in parameters.split(","))
    return [re.sub(r"\s+", "", one) for one in without_names if one.strip() not in ("", "void")]


def our_functions(text):
    """{symbol: result and types of parameters}, in NCCL's names."""
    text = re.sub(r"\s*\\\n\s*", " ", text)
    found = re.findall(r"X\(\w+, (nccl\w+), ([\w *]+), \(((?:[^()])*)\)\)", text)
    translated = {}
    for symbol, result, parameters in found:
        kinds = [result.replace(" ", ""), *types_of(parameters)]
        translated[symbol] = [
            re.sub(r"\b(\w+)\b", lambda word: TYPES.get(word[0], word[0]), kind) for kind in kinds]
    return translated


def declared(text, symbol):
    """The same of one function of NCCL's header; const of what is passed by value says nothing."""
    text = text.replace("const ncclComm_t", "ncclComm_t")
    match = re.search(rf"^(const char\s?\*|\w+)\s+{symbol}\(([^)]*)\);", text, re.MULTILINE)
    return [match[1].replace(" ", ""), *types_of(match[2])] if match else None


def test_functions_are_declared_as_nccl_does(ours, theirs):
    functions = our_functions(ours)
    assert len(functions) == ours.count("  X(") >= 16
    assert {symbol: declared(theirs, symbol) for symbol in functions} == functions


def test_constants_are_nccls(ours, theirs):
    for name, symbol in CONSTANTS.items():
        number = re.search(rf"\b{name} = (\d+);", ours)[1]
        assert re.search(rf"\b{symbol}\s*=\s*{number}\b", theirs), name


def test_the_configuration_begins_as_nccls(ours, theirs):
    body = re.search(r"struct Config \{(.*?)\};", ours, re.DOTALL)[1]
    fields = re.findall(r"^\s*([\w ]+?) (\w+) = ", body, re.MULTILINE)
    begin = re.search(r"typedef struct ncclConfig_v\d+ \{(.*?)\}", theirs, re.DOTALL)[1]
    begin = re.sub(r"/\*.*?\*/", "", begin, flags=re.DOTALL)
    assert re.findall(r"^\s*([\w ]+?) (\w+);", begin, re.MULTILINE)[:len(fields)] == fields
    assert re.search(r"magic = (\w+);", body)[1] in theirs
    assert re.search(r"NCCL_UNIQUE_ID_BYTES (\d+)", theirs)[1] == re.search(
        r"char internal\[(\d+)\]", ours)[1]


def test_another_type_is_seen(ours):
    functions = our_functions(ours)
    header = "ncclResult_t  ncclCommCount(const ncclComm_t comm, int* count);\n"
    assert declared(header, "ncclCommCount") == functions["ncclCommCount"]
    for wrong in (header.replace("int*", "long*"), header.replace(", int* count", "")):
        assert declared(wrong, "ncclCommCount") != functions["ncclCommCount"]
    assert declared(header, "ncclCommRank") is None
