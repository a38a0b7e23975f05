"""Who may include whom. The reasons are in docs/DESIGN.md; this table is the rule."""

import re

# Longest matching prefix first decides. A folder may always include its own files.
FOLDERS = {
    "include/": [],
    "include/gqsgd.h": [],
    "include/gqsgd_elastic.h": ["include/gqsgd.h"],
    "include/gqsgd_log.h": ["include/gqsgd.h"],
    "include/gqsgd_model.h": ["include/gqsgd.h"],
    "include/gqsgd_nccl.h": ["include/gqsgd.h"],
    "include/gqsgd_network.h": ["include/gqsgd.h"],
    "include/gqsgd_stages.h": ["include/gqsgd.h"],
    "include/gqsgd_transport.h": ["include/gqsgd.h"],
    "kernels/codec/": [],
    "kernels/checksum/": [],
    "kernels/stage_error.h": [],
    "kernels/stages.h": ["include/gqsgd.h", "kernels/codec/formats.h", "kernels/codec/groups.h",
                         "kernels/stage_error.h"],
    "kernels/agreement.h": ["include/gqsgd.h", "kernels/codec/formats.h",
                            "kernels/stage_error.h"],
    "kernels/rounding_strata.h": ["kernels/codec/strata.h", "kernels/stages.h"],
    "kernels/cpu/": ["kernels/codec/", "kernels/stages.h", "kernels/rounding_strata.h",
                     "include/gqsgd.h"],
    "kernels/numbers.h": ["include/gqsgd.h", "kernels/stages.h"],
    "kernels/fused.h": ["kernels/stages.h", "kernels/agreement.h"],
    "kernels/sparse_workspace.h": ["kernels/codec/portable.h"],
    "kernels/cuda/": ["kernels/codec/", "kernels/stages.h", "kernels/rounding_strata.h",
                      "kernels/agreement.h", "kernels/numbers.h", "kernels/fused.h",
                      "kernels/sparse_workspace.h", "kernels/stage_error.h", "include/gqsgd.h"],
    "src/gpu/device/": ["include/gqsgd.h", "src/support/", "kernels/stages.h",
                        "kernels/agreement.h", "kernels/numbers.h", "kernels/fused.h"],
    "src/support/": ["include/gqsgd.h", "include/gqsgd_log.h", "kernels/stage_error.h"],
    "src/schedule/": ["include/gqsgd.h", "src/support/"],
    "src/transport/": ["include/gqsgd.h", "include/gqsgd_transport.h", "src/support/",
                       "kernels/checksum/crc32c.h"],
    "src/transport/stream/": ["src/gpu/device/", "include/gqsgd.h", "src/support/",
                              "src/transport/"],
    "src/transport/nccl/": ["src/gpu/device/", "include/gqsgd.h", "src/support/",
                            "src/transport/"],
    "src/gpu/enqueue/": ["src/call/agreement.h", "src/call/auto_schedule.h",
                         "src/call/call_log.h", "src/call/control_fields.h",
                         "include/gqsgd.h", "src/support/", "src/plan/", "src/gpu/device/",
                         "src/schedule/move.h", "src/schedule/nodes.h", "src/execute/",
                         "src/call/request.h",
                         "src/transport/stream/stream_transport.h",
                         "src/transport/control_message.h",
                         "kernels/codec/norm.h", "kernels/codec/global_norm.h",
                         "kernels/agreement.h", "kernels/sparse_workspace.h"],
    "src/theory/": ["include/gqsgd.h", "src/support/", "kernels/codec/formats.h"],
    "src/plan/": ["include/gqsgd.h", "src/support/", "src/schedule/", "kernels/codec/formats.h",
                  "kernels/codec/groups.h"],
    "src/standard_once.h": [],
    "src/survivors/": [],
    "src/call/virtual/": ["include/gqsgd.h", "src/support/", "src/plan/", "src/execute/",
                          "src/call/allreduce.h", "src/transport/host_transport.h",
                          "src/transport/shared_memory/local.h"],
    "src/call/": ["include/gqsgd.h", "src/support/", "src/plan/", "src/execute/",
                  "src/schedule/nodes.h", "src/transport/host_transport.h",
                  "src/transport/control_message.h", "src/transport/culprit.h",
                  "kernels/stages.h", "kernels/codec/formats.h",
                  "kernels/codec/global_norm.h", "kernels/codec/block_norm.h",
                  "kernels/codec/sparse.h", "kernels/checksum/digest.h",
                  "kernels/cpu/float_environment.h"],
    "src/execute/": ["include/gqsgd.h", "src/support/", "src/plan/", "src/schedule/move.h",
                     "src/schedule/nodes.h",
                     "src/transport/host_transport.h", "src/transport/control_message.h",
                     "src/transport/culprit.h", "kernels/stages.h", "kernels/checksum/",
                     "kernels/codec/formats.h", "kernels/codec/global_norm.h",
                     "kernels/codec/block_norm.h", "kernels/codec/groups.h",
                     "kernels/codec/norm.h",
                     "kernels/codec/random.h", "kernels/codec/sparse.h"],
    "src/api/": ["include/gqsgd",
                 "src/", "kernels/stages.h",
                 "kernels/codec/formats.h", "kernels/codec/global_norm.h",
                 "kernels/codec/block_norm.h", "kernels/codec/groups.h",
                 "kernels/codec/narrow.h", "kernels/codec/norm.h",
                 "kernels/numbers.h", "kernels/cpu/float_environment.h"],
    "tools/": ["include/gqsgd", "src/", "bench/",
               "kernels/codec/formats.h", "kernels/numbers.h", "kernels/stages.h"],
    "include/gqsgd_mpi": ["include/gqsgd_transport.h"],
    "bindings/": ["include/gqsgd.h", "include/gqsgd_mpi.h"],
    "bench/": ["include/gqsgd"],
    "bench/gpu/nccl_perf": ["include/gqsgd", "bench/", "src/transport/nccl/nccl_library.h"],
    "bench/checksum/": ["include/gqsgd", "bench/", "examples/cpp/socket_transport.h"],
    "examples/": ["include/gqsgd.h", "include/gqsgd_network.h", "include/gqsgd_transport.h"],
    "tests/api/collective/": ["include/gqsgd", "tests/support/"],
    "tests/api/abi/": ["include/gqsgd"],
    "tests/": [""],  # unit tests look inside
}

# Headers of other projects, and the only places that may know them.
FOREIGN = {
    r"mpi\.h": ("include/gqsgd_mpi", "bench/", "tests/"),
    r"nccl\.h": ("src/transport/nccl/",),
    r"(cuda|cub/|thrust/|cooperative_groups).*": ("kernels/cuda/", "src/gpu/device/cuda.cpp",
                                                    "bench/gpu/", "tests/gpu/"),
    r"nvtx3/.*": ("src/gpu/device/nvtx.cpp", "tests/gpu/nccl/profiler.cpp"),
    r"gtest/.*|gmock/.*": ("tests/",),
    r"uc[pst]/.*": ("tests/unit/transport/ucx/ucx_types_test.cpp",),
    r"Python\.h|torch/.*|julia\.h": (),
}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def violations(name, text):
    """Sentences on every include of file `name` that the rule forbids."""
    found = []
    folder = max((prefix for prefix in FOLDERS if name.startswith(prefix)), key=len, default=None)
    if folder is None:
        return [f"{name}: is in no folder of tests/repo/tidy/include_rule.py"]
    for quoted, angled in _INCLUDE.findall(text):
        target = _repository_path(name, quoted or angled)
        if target is not None:
            if not target.startswith((folder, *FOLDERS[folder])) or _is_closed(name, target):
                found.append(f"{name}: {folder} may not include {target}")
        elif quoted:
            found.append(f"{name}: \"{quoted}\" is not a path from the root of the repository")
        for pattern, places in FOREIGN.items():
            if angled and re.fullmatch(pattern, angled) and not name.startswith(places):
                found.append(f"{name}: <{angled}> belongs to {', '.join(places) or 'no folder'}")
    return found


def _repository_path(name, included):
    """The included file as a path from the root; None for a header of another project."""
    if re.fullmatch(r"gqsgd(_\w+)?\.h", included):
        return f"include/{included}"  # as users write it
    if included.startswith(("include/", "kernels/", "src/", "tests/", "bench/", "bindings/",
                            "examples/", "tools/")):
        return included
    if "/" not in included and name.startswith(("tests/", "bench/", "examples/", "kernels/cpu/")):
        from source_tree import ROOT
        beside = f"{name.rpartition('/')[0]}/{included}"
        return beside if (ROOT / beside).is_file() else None
    return None


def _is_closed(name, target):
    """The API is the way in for users: no file inside the library includes it."""
    return target.startswith("src/api/") and not name.startswith(("src/api/", "tests/",
                                                                          "tools/"))
