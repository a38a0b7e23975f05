# Groups that continue with other ranks (docs/ELASTIC.md).

"""
    local_id() -> Vector{UInt8}

A fresh name for a group of threads of this process, which meet in [`reconfigure`](@ref).
"""
function local_id()
    bytes = zeros(UInt8, ABI.UNIQUE_ID_SIZE_BYTES)
    check(ABI.gqsgd_local_id_create(bytes))
    return bytes
end

"""
    reconfigure(comm, unique_id, rank, members; options...) -> Comm

A communicator of other ranks that continues `comm`, which may have failed, been aborted, or be
intact, and is still the caller's to close. `comm` is `nothing` on a newcomer. `unique_id` is a
fresh one, equal on all members, and decides the transport: of [`unique_id`](@ref),
[`network_id`](@ref) on the new rank 0, or [`local_id`](@ref). `members` has for each new rank its
rank in the old group, or -1 for a newcomer; `rank` is this process's in the new group, from 0.

The counter continues, at the largest of the survivors', and so do `stream_id` and costs. Returns
when all members are there; until then a member that is a task keeps a thread of Julia's to itself,
so a group of [`local_id`](@ref) needs as many as it has members (`JULIA_NUM_THREADS`). Throws
`:TIMEOUT`, which names the missing ones, `:PEER_LOST`, `:MISMATCH` where `members` differ or
survivors are of two groups, and `:UNSUPPORTED` over MPI, NCCL and custom transports.
"""
function reconfigure(comm::Union{Comm,Nothing}, unique_id::Vector{UInt8}, rank::Integer,
                     members::AbstractVector{<:Integer}; options...)
    require_id("all bytes of the id", unique_id)
    # A closed communicator has the handle of a newcomer.
    comm === nothing || check(ABI.gqsgd_comm_rank(comm, Ref(Int32(0))))
    handle = Ref(ABI.gqsgd_comm(C_NULL))
    numbers = Int32[integer("members", Int32, member) for member in members]
    old = comm === nothing ? ABI.gqsgd_comm(C_NULL) : comm
    check(ABI.gqsgd_comm_reconfigure(old, unique_id, numbers, integer("rank", Int32, rank),
                                     Int32(length(numbers)), joined_fields("", options), handle))
    return followed(handle[])
end

function followed(handle)
    name = Ref{Cstring}(C_NULL)
    check(ABI.gqsgd_comm_transport(handle, name))
    return Comm(handle; shares_process = unsafe_string(name[]) == "threads")
end

"GQSGD_CALLS_*, from 0 on."
const CALLS = (:repeat, :finished, :repeat_finished, :differ)

"""
    shrink(comm; recv = nothing, options...) -> (; comm, members, calls)

A communicator of the ranks that are left, which agree without a coordinator on who goes on. Every
rank that lives calls it; the old `comm` is broken from then on, and still the caller's to close.
`members` has the old rank of each new one, from 0. `recv` is the output array of the first call
that failed here, of its length and type, so that it may get a result that others have. `calls`
says what this rank does about its calls: `:repeat` those that failed, `:finished` (the first of
them has its result in `recv`), `:repeat_finished` (the newest one that ended as well), or
`:differ` (some ranks have a result that the others cannot get).

As with [`reconfigure`](@ref), ranks that are tasks of one process need a thread of Julia's each.
Throws `:REVOKED` where the others go on without this rank, or may do so, and `:UNSUPPORTED` over
MPI, NCCL and custom transports.
"""
function shrink(comm::Comm; recv::Union{AbstractArray,Nothing} = nothing, options...)
    handle, calls = Ref(ABI.gqsgd_comm(C_NULL)), Ref{Int32}(-1)
    members = zeros(Int32, comm.size)
    place, count, number = recv === nothing ? (C_NULL, 0, Int32(0)) :
        (host_address_of("recv", recv), length(recv), dtype_number(eltype(recv)))
    GC.@preserve recv check(
        ABI.gqsgd_comm_shrink(comm, place, count, number, joined_fields("", options), handle,
                              members, calls))
    next = followed(handle[])
    return (; comm = next, members = Int.(members[1:next.size]), calls = CALLS[calls[] + 1])
end

"""
    revoke(comm) -> Vector{Int}

Breaks `comm` on all ranks, without waiting for any, and returns the ranks, from 0, that are known
to have died or to have closed theirs.
"""
function revoke(comm::Comm)
    dead, count = zeros(Int32, comm.size), Ref{Int32}(0)
    check(ABI.gqsgd_comm_revoke(comm, dead, count))
    return Int.(dead[1:count[]])
end
