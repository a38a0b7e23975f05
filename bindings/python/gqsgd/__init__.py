"""Global-QSGD: allreduce of gradients in 8 or 4 bits, without bias.

    import numpy as np, gqsgd

    q = gqsgd.Quantizer("blocks-8", seed=7)
    gradients = np.random.default_rng(0).standard_normal((4, 1000), np.float32)
    means = gqsgd.run_local(4, lambda comm: comm.allreduce(gradients[comm.rank], q))

Importing needs no library; the first use loads libgqsgd and raises ImportError, which names every
place tried, where there is none. The environment variable GQSGD_LIBRARY names it outright.
"""

from . import _abi
from .communicator import Communicator, unique_id
from .errors import (
    Aborted,
    Backend,
    BadHandle,
    Busy,
    DuplicateRank,
    Forked,
    GqsgdError,
    Internal,
    InvalidArgument,
    Mismatch,
    NoMemory,
    Nonfinite,
    NoResource,
    Overflow,
    PeerLost,
    Protocol,
    RemoteError,
    Revoked,
    System,
    Timeout,
    Unsupported,
    Version,
)
from .library import build_info, library_path, set_log, version
from .nccl import nccl_unique_id
from .quantizer import Quantizer
from .request import Request
from .simulate import expected_error, simulate
from .stages import Site, dequantize, norm, quantize, reduce, reduce_many
from .theory import depth_factor, predict_time, sparsity_bound, variance_bound
from .threads import run_local
from .transport import Transport

__version__ = ".".join(map(str, _abi.VERSION))

__all__ = [
    "Aborted",
    "Backend",
    "BadHandle",
    "Busy",
    "Communicator",
    "DuplicateRank",
    "Forked",
    "GqsgdError",
    "Internal",
    "InvalidArgument",
    "Mismatch",
    "NoMemory",
    "NoResource",
    "Nonfinite",
    "Overflow",
    "PeerLost",
    "Protocol",
    "Quantizer",
    "RemoteError",
    "Request",
    "Revoked",
    "Site",
    "System",
    "Timeout",
    "Transport",
    "Unsupported",
    "Version",
    "build_info",
    "depth_factor",
    "dequantize",
    "expected_error",
    "library_path",
    "nccl_unique_id",
    "norm",
    "predict_time",
    "quantize",
    "reduce",
    "reduce_many",
    "run_local",
    "set_log",
    "simulate",
    "sparsity_bound",
    "unique_id",
    "variance_bound",
    "version",
]
