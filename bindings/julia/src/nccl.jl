# Groups over NCCL: ranks with a GPU each (docs/NCCL.md).

"""
    nccl_unique_id(; nccl = nothing) -> Vector{UInt8}

A fresh name for a group over NCCL; one rank makes it and passes it to all. `nccl` is the file of
the NCCL to use; else it is the one of this process, `ENV["GQSGD_NCCL_LIBRARY"]`, or the system's.
Throws `:UNSUPPORTED` where there is none, or it is older than 2.14.
"""
function nccl_unique_id(; options...)
    bytes = zeros(UInt8, ABI.UNIQUE_ID_SIZE_BYTES)
    check(ABI.gqsgd_nccl_unique_id_create(joined_fields("", options), bytes))
    return bytes
end

"""
    nccl_comm(unique_id, rank, size; options...) -> Comm
    nccl_comm(nccl_comm::Ptr{Cvoid}; options...) -> Comm

Joins a group of `size` ranks, each with the GPU that is current on its thread, as rank `rank`,
from 0; `unique_id` is what [`nccl_unique_id`](@ref) made on one of them. Or borrows an
`ncclComm_t`, all of whose ranks call; its owner destroys it afterwards. The option `nccl`
names the file of the NCCL to use. Throws `:UNSUPPORTED` without a GPU or NCCL 2.14, `:TIMEOUT` if
a rank is missing.

Calls take arrays of the GPU (`CuArray`, with CUDA.jl loaded), are enqueued on the task's stream,
and return before they are executed.
"""
nccl_comm(unique_id::Vector{UInt8}, rank::Integer, size::Integer; options...) =
    join_group(ABI.gqsgd_comm_create_nccl, "what nccl_unique_id() returned", unique_id, rank, size,
               options)

nccl_comm(nccl_comm::Ptr{Cvoid}; options...) = created() do handle
    ABI.gqsgd_comm_create_from_nccl(nccl_comm, joined_fields("", options), handle)
end
