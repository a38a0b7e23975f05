# The collectives over a group, each blocking and as a request: allreduce of one array.

"""
    allreduce!([out,] x, comm, q; op = :mean, schedule = :auto, step = nothing, index = 0)

Averages (`op = :mean`) or adds (`:sum`) `x` over all ranks; every rank gets the same bits, in
`out`, or in `x` without one. Returns `out` or `x`. For several arrays use
[`allreduce_many!`](@ref) rather than one flat array, in which norms, blocks and rotations go across
their borders: arrays of small values take the error of large ones beside them.

- `x`, `out`: the same array, or arrays that do not overlap; contiguous, of `Float32`, `Float16`,
  bfloat16 or `Float64`, in host memory, over NCCL of the GPU, where the call is enqueued on the
  task's stream; of the same length and type on every rank.
- `q`: a [`Quantizer`](@ref). `schedule`: `:auto`, `:ring`, `:tree`, `:butterfly`, `:direct`,
  `:hierarchical`, `:native` or `:sparse`.
- `step`, `index`: random key of this call, with seed and stream_id; equal on all ranks, below 2^32
  and 2^16. Two calls of one step need two indexes, else they draw the same numbers. Without a
  `step` the communicator's counter is used.

Every rank calls in the same order with the same arguments. Returns when the result is there:
ranks of one process wait as tasks, others inside the library, where Julia's garbage collector
need not wait for them. Throws [`GQSGDError`](@ref), whose status says what is left; an argument
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
    prepared(comm, step, x) do
        number, config = number_of("op", op, ABI.OPS), config_of(schedule, step, index)
        send, type = address_of("x", x), dtype_number(eltype(x))
        result = result_like(out, x, length(x))
        values = send, address_of("out", result), length(x), type
        Collective(ABI.gqsgd_allreduce, ABI.gqsgd_allreduce_start,
                   (q, values..., number, config, stream_of(x, result)), (x, result), result)
    end
end

"`out` after a look at it, or a new array."
result_like(::Nothing, x, count) = count == length(x) ? similar(x) : similar(x, count)
function result_like(out::AbstractArray, x, count)
    eltype(out) == eltype(x) && length(out) == count && return out
    refuse("out has $(length(out)) values of $(eltype(out)); ",
           "$count of $(eltype(x)) are needed")
end

"Makes a collective on `x`, or refuses it on all ranks."
function prepared(make, comm::Comm, step, x)
    try
        return make()
    catch failure
        refuse_call(comm, step, x, failure)
        rethrow()
    end
end

"""
Takes the place of a call that this rank has refused: the others get `:REMOTE_ERROR` at once instead
of waiting, and the counter advances as theirs. Fails only where the next call does.

Ranks of one process must not wait inside C for each other, as their tasks may share a thread; so
there it is a request without buffers, which the library refuses.
"""
function refuse_call(comm::Comm, step, x, failure)
    config = config_of(:auto, step === nothing ? nothing : 0, 0)
    reason = failure isa GQSGDError ? failure.code : ABI.STATUSES.INVALID_ARGUMENT
    try
        if comm.shares_process
            nothing_at_all = (Quantizer(), C_NULL, C_NULL, 1, 0, 0, config, C_NULL)
            run(comm, Collective(ABI.gqsgd_allreduce, ABI.gqsgd_allreduce_start, nothing_at_all,
                                 nothing, nothing))
        else
            check(ABI.gqsgd_comm_refuse(comm, reason, config, stream_of_refusal(x)))
        end
    catch refusal
        refusal isa GQSGDError || rethrow()
    end
end

"The stream of a call whose arguments are refused, as far as they have one."
function stream_of_refusal(x)
    try
        array = x isa AbstractArray{<:Number} ? x : first(x)
        return memory(array) === :device ? device_stream(array) : C_NULL
    catch
        return C_NULL
    end
end
