"""The include rule holds, and its check sees the ways to break it."""

import pytest
from include_rule import violations
from source_tree import C_SUFFIXES, source_files


def test_every_file_includes_only_what_its_folder_may_know():
    assert [v for name, text in source_files(C_SUFFIXES).items()
            for v in violations(name, text)] == []


@pytest.mark.parametrize("name, include", [
    ("kernels/codec/linear.h", '"src/support/status.h"'),
    ("kernels/codec/linear.h", '"include/gqsgd.h"'),
    ("kernels/cpu/stages.cpp", '"src/transport/transport.h"'),
    ("kernels/stages.h", '"kernels/codec/linear.h"'),
    ("src/schedule/ring.cpp", '"src/transport/transport.h"'),
    ("src/transport/shared_memory/local.cpp", '"src/schedule/move.h"'),
    ("src/execute/executor.cpp", '"kernels/codec/linear.h"'),
    ("src/execute/executor.cpp", '"src/transport/shared_memory/local.h"'),
    ("src/plan/plan.cpp", '"src/api/handles.h"'),
    ("src/support/log.cpp", '"src/plan/plan.h"'),
    ("examples/c/average.c", '"src/plan/plan.h"'),
    ("tests/api/collective/identity_test.cpp", '"src/execute/executor.h"'),
    ("include/gqsgd.h", '"kernels/stages.h"'),
    ("include/gqsgd.h", '"gqsgd_transport.h"'),
    ("include/gqsgd_stages.h", '"kernels/stages.h"'),
    ("src/transport/process/process.cpp", "<mpi.h>"),
    ("src/execute/executor.cpp", "<cuda_runtime.h>"),
    ("src/api/comm.cpp", '"comm.h"'),
    ("somewhere/else.cpp", "<stdint.h>"),
])
def test_a_forbidden_include_is_seen(name, include):
    assert len(violations(name, f"// Text.\n#include {include}\n")) == 1


@pytest.mark.parametrize("name, include", [
    ("kernels/codec/linear.h", '"kernels/codec/portable.h"'),
    ("kernels/cpu/stages.cpp", '"kernels/codec/linear.h"'),
    ("src/schedule/ring.cpp", '"src/schedule/move.h"'),
    ("src/api/comm.cpp", '"src/execute/executor.h"'),
    ("src/api/comm.cpp", "<memory>"),
    ("examples/c/average.c", "<gqsgd.h>"),
    ("include/gqsgd_stages.h", '"gqsgd.h"'),
])
def test_a_permitted_include_passes(name, include):
    assert violations(name, f"#include {include}\n") == []
