# The collectives over a group, each blocking and as a request: allreduce of one array.

"""
    allreduce!([out,] x, comm, q; op = :mean, schedule = :auto, step = nothing, index = 0)

Averages (`op = :mean`) or adds (`:sum`) `x` over all ranks; every rank gets the same bits, in
`out`, or in `x` without one. Returns `out` or `x`. For several arrays use
[`allreduce_many!`](@ref) rather than one flat array, in which norms, blocks and rotations go across
their borders: arrays of small values take the error of large ones beside them.

- `x`, `out`: contiguous arrays of `Float32`, `Float16`, bfloat16 or `Float64` in host memory,
  over NCCL of the GPU, where the call is enqueued on the task's stream; of the same length and type
  on every rank.
- `q`: a [`Quantizer`](@ref). `schedule`: `:auto`, `:ring`, `:tree`, `:butterfly`, `:direct`,
  `:hierarchical`, `:native` or `:sparse`.
- `step`, `index`: place of this call in the random numbers, equal on all ranks; below 2^32 and
  2^16. Without a `step` the communicator's counter is used.

Every rank calls in the same order with the same arguments. Returns when the result is there:
ranks of one process wait as tasks, others inside the library, where Julia's garbage collector
need not wait for them. Throws [`GQSGDError`](@ref), which has the state that is left; an argument
refused on this rank is `:REMOTE_ERROR` on the others, so that no rank waits.
"""
allreduce!(out::AbstractArray, x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    run(comm, reduction(out, x, comm, q; options...))
allreduce!(x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    allreduce!(x, x, comm, q; options...)

"""
    allreduce(x, comm, q; options...)

[`allreduce!`](@ref) into a new array, which is returned; `x` stays as it is.
"""
allreduce(x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    run(comm, reduction(nothing, x, comm, q; options...))

"""
    allreduce_start!([out,] x, comm, q; options...) -> Request

Starts [`allreduce!`](@ref), with its arguments, and returns at once. Requests of a communicator
are executed in the order of their start, which is the same on every rank; blocking calls run after
them. Until it has ended `x` may not be written and the result not be looked at.
"""
allreduce_start!(out::AbstractArray, x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    start(comm, reduction(out, x, comm, q; options...))
allreduce_start!(x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    allreduce_start!(x, x, comm, q; options...)

function reduction(out, x, comm, q; op = :mean, schedule = :auto, step = nothing, index = 0)
    prepared(comm, q, step) do
        numbers = number_of("op", op, ABI.OPS), number_of("schedule", schedule, ABI.SCHEDULES)
        at, send = place(step, index), address_of("x", x)
        type = dtype_number(eltype(x))
        result = result_like(out, x, length(x))
        values = send, address_of("out", result), length(x), type
        Collective(ABI.gqsgd_allreduce, ABI.gqsgd_allreduce_start,
                   (q, values..., numbers..., at, stream_of(x, result)), (x, result), result)
    end
end

"`out` after a look at it, or a new array."
result_like(::Nothing, x, count) = count == length(x) ? similar(x) : similar(x, count)
function result_like(out::AbstractArray, x, count)
    eltype(out) == eltype(x) && length(out) == count && return out
    refuse("out has $(length(out)) values of $(eltype(out)); ",
           "$count of $(eltype(x)) are needed")
end

"""
Makes a collective. What is refused here is refused on all ranks: this one takes part in the call
with buffers that the library refuses too, so that the others get `:REMOTE_ERROR` instead of
waiting.
"""
function prepared(make, comm::Comm, q::Quantizer, step)
    try
        return make()
    catch
        at = step === nothing ? Ptr{UInt64}(C_NULL) : UInt64[0, 0]  # the counter advances as theirs
        nothing_at_all = (q, C_NULL, C_NULL, 1, 0, 0, 0, at, C_NULL)
        try
            run(comm, Collective(ABI.gqsgd_allreduce, ABI.gqsgd_allreduce_start, nothing_at_all,
                                 nothing, nothing))
        catch refusal
            refusal isa GQSGDError || rethrow()
        end
        rethrow()
    end
end
