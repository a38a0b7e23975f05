# What is known before a group exists: bounds, times to expect, and whole calls with virtual ranks;
# and how the ranks of a group compare with those.

"""
    simulate(xs, q; op = :mean, schedule = :auto, step = 0, index = 0, options...)

The result that every rank gets when rank i gives the array `xs[i + 1]`, bit for bit that of real
ranks, by the same executor on the calling thread. Options are those of [`Comm`](@ref). A new
array.
"""
function simulate(xs::AbstractVector{<:AbstractArray}, q::Quantizer; op::Symbol = :mean,
                  schedule::Symbol = :auto, step = 0, index = 0, options...)
    xs = collect(xs)
    send = operands(xs)
    result = similar(first(xs))
    recv = fill(C_NULL, length(xs))
    recv[1] = host_address_of("result", result)
    GC.@preserve xs result check(ABI.gqsgd_simulate(
        q, length(xs), send, recv, length(result), dtype_number(eltype(result)),
        number_of("op", op, ABI.OPS), config_of(schedule, step, index),
        joined_fields("", options)))
    return result
end

"""
    expected_error(xs, q; schedule = :auto, step = 0, index = 0, draws = 8, options...) -> Float64

`||G - mean||^2 / ||mean||^2`, averaged over `draws` draws of the random numbers, of an allreduce
with `op = :mean` in which rank i gives `xs[i + 1]`. Options are those of [`Comm`](@ref): `nodes` is
which ranks share a node, without which `:hierarchical` is `:direct`.
"""
function expected_error(xs::AbstractVector{<:AbstractArray}, q::Quantizer;
                        schedule::Symbol = :auto, step = 0, index = 0, draws::Integer = 8,
                        options...)
    xs = collect(xs)
    send, answer = operands(xs), Ref{Cdouble}(0)
    GC.@preserve xs check(ABI.gqsgd_expected_error(
        q, length(xs), send, length(first(xs)), dtype_number(eltype(first(xs))),
        config_of(schedule, step, index),
        integer("draws", Int32, draws), joined_fields("", options), answer))
    return answer[]
end

"One address per rank; all of one length and type. The caller keeps the arrays of the vector alive:
collected, as a lazy one makes new ones at each look."
function operands(xs)
    isempty(xs) && refuse("xs is empty; give one array per rank")
    for (k, x) in pairs(xs)
        (eltype(x), length(x)) == (eltype(first(xs)), length(first(xs))) ||
            refuse("xs[$k] has $(length(x)) values of $(eltype(x)), xs[1] has ",
                   "$(length(first(xs))) of $(eltype(first(xs)))")
    end
    return Ptr{Cvoid}[host_address_of("xs[$k]", x) for (k, x) in pairs(xs)]
end

"""
    measured_error(x, comm, q; schedule = :auto, step = nothing, index = 0) -> Float64

`||G - mean||^2 / ||mean||^2` of an [`allreduce`](@ref) of `x` with `op = :mean`, measured here and
now against an uncompressed one; the same number on every rank. A collective of two allreduces of
values in host memory. Without a `step` it uses that of the next call and leaves the counter alone:
the error is that of the next allreduce of `x`.

Ranks that are tasks of one process cannot wait for each other in here: `:UNSUPPORTED`. There
[`expected_error`](@ref) of all their arrays, with `draws = 1` and the step, is the same number.
"""
function measured_error(x::AbstractArray, comm::Comm, q::Quantizer; schedule = :auto,
                        step = nothing, index = 0)
    refuse_tasks(comm, "measured_error",
                 "use expected_error([x0, x1, ..], q; step = GQSGD.counter(comm), draws = 1)")
    answer = Ref{Cdouble}(0)
    config, send, type = try
        config_of(schedule, step, index), host_address_of("x", x), dtype_number(eltype(x))
    catch failure
        refuse_call(comm, 0, nothing, failure)  # no step of the counter is used
        rethrow()
    end
    GC.@preserve x check(ABI.gqsgd_measured_error(comm, q, send, length(x), type, config,
                                                  answer))
    return answer[]
end

"A function that waits inside the library would stop the tasks that it waits for."
function refuse_tasks(comm::Comm, name, hint)
    comm.shares_process && throw(GQSGDError(:UNSUPPORTED,
        "$name waits for the other ranks, which are tasks of this process; $hint"))
end

"""
    GQSGD.verify(comm; flipped_rank = -1) -> Int

Makes every call that presets, schedules and types of values allow (240, in about a second), and
compares the results with those of virtual ranks and with digests of the reference, which are part
of the library. How many results were compared. Every rank calls it with the same arguments; the
counter stays as it is.

Where a result differs it throws `:INTEGRITY` on all ranks, with a sentence that names the ranks,
the first such call and both digests; `comm` stays usable then. Of rank `flipped_rank` one bit is
changed before it compares, so that tests see that this is found. `:UNSUPPORTED` over NCCL, which
has no host memory, and where ranks are tasks of one process: `gqsgd-verify` compares such ranks.
"""
function verify(comm::Comm; flipped_rank::Integer = -1)
    refuse_tasks(comm, "verify", "gqsgd-verify compares ranks of one process")
    compared = Ref{Int32}(0)
    check(ABI.gqsgd_comm_verify(comm, integer("flipped_rank", Int32, flipped_rank), compared,
                                C_NULL))
    return Int(compared[])
end

"""
    variance_bound(q, n, d; schedule = :auto) -> Float64

theta of `E ||G(x) - mean||^2 <= theta / n * sum_i ||x_i||^2` for `n` ranks of `d` values: the
paper's theorem on variance, carried on to every format that has a bound. Infinite where a chain
is too long to promise anything; throws `:UNSUPPORTED` where no bound is known (`rounding=nearest`
is biased). Values so small that a step is denormal (below 2^-126) may exceed it.
"""
variance_bound(q::Quantizer, n::Integer, d::Integer; schedule::Symbol = :auto) =
    bound(ABI.gqsgd_variance_bound, q, integer("n", Int32, n), integer("d", Csize_t, d),
          number_of("schedule", schedule, ABI.SCHEDULES))

"""
    sparsity_bound(q, n, d; schedule = :auto) -> Float64

How many codes other than zero `n` ranks of `d` values are expected to have, at most, all together.
Throws `:UNSUPPORTED` for norms other than 1 and 2.
"""
sparsity_bound(q::Quantizer, n::Integer, d::Integer; schedule::Symbol = :auto) =
    bound(ABI.gqsgd_sparsity_bound, q, integer("n", Int32, n), integer("d", Csize_t, d),
          number_of("schedule", schedule, ABI.SCHEDULES))

"""
    depth_factor(q, n; schedule = :auto) -> Float64

`(9/8)^depth` for exponential levels, by which 1 + theta grows through a schedule's reductions; 1
for linear levels.
"""
depth_factor(q::Quantizer, n::Integer; schedule::Symbol = :auto) =
    bound(ABI.gqsgd_depth_factor, q, integer("n", Int32, n),
          number_of("schedule", schedule, ABI.SCHEDULES))

"""
    predict_time(q, n, d, T = Float32; schedule = :auto, constants = nothing) -> Float64

Seconds that an allreduce of `d` values of type `T` over `n` ranks is expected to take.
`constants` is the string that `gqsgd-calibrate` writes; without it there are built-in values: ranks
with processors of their own at 10 Gbit/s.
"""
predict_time(q::Quantizer, n::Integer, d::Integer, ::Type{T} = Float32; schedule::Symbol = :auto,
             constants::Union{AbstractString,Nothing} = nothing) where {T} =
    1e-9 * bound(ABI.gqsgd_predict_time, q, number_of("schedule", schedule, ABI.SCHEDULES),
                 integer("n", Int32, n), integer("d", Csize_t, d), dtype_number(T),
                 constants === nothing ? Cstring(C_NULL) : constants)

function bound(f, arguments...)
    answer = Ref{Cdouble}(0)
    check(f(arguments..., answer))
    return answer[]
end
