"""
The C ABI of gqsgd.h, gqsgd_stages.h, gqsgd_model.h, gqsgd_log.h, gqsgd_nccl.h, gqsgd_network.h and
libgqsgd_mpi, name by name, in the headers' order, and nothing else. The headers document each
function; a test compares every line here with them.
"""
module ABI

const VERSION = v"0.1.0"

include("library.jl")

# ---- Types and constants

struct gqsgd_comm_s end
struct gqsgd_quantizer_s end
struct gqsgd_request_s end
const gqsgd_comm = Ptr{gqsgd_comm_s}
const gqsgd_quantizer = Ptr{gqsgd_quantizer_s}
const gqsgd_request = Ptr{gqsgd_request_s}
const gqsgd_status = Int32

const UNIQUE_ID_SIZE_BYTES = 256

const STATUSES = (
    OK = 0,
    INVALID_ARGUMENT = 1,
    UNSUPPORTED = 2,
    BAD_HANDLE = 3,
    BUSY = 4,
    FORKED = 5,
    NO_MEMORY = 20,
    NO_RESOURCE = 21,
    SYSTEM = 22,
    BACKEND = 23,
    MISMATCH = 40,
    VERSION = 41,
    REMOTE_ERROR = 42,
    DUPLICATE_RANK = 43,
    TIMEOUT = 60,
    PEER_LOST = 61,
    ABORTED = 62,
    REVOKED = 63,
    PROTOCOL = 64,
    INTEGRITY = 65,
    NONFINITE = 80,
    OVERFLOW = 81,
    INTERNAL = 99,
)

# The enumerations, under the names that Julia callers use.
const DTYPES = (float32 = 0, float16 = 1, bfloat16 = 2, float64 = 3)
const OPS = (sum = 0, mean = 1)
const SCHEDULES = (
    auto = 0,
    ring = 1,
    tree = 2,
    butterfly = 3,
    direct = 4,
    hierarchical = 5,
    native = 6,
    sparse = 7,
)

const STEP_SOURCES = (counter = 0, given = 1, device = 2)
const LOG_LEVELS = (none = 0, warn = 1, info = 2, trace = 3)

# The counters that gqsgd_comm_stat knows.
const STATS = (
    :calls,
    :messages_sent,
    :header_bytes_sent,
    :payload_bytes_sent,
    :uncompressed_bytes_sent,
    :payload_bytes_copied,
    :wait_ns,
    :workspace_bytes,
    :nonfinite_blocks,
    :native_float_calls,
)

"gqsgd_config, as GQSGD_CONFIG_INIT has it where a field is left out; fields are only ever added at
its end."
Base.@kwdef struct Config
    size_bytes::Csize_t = sizeof(Config)
    schedule::Int32 = SCHEDULES.auto
    step_source::Int32 = STEP_SOURCES.counter
    step::UInt64 = 0
    index::UInt64 = 0
    device_step::Ptr{UInt32} = C_NULL
end

"""
    Site(; rank = 0, size = 1, reduction_depth = 0, step = 0, index = 0, first_value = 0, hop = 0,
         weight_a = 1, weight_b = 1)

Where a stage stands in an allreduce.

- `rank`, `size`: the rank that runs the stage, from 0, and the ranks in the allreduce.
- `reduction_depth`: longest chain of reductions in code form: `size - 1` for a ring,
  `ceil(log2(size))` for tree and butterfly, 0 for the direct schedule.
- `step`, `index`: the random key of the call, with seed; below 2^32 and 2^16.
- `first_value`: position of the first value in the whole call, from 0; a multiple of 32, of `block`
  and, with `rotate=hadamard`, of 1024. A part that is not the call's last ends at one, too.
- `hop`: number of this reduction in the schedule, from 1; 0 when quantizing.
- `weight_a`, `weight_b`: ranks merged in the operands a and b (`combine=average`).
"""
Base.@kwdef struct Site  # gqsgd_site, whose layout never changes
    rank::UInt64 = 0
    size::UInt64 = 1
    reduction_depth::UInt64 = 0
    step::UInt64 = 0
    index::UInt64 = 0
    first_value::UInt64 = 0
    hop::UInt64 = 0
    weight_a::UInt64 = 1
    weight_b::UInt64 = 1
end

# ---- Statuses and errors

@c LIBGQSGD gqsgd_status_name(status::gqsgd_status)::Cstring
@c LIBGQSGD gqsgd_status_string(status::gqsgd_status)::Cstring
@c LIBGQSGD gqsgd_last_error()::Cstring
@c LIBGQSGD gqsgd_version()::Int32
@c LIBGQSGD gqsgd_build_info()::Cstring

# ---- Quantizers

@c LIBGQSGD gqsgd_quantizer_create(spec::Cstring, out::Ptr{gqsgd_quantizer})::gqsgd_status
@c LIBGQSGD gqsgd_quantizer_describe(
    quantizer::gqsgd_quantizer, spec::Ptr{UInt8}, capacity_bytes::Csize_t,
    size_bytes::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD gqsgd_quantizer_destroy(quantizer::gqsgd_quantizer)::gqsgd_status

# ---- Communicators

@c LIBGQSGD gqsgd_comm_create_local(
    rank_count::Int32, options::Cstring, comms::Ptr{gqsgd_comm})::gqsgd_status
@c LIBGQSGD gqsgd_unique_id_create(unique_id::Ptr{UInt8})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_create_process(
    unique_id::Ptr{UInt8}, rank::Int32, size::Int32, options::Cstring,
    comm::Ptr{gqsgd_comm})::gqsgd_status
@c LIBGQSGD gqsgd_comm_rank(comm::gqsgd_comm, rank::Ptr{Int32})::gqsgd_status
@c LIBGQSGD gqsgd_comm_size(comm::gqsgd_comm, size::Ptr{Int32})::gqsgd_status
@c LIBGQSGD gqsgd_comm_transport(comm::gqsgd_comm, name::Ptr{Cstring})::gqsgd_status
@c LIBGQSGD gqsgd_comm_set_timeout(comm::gqsgd_comm, timeout_ms::Int64)::gqsgd_status
@c LIBGQSGD gqsgd_comm_timeout(comm::gqsgd_comm, timeout_ms::Ptr{Int64})::gqsgd_status
@c LIBGQSGD gqsgd_comm_set_counter(comm::gqsgd_comm, step::UInt64)::gqsgd_status
@c LIBGQSGD gqsgd_comm_counter(comm::gqsgd_comm, step::Ptr{UInt64})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_reserve(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, count::Csize_t, dtype::Int32)::gqsgd_status
@c LIBGQSGD gqsgd_comm_stat(
    comm::gqsgd_comm, name::Cstring, value::Ptr{UInt64})::gqsgd_status
@c LIBGQSGD gqsgd_comm_costs(
    comm::gqsgd_comm, costs::Ptr{UInt8}, capacity_bytes::Csize_t,
    size_bytes::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD gqsgd_comm_status(comm::gqsgd_comm)::gqsgd_status
@c LIBGQSGD gqsgd_comm_abort(comm::gqsgd_comm)::gqsgd_status
@c LIBGQSGD gqsgd_comm_destroy(comm::gqsgd_comm)::gqsgd_status

# ---- Collectives

@c LIBGQSGD waiting gqsgd_allreduce(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, recv::Ptr{Cvoid},
    count::Csize_t, dtype::Int32, op::Int32, config::Ptr{Config}, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_allreduce_many(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Ptr{Cvoid}}, recv::Ptr{Ptr{Cvoid}},
    counts::Ptr{Csize_t}, tensor_count::Csize_t, dtype::Int32, op::Int32, config::Ptr{Config},
    stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_reduce_scatter(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, recv::Ptr{Cvoid},
    counts::Ptr{Csize_t}, dtype::Int32, op::Int32, config::Ptr{Config},
    stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_allgather(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, recv::Ptr{Cvoid},
    counts::Ptr{Csize_t}, dtype::Int32, config::Ptr{Config}, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_refuse(
    comm::gqsgd_comm, reason::gqsgd_status, config::Ptr{Config}, stream::Ptr{Cvoid})::gqsgd_status

# ---- Requests

@c LIBGQSGD waiting gqsgd_allreduce_start(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, recv::Ptr{Cvoid},
    count::Csize_t, dtype::Int32, op::Int32, config::Ptr{Config}, stream::Ptr{Cvoid},
    request::Ptr{gqsgd_request})::gqsgd_status
@c LIBGQSGD waiting gqsgd_allreduce_many_start(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Ptr{Cvoid}}, recv::Ptr{Ptr{Cvoid}},
    counts::Ptr{Csize_t}, tensor_count::Csize_t, dtype::Int32, op::Int32, config::Ptr{Config},
    stream::Ptr{Cvoid}, request::Ptr{gqsgd_request})::gqsgd_status
@c LIBGQSGD waiting gqsgd_reduce_scatter_start(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, recv::Ptr{Cvoid},
    counts::Ptr{Csize_t}, dtype::Int32, op::Int32, config::Ptr{Config}, stream::Ptr{Cvoid},
    request::Ptr{gqsgd_request})::gqsgd_status
@c LIBGQSGD waiting gqsgd_allgather_start(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, recv::Ptr{Cvoid},
    counts::Ptr{Csize_t}, dtype::Int32, config::Ptr{Config}, stream::Ptr{Cvoid},
    request::Ptr{gqsgd_request})::gqsgd_status
@c LIBGQSGD gqsgd_request_test(request::gqsgd_request, done::Ptr{Int32})::gqsgd_status
@c LIBGQSGD waiting gqsgd_request_wait(request::gqsgd_request)::gqsgd_status

# ---- Sizes and stages (gqsgd_stages.h)

@c LIBGQSGD gqsgd_packed_size(
    quantizer::gqsgd_quantizer, value_count::Csize_t, size_bytes::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD gqsgd_result_size(
    quantizer::gqsgd_quantizer, value_count::Csize_t, size_bytes::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD gqsgd_norm_count(
    quantizer::gqsgd_quantizer, value_count::Csize_t, norm_count::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD gqsgd_workspace_size(
    quantizer::gqsgd_quantizer, value_count::Csize_t, dtype::Int32,
    size_bytes::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD waiting gqsgd_norm(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, values::Ptr{Cvoid}, value_count::Csize_t,
    dtype::Int32, norms::Ptr{Cfloat}, workspace::Ptr{Cvoid}, workspace_size_bytes::Csize_t,
    stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_quantize(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, values::Ptr{Cvoid}, value_count::Csize_t,
    dtype::Int32, norms::Ptr{Cfloat}, words::Ptr{UInt32}, workspace::Ptr{Cvoid},
    workspace_size_bytes::Csize_t, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_reduce(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, a::Ptr{UInt32}, b_inout::Ptr{UInt32},
    value_count::Csize_t, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_reduce_many(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, words::Ptr{Ptr{UInt32}}, value_count::Csize_t,
    norms::Ptr{Cfloat}, out_words::Ptr{UInt32}, out_scales::Ptr{Cfloat}, workspace::Ptr{Cvoid},
    workspace_size_bytes::Csize_t, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_dequantize(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, words::Ptr{UInt32}, scales::Ptr{Cfloat},
    value_count::Csize_t, dtype::Int32, op::Int32, values::Ptr{Cvoid},
    stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD gqsgd_widths(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, norms::Ptr{Cfloat}, value_count::Csize_t,
    widths::Ptr{UInt8}, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD waiting gqsgd_dequantize_adaptive(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, words::Ptr{UInt32}, norms::Ptr{Cfloat},
    scales::Ptr{Cfloat}, value_count::Csize_t, dtype::Int32, op::Int32,
    values::Ptr{Cvoid}, stream::Ptr{Cvoid})::gqsgd_status
@c LIBGQSGD gqsgd_rice_groups(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, value_count::Csize_t, group_count::Ptr{Csize_t},
    codes_size_bytes::Ptr{Csize_t}, sums_size_bytes::Ptr{Csize_t})::gqsgd_status
@c LIBGQSGD waiting gqsgd_reduce_rice(
    quantizer::gqsgd_quantizer, site::Ptr{Site}, words::Ptr{Ptr{UInt32}}, value_count::Csize_t,
    first_group::Csize_t, group_count::Csize_t, out_words::Ptr{UInt32}, workspace::Ptr{Cvoid},
    workspace_size_bytes::Csize_t, stream::Ptr{Cvoid})::gqsgd_status

# ---- Bounds, predictions and errors (gqsgd_model.h)

@c LIBGQSGD gqsgd_variance_bound(
    quantizer::gqsgd_quantizer, rank_count::Int32, count::Csize_t, schedule::Int32,
    theta::Ptr{Cdouble})::gqsgd_status
@c LIBGQSGD gqsgd_sparsity_bound(
    quantizer::gqsgd_quantizer, rank_count::Int32, count::Csize_t, schedule::Int32,
    nonzero_count::Ptr{Cdouble})::gqsgd_status
@c LIBGQSGD gqsgd_depth_factor(
    quantizer::gqsgd_quantizer, rank_count::Int32, schedule::Int32,
    factor::Ptr{Cdouble})::gqsgd_status
@c LIBGQSGD gqsgd_predict_time(
    quantizer::gqsgd_quantizer, schedule::Int32, rank_count::Int32, count::Csize_t,
    dtype::Int32, constants::Cstring, time_ns::Ptr{Cdouble})::gqsgd_status
@c LIBGQSGD waiting gqsgd_simulate(
    quantizer::gqsgd_quantizer, rank_count::Int32, send::Ptr{Ptr{Cvoid}}, recv::Ptr{Ptr{Cvoid}},
    count::Csize_t, dtype::Int32, op::Int32, config::Ptr{Config}, options::Cstring)::gqsgd_status
@c LIBGQSGD waiting gqsgd_expected_error(
    quantizer::gqsgd_quantizer, rank_count::Int32, send::Ptr{Ptr{Cvoid}}, count::Csize_t,
    dtype::Int32, config::Ptr{Config}, draw_count::Int32, options::Cstring,
    error::Ptr{Cdouble})::gqsgd_status
@c LIBGQSGD waiting gqsgd_measured_error(
    comm::gqsgd_comm, quantizer::gqsgd_quantizer, send::Ptr{Cvoid}, count::Csize_t,
    dtype::Int32, config::Ptr{Config}, error::Ptr{Cdouble})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_verify(
    comm::gqsgd_comm, flipped_rank::Int32, compared::Ptr{Int32},
    differing::Ptr{Int32})::gqsgd_status

# ---- Log (gqsgd_log.h)

@c LIBGQSGD gqsgd_set_log(level::Int32, callback::Ptr{Cvoid}, user::Ptr{Cvoid})::Cvoid

# ---- NCCL (gqsgd_nccl.h)

@c LIBGQSGD gqsgd_nccl_unique_id_create(options::Cstring, unique_id::Ptr{UInt8})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_create_nccl(
    unique_id::Ptr{UInt8}, rank::Int32, size::Int32, options::Cstring,
    comm::Ptr{gqsgd_comm})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_create_from_nccl(
    nccl_comm::Ptr{Cvoid}, options::Cstring, comm::Ptr{gqsgd_comm})::gqsgd_status

# ---- Network (gqsgd_network.h)

@c LIBGQSGD gqsgd_network_id_create(options::Cstring, unique_id::Ptr{UInt8})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_create_network(
    unique_id::Ptr{UInt8}, rank::Int32, size::Int32, options::Cstring,
    comm::Ptr{gqsgd_comm})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_create_env(options::Cstring, comm::Ptr{gqsgd_comm})::gqsgd_status

# ---- Groups that change (gqsgd_elastic.h)

@c LIBGQSGD gqsgd_local_id_create(unique_id::Ptr{UInt8})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_reconfigure(
    comm::gqsgd_comm, unique_id::Ptr{UInt8}, members::Ptr{Int32}, rank::Int32, size::Int32,
    options::Cstring, new_comm::Ptr{gqsgd_comm})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_revoke(
    comm::gqsgd_comm, dead::Ptr{Int32}, dead_count::Ptr{Int32})::gqsgd_status
@c LIBGQSGD waiting gqsgd_comm_shrink(
    comm::gqsgd_comm, recv::Ptr{Cvoid}, count::Csize_t, dtype::Int32, options::Cstring,
    new_comm::Ptr{gqsgd_comm}, members::Ptr{Int32}, interrupted::Ptr{Int32})::gqsgd_status

# ---- MPI (gqsgd_mpi.h): the functions that take no MPI_Comm

@c LIBGQSGD_MPI waiting gqsgd_comm_create_mpi_f(
    fortran_handle::Int32, options::Cstring, comm::Ptr{gqsgd_comm})::gqsgd_status
@c LIBGQSGD_MPI waiting gqsgd_comm_create_mpi_world(
    options::Cstring, comm::Ptr{gqsgd_comm})::gqsgd_status

end
