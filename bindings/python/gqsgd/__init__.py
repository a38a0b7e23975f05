"""Allreduce of gradients in 8 or 4 bits, without bias (Global-QSGD).

    import numpy as np, gqsgd

    q = gqsgd.Quantizer("blocks-8", seed=7)
    gradients = np.random.default_rng(0).standard_normal((4, 1000), np.float32)
    means = gqsgd.run_local(4, lambda comm: comm.allreduce(gradients[comm.rank], q))

With PyTorch two lines are enough: see help("gqsgd.torch"). With JAX: help("gqsgd.jax").

Quantizers. A preset and, after it, fields by name, as in Quantizer("rotated-8", seed=7):

    blocks-8     8 bits, a norm for every 128 values: the default, fits every model
    rotated-8    8 bits with less error on dense models; turns zeros into noise
    rotated-4-8  6 bits on average, for slow networks and 16 ranks or more
    rotated-4    4 bits, for the slowest networks: watch the loss
    adaptive-6   6 bits on average, more where gradients are large; keeps zeros
    adaptive-5   5 bits on average, less error than rotated-4-8 and fewer bytes
    adaptive-4   4 bits on average, more where gradients are large: watch the loss
    adaptive-3   3 bits on average: watch the loss
    rice-6       6 bits on average, 1/3 to 1/21 of the error of adaptive-6
    rice-5       5 bits on average, 1/3 to 1/16 of the error of adaptive-5
    rice-4       4 bits on average, 1/3 to 1/17 of the error of adaptive-4
    rice-3       3 bits on average, for the slowest networks: watch the loss
    relative-8   8 bits, errors relative to each value
    paper-gl8    linear levels of the paper, 8 bits, one norm for a call
    paper-ge8    exponential levels of the paper, 8 bits
    paper-gl4    linear levels of the paper, 4 bits
    paper-ge4    exponential levels of the paper, 4 bits
    bf16         16 bits: bfloat16 rounded at random, the range of float32; host memory
    fp16         16 bits: float16 rounded at random, 1/64 of bf16's error, up to 65504; host memory
    none         float32, to find out whether quantizing is to blame

Communicators, one for each rank; run_local makes and closes those of a group of threads:

    Communicator.local(n)                      threads of this process
    Communicator.process(unique_id, rank, n)   processes of this machine; gqsgd.unique_id()
    Communicator.network(unique_id, rank, n)   processes of any machines; gqsgd.network_id()
    Communicator.from_env()                    what torchrun, mpirun or srun has started
    Communicator.mpi(mpi_comm)                 ranks of MPI
    Communicator.nccl(unique_id, rank, n)      GPUs; gqsgd.nccl_unique_id()
    Communicator.custom(transport)             a gqsgd.Transport of your own

`reconfigure` continues one with other ranks, which `Communicator.join`: gqsgd.local_id() between
threads. `shrink` continues one with the ranks that are left.

Their collectives, help("gqsgd.Communicator"): allreduce, allreduce_many for several arrays,
reduce_scatter and allgather. Each has a form with _start, which returns a Request. `stats` returns
Stats, bytes sent and their ratio to float32; `measured_error` is the error of given values;
`verify` proves that all ranks get the bits of the format, and returns Verified.

Without a group:

    simulate, expected_error      an allreduce with virtual ranks, and its error
    variance_bound, sparsity_bound, depth_factor, predict_time
    Site, norm, widths, quantize, reduce, reduce_many, dequantize;
    rice_groups, RiceGroups, reduce_rice
                                  the steps of an allreduce one at a time
    log_to_logging, set_log       where lines of the library's log go
    version, build_info, library_path

Failures raise GqsgdError, by a class for each status: InvalidArgument, Timeout, PeerLost and so on
(help("gqsgd.errors")). Importing needs no library; the first use loads libgqsgd, or raises
ImportError with every place tried. GQSGD_LIBRARY in the environment names its file.
"""

# No __all__: help() shows all of what it names, here 2,700 lines. What is public is imported `as`
# itself.
from . import _abi
from .collectives.request import Request as Request
from .communicator import Communicator as Communicator
from .communicator import unique_id as unique_id
from .errors import Aborted as Aborted
from .errors import Backend as Backend
from .errors import BadHandle as BadHandle
from .errors import Busy as Busy
from .errors import DuplicateRank as DuplicateRank
from .errors import Forked as Forked
from .errors import GqsgdError as GqsgdError
from .errors import Integrity as Integrity
from .errors import Internal as Internal
from .errors import InvalidArgument as InvalidArgument
from .errors import Mismatch as Mismatch
from .errors import NoMemory as NoMemory
from .errors import Nonfinite as Nonfinite
from .errors import NoResource as NoResource
from .errors import Overflow as Overflow
from .errors import PeerLost as PeerLost
from .errors import Protocol as Protocol
from .errors import RemoteError as RemoteError
from .errors import Revoked as Revoked
from .errors import System as System
from .errors import Timeout as Timeout
from .errors import Unsupported as Unsupported
from .errors import Version as Version
from .library import build_info as build_info
from .library import library_path as library_path
from .library import version as version
from .log import log_to_logging as log_to_logging
from .log import set_log as set_log
from .nccl import nccl_unique_id as nccl_unique_id
from .network import local_id as local_id
from .network import network_id as network_id
from .presets import PRESETS as PRESETS
from .quantizer import Quantizer as Quantizer
from .simulate import Verified as Verified
from .simulate import expected_error as expected_error
from .simulate import simulate as simulate
from .stages import RiceGroups as RiceGroups
from .stages import Site as Site
from .stages import dequantize as dequantize
from .stages import norm as norm
from .stages import quantize as quantize
from .stages import reduce as reduce
from .stages import reduce_many as reduce_many
from .stages import reduce_rice as reduce_rice
from .stages import rice_groups as rice_groups
from .stages import widths as widths
from .stats import Stats as Stats
from .theory import depth_factor as depth_factor
from .theory import predict_time as predict_time
from .theory import sparsity_bound as sparsity_bound
from .theory import variance_bound as variance_bound
from .threads import run_local as run_local
from .transport import Transport as Transport

__version__ = ".".join(map(str, _abi.VERSION))
