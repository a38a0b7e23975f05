# Comm: one rank's end of a group of ranks, from its creation to its end.

"""
    Comm

One rank of a group, made by [`local_comms`](@ref), [`process_comm`](@ref),
[`network_comm`](@ref), [`env_comm`](@ref), [`mpi_comm`](@ref) or [`nccl_comm`](@ref), or
`Comm(comm::MPI.Comm; options...)` with MPI.jl loaded and Julia 1.9.
`comm.rank` counts from 0, as in MPI; `comm.size` is the number of ranks. Used by one thread at a
time.

Options of all, by keyword (the library checks them):

- `timeout_ms = 300000`: time without progress after which a call gives up; -1 for ever
- `stream_id = 0`: enters the random key: groups that reduce results of others need other ones, or
  means are biased; equal on all ranks, as all but `timeout_ms`, `threads` and `nontemporal_bytes`
- `chunk_value_count = 65536`: values per message (57344 where messages leave the machine's memory,
  28672 with more than 4 ranks, 14336 with more than 8, a quarter as many floats); changes speed,
  never a bit of the result
- `threads = 1`: that compute for a rank, the caller's among them: as many as it has processors to
  itself; changes no bit, and ranks may differ
- `costs = file`: constants by which `schedule = :auto` chooses, equal on all ranks; `:measure`:
  ranks time links and stages, at most 200 ms ([`GQSGD.costs`](@ref) has the result)
- `uncompressed = :auto`: with `costs`, `:auto` sends float32 or bf16 where faster; or `:never`
- `checksum = :crc32c`: of messages, the default where they travel; else `:off`. What was changed on
  its way is then an `:INTEGRITY` error; equal on all ranks

`close(comm)` frees it, and so does the garbage collector.
"""
mutable struct Comm
    handle::ABI.gqsgd_comm
    rank::Int
    size::Int
    transport::String
    shares_process::Bool    # with its peers, whose tasks may be behind this one on its thread
    requests::Vector{Any}   # in flight; they hold the arrays that the library works on
    lock::ReentrantLock     # of `requests`

    function Comm(handle::ABI.gqsgd_comm; shares_process::Bool)
        rank, size = Ref{Int32}(0), Ref{Int32}(0)
        check(ABI.gqsgd_comm_rank(handle, rank))
        check(ABI.gqsgd_comm_size(handle, size))
        name = Ref{Cstring}(C_NULL)
        check(ABI.gqsgd_comm_transport(handle, name))
        transport = unsafe_string(name[])
        comm = new(handle, rank[], size[], transport, shares_process, [], ReentrantLock())
        return finalizer(end_of_comm, comm)
    end
end

# Passed to a call as it is, a communicator lives until the call is over.
Base.unsafe_convert(::Type{ABI.gqsgd_comm}, comm::Comm) = comm.handle

"Waits for no other rank and switches to no other task, as a finalizer must not."
function end_of_comm(comm::Comm)
    handle, comm.handle = comm.handle, ABI.gqsgd_comm(C_NULL)
    status = ABI.gqsgd_comm_destroy(handle)
    foreach(note_end, comm.requests)  # all have ended now
    empty!(comm.requests)
    return status
end

"""
    local_comms(n; options...) -> Vector{Comm}

`n` ranks of one group inside this process, in rank order, each for a task of its own;
[`run_local`](@ref) does that.
"""
function local_comms(n::Integer; options...)
    rank_count = integer("n", Int32, n)
    handles = Vector{ABI.gqsgd_comm}(undef, max(rank_count, 1))
    check(ABI.gqsgd_comm_create_local(rank_count, joined_fields("", options), handles))
    return [Comm(handle; shares_process = true) for handle in handles]
end

"""
    unique_id() -> Vector{UInt8}

A fresh name and secret for a group of processes that is about to form. One process makes it and
passes it to all. Keep it from other users: any process that holds it may join.
"""
function unique_id()
    bytes = zeros(UInt8, ABI.UNIQUE_ID_SIZE_BYTES)
    check(ABI.gqsgd_unique_id_create(bytes))
    return bytes
end

"""
    process_comm(unique_id, rank, size; options...) -> Comm

Joins a group of `size` processes of one user on one machine as rank `rank`, from 0. `unique_id`
is what [`unique_id`](@ref) made in one of the processes. Returns when all ranks are there. Throws
[`GQSGDError`](@ref): `:TIMEOUT` names the missing ranks; `:MISMATCH` where sizes differ,
`:DUPLICATE_RANK`, `:PEER_LOST` or `:VERSION`. Nothing is left behind then.
"""
process_comm(unique_id::Vector{UInt8}, rank::Integer, size::Integer; options...) =
    join_group(ABI.gqsgd_comm_create_process, "what unique_id() returned", unique_id, rank, size,
               options)

"Joins a group by its id; `origin` is what such an id is."
function join_group(create, origin, unique_id, rank, size, options)
    require_id(origin, unique_id)
    return created() do handle
        create(unique_id, integer("rank", Int32, rank), integer("size", Int32, size),
               joined_fields("", options), handle)
    end
end

require_id(origin, unique_id) = length(unique_id) == ABI.UNIQUE_ID_SIZE_BYTES ||
    refuse("unique_id has $(length(unique_id)) bytes, not $(ABI.UNIQUE_ID_SIZE_BYTES); ",
           "pass on $origin")

"The communicator whose handle `create` writes to where it is told."
function created(create)
    handle = Ref(ABI.gqsgd_comm(C_NULL))
    check(create(handle))
    return Comm(handle[]; shares_process = false)
end

"""
    mpi_comm(fortran_handle = nothing; options...) -> Comm

Joins the ranks of an MPI communicator, which all call it; `nothing` is `MPI_COMM_WORLD`. With
MPI.jl and Julia 1.9 or later `Comm(comm::MPI.Comm; options...)` does so; before

    mpi_comm(MPI.API.MPI_Comm_c2f(comm))

Needs libgqsgd_mpi, built with the MPI that the program uses. The communicator is duplicated;
close this one before `MPI.Finalize()`. Throws [`GQSGDError`](@ref): `:UNSUPPORTED` if MPI is not
initialised or does not allow calls from this thread, `:TIMEOUT` if a rank does not call.
"""
function mpi_comm(fortran_handle::Union{Integer,Nothing} = nothing; options...)
    joined = joined_fields("", options)
    fortran_handle === nothing &&
        return created(handle -> ABI.gqsgd_comm_create_mpi_world(joined, handle))
    number = integer("fortran_handle", Int32, fortran_handle)
    return created(handle -> ABI.gqsgd_comm_create_mpi_f(number, joined, handle))
end

"""
    close(comm::Comm)

Frees this rank's end without waiting for another rank; closing twice is harmless. A call under
way in another task throws `:ABORTED`, and so do requests in flight; every later call throws
`:BAD_HANDLE`.
"""
Base.close(comm::Comm) = lock(() -> check(end_of_comm(comm)), comm.lock)
Base.isopen(comm::Comm) = comm.handle != C_NULL

Base.show(io::IO, comm::Comm) =
    print(io, "Comm(rank ", comm.rank, " of ", comm.size, ", ",
          isopen(comm) ? comm.transport : "closed", ")")

Serialization.serialize(::AbstractSerializer, ::Comm) =
    refuse("a Comm belongs to its process and cannot be sent to another one")
Base.deepcopy_internal(::Comm, ::IdDict) = refuse("a Comm cannot be copied")

"""
    transport(comm) -> String

What moves bytes between the ranks: `"threads"` (of this process), `"processes"`, `"network"`,
`"mpi"` or `"nccl"`.
"""
transport(comm::Comm) = comm.transport

"""
    abort(comm)

Breaks the communicator, from any thread at any moment and without waiting: a call under way here
throws `:ABORTED`, and so do the peers' calls, naming this rank.
"""
function abort(comm::Comm)
    check(ABI.gqsgd_comm_abort(comm))
    ABI.gqsgd_comm_status(comm)  # over NCCL the look that acts on it
    return nothing
end

"""
    check(comm)

Throws the first failure that broke this communicator; returns `nothing` while it is usable.
"""
check(comm::Comm) = check(ABI.gqsgd_comm_status(comm))

function get_from(f, ::Type{T}, comm::Comm, arguments...) where {T}
    answer = Ref{T}(0)
    check(f(comm, arguments..., answer))
    return Int(answer[])
end

"""
    timeout_ms(comm) -> Int
    timeout_ms!(comm, milliseconds)

Time without progress after which a call gives up. Setting 0 restores the default (300,000), -1
waits for ever.
"""
timeout_ms(comm::Comm) = get_from(ABI.gqsgd_comm_timeout, Int64, comm)

"See [`GQSGD.timeout_ms`](@ref)."
timeout_ms!(comm::Comm, milliseconds::Integer) =
    check(ABI.gqsgd_comm_set_timeout(comm, integer("timeout_ms", Int64, milliseconds)))

"""
    counter(comm) -> Int
    counter!(comm, step)

The step that the next call without a `step` will use; each such call adds one. Save it with a
checkpoint and set it again, equal on all ranks, to resume bit for bit.
"""
counter(comm::Comm) = get_from(ABI.gqsgd_comm_counter, UInt64, comm)

"See [`GQSGD.counter`](@ref)."
counter!(comm::Comm, step::Integer) =
    check(ABI.gqsgd_comm_set_counter(comm, integer("step", UInt64, step)))

"""
    costs(comm) -> String

The constants by which `schedule = :auto` chooses, as the option `costs` takes them: a group that
gets this string makes the same choices, bit for bit. Empty where there are none: without the
option, and with `costs = :measure` before the first call that needs them (`process_comm`,
`network_comm` and `env_comm` measure at once).
"""
function costs(comm::Comm)
    size_bytes = Ref{Csize_t}(0)
    check(ABI.gqsgd_comm_costs(comm, C_NULL, 0, size_bytes))
    found = Vector{UInt8}(undef, size_bytes[])
    check(ABI.gqsgd_comm_costs(comm, found, length(found), C_NULL))
    return String(found[1:(end - 1)])  # without the final 0
end

"""
    stats(comm) -> NamedTuple

This rank's counters since it was made, running totals: `calls`, `messages_sent`,
`header_bytes_sent` (control messages), `payload_bytes_sent` (codes and what travels with them),
`uncompressed_bytes_sent` (the payload as float32), `payload_bytes_copied` (0 where codes of peers
are read in place), `wait_ns` (nanoseconds that calls waited for other ranks), `workspace_bytes`,
`nonfinite_blocks` and `native_float_calls` (whose floats the transport added, in its own order).

And `ratio`, `uncompressed_bytes_sent / payload_bytes_sent`: how many times smaller than float32 the
payload was. `NaN` where nothing was sent: a group of one rank sends nothing.

From any task at any moment until `close`, also during calls; complete once a call has returned.
"""
function stats(comm::Comm)
    counters = NamedTuple{ABI.STATS}(
        map(name -> get_from(ABI.gqsgd_comm_stat, UInt64, comm, string(name)), ABI.STATS))
    return merge(counters,
                 (ratio = counters.uncompressed_bytes_sent / counters.payload_bytes_sent,))
end

"""
    reserve(comm, q, value_count, T = Float32)

Makes workspace so that later calls of `value_count` values allocate nothing in the library, and
calls of fewer values little. Concerns this rank only. Waits for the end of requests in flight.
"""
function reserve(comm::Comm, q::Quantizer, value_count::Integer, ::Type{T} = Float32) where {T}
    # Inside the library this would stop tasks of this thread, which may be the other ranks.
    comm.shares_process && foreach(await_end, lock(() -> copy(comm.requests), comm.lock))
    return check(ABI.gqsgd_comm_reserve(comm, q, integer("value_count", Csize_t, value_count),
                                        dtype_number(T)))
end
