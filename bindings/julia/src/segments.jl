# Collectives on several arrays, or on slices of ranks.

"Arrays of one call. `[a, b]` makes copies of one type where `a` and `b` have two; `(a, b)` none."
const Arrays = Union{AbstractVector, Tuple}

"""
    allreduce_many!([outs,] xs, comm, q; options...)

[`allreduce!`](@ref) of a vector or tuple of arrays of one element type as one operation, without a
flat copy; each array has norms of its own. The same lengths on every rank; an array may be its own
result. `schedule` may not be `:sparse`. Returns `outs` or `xs`.
"""
allreduce_many!(outs::Arrays, xs::Arrays, comm::Comm, q::Quantizer; options...) =
    run(comm, reduction_of_many(outs, xs, comm, q; options...))
allreduce_many!(xs::Arrays, comm::Comm, q::Quantizer; options...) =
    allreduce_many!(xs, xs, comm, q; options...)

"""
    allreduce_many_start!([outs,] xs, comm, q; options...) -> Request

Starts [`allreduce_many!`](@ref).
"""
allreduce_many_start!(outs::Arrays, xs::Arrays, comm::Comm, q::Quantizer; options...) =
    start(comm, reduction_of_many(outs, xs, comm, q; options...))
allreduce_many_start!(xs::Arrays, comm::Comm, q::Quantizer; options...) =
    allreduce_many_start!(xs, xs, comm, q; options...)

"""
    reduce_scatter(x, comm, q; counts = nothing, op = :mean, step = nothing, index = 0) -> Vector
    reduce_scatter!(out, x, comm, q; ...)

Averages or adds `x` over all ranks and gives this rank its slice of it, a vector.

`counts` has the values of each rank's slice, in rank order, equal on all ranks; by default as
equal as can be, the first ones longer. `out` may be a view of the slice's place in `x`. Values
are rounded once: `bits_down`, `rescale` and `rounding_down` have no effect.
"""
reduce_scatter(x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    run(comm, scattering(nothing, x, comm, q; options...))

"See [`reduce_scatter`](@ref)."
reduce_scatter!(out::AbstractArray, x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    run(comm, scattering(out, x, comm, q; options...))

"""
    reduce_scatter_start!(out, x, comm, q; options...) -> Request

Starts [`reduce_scatter!`](@ref).
"""
reduce_scatter_start!(out::AbstractArray, x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    start(comm, scattering(out, x, comm, q; options...))

"""
    allgather(x, comm, q; counts = nothing, step = nothing, index = 0) -> Vector
    allgather!(out, x, comm, q; ...)

The slices of all ranks, one after the other; every rank gets the same bits, its own slice rounded
as well.

`x` is this rank's slice. `counts` has the values of each rank's slice, equal on all ranks; by
default all are as long as this one. `x` may be a view of its own place in `out`.
"""
allgather(x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    run(comm, gathering(nothing, x, comm, q; options...))

"See [`allgather`](@ref)."
allgather!(out::AbstractArray, x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    run(comm, gathering(out, x, comm, q; options...))

"""
    allgather_start!(out, x, comm, q; options...) -> Request

Starts [`allgather!`](@ref).
"""
allgather_start!(out::AbstractArray, x::AbstractArray, comm::Comm, q::Quantizer; options...) =
    start(comm, gathering(out, x, comm, q; options...))

function reduction_of_many(outs, xs, comm, q; op = :mean, schedule = :auto, step = nothing,
                           index = 0)
    prepared(comm, step, xs) do
        number, config = number_of("op", op, ABI.OPS), config_of(schedule, step, index)
        kept, kept_outs = collect(xs), collect(outs)  # a lazy list makes new arrays at each look
        for (name, list) in (("xs", kept), ("outs", kept_outs)), each in list
            each isa AbstractArray ||
                refuse("$name has a $(typeof(each)), and no array; of one array use allreduce!")
        end
        length(outs) == length(xs) || refuse("outs has $(length(outs)) arrays for $(length(xs))")
        types = unique(map(eltype, kept))
        length(types) <= 1 || refuse("xs hold $(join(types, " and ")); make one call for each type")
        send = Ptr{Cvoid}[address_of("xs[$k]", x) for (k, x) in pairs(kept)]
        recv = Ptr{Cvoid}[address_of("outs[$k]", result_like(out, x, length(x)))
                          for (k, out, x) in zip(eachindex(kept), kept_outs, kept)]
        type = isempty(types) ? dtype_number(Float32) : dtype_number(only(types))
        arguments = (q, send, recv, Csize_t[length(x) for x in kept], length(kept), type)
        Collective(ABI.gqsgd_allreduce_many, ABI.gqsgd_allreduce_many_start,
                   (arguments..., number, config, stream_of(kept..., kept_outs...)),
                   (kept, kept_outs), outs)
    end
end

function scattering(out, x, comm, q; counts = nothing, op = :mean, step = nothing, index = 0)
    prepared(comm, step, x) do
        number, config = number_of("op", op, ABI.OPS), config_of(:auto, step, index)
        send = address_of("x", x)
        share, longer = divrem(length(x), comm.size)
        sizes = slice_sizes(comm, something(counts, [share + (r <= longer) for r in 1:comm.size]))
        sum(sizes) == length(x) ||
            refuse("counts add up to $(sum(sizes)), x has $(length(x)) values")
        type = dtype_number(eltype(x))
        result = slice_like(out, x, Int(sizes[comm.rank + 1]))
        recv, stream = address_of("out", result), stream_of(x, result)
        arguments = (q, send, recv, sizes, type, number, config, stream)
        Collective(ABI.gqsgd_reduce_scatter, ABI.gqsgd_reduce_scatter_start, arguments,
                   (x, result, sizes), result)
    end
end

function gathering(out, x, comm, q; counts = nothing, step = nothing, index = 0)
    prepared(comm, step, x) do
        config, send = config_of(:auto, step, index), address_of("x", x)
        sizes = slice_sizes(comm, something(counts, fill(length(x), comm.size)))
        own = sizes[comm.rank + 1]
        own == length(x) ||
            refuse("counts has $own values for rank $(comm.rank), whose x has $(length(x))")
        type = dtype_number(eltype(x))
        result = slice_like(out, x, Int(sum(sizes)))
        recv, stream = address_of("out", result), stream_of(x, result)
        arguments = (q, send, recv, sizes, type, config, stream)
        Collective(ABI.gqsgd_allgather, ABI.gqsgd_allgather_start, arguments,
                   (x, result, sizes), result)
    end
end

slice_like(::Nothing, x, count) = similar(x, count)
slice_like(out, x, count) = result_like(out, x, count)

function slice_sizes(comm, counts)
    length(counts) == comm.size ||
        refuse("counts has $(length(counts)) numbers for $(comm.size) ranks")
    return Csize_t[integer("counts", Csize_t, count) for count in counts]
end
