# Quantizer: an immutable description of a number format and of how codes are combined.

"""
    Quantizer(spec = ""; fields...)

How values become codes: a preset, a specification, or fields by name.

    Quantizer()                        # the default preset, blocks-8
    Quantizer(seed = 7)                # the default, a field overridden
    Quantizer("paper-ge8", seed = 7)   # a preset, any field overridden
    Quantizer(levels = :linear, bits = 8, norm = (:inf, :inf), block = 128)

Fields that name `levels` and no preset change no preset: fields left out are plain (one norm,
independent rounding).

`string(q)` is the full specification, every field named, which makes an equal quantizer. Immutable;
any number of tasks and threads may use one at once; it may be sent to other processes. Throws
[`GQSGDError`](@ref): `:INVALID_ARGUMENT` with what is allowed.
"""
mutable struct Quantizer
    handle::ABI.gqsgd_quantizer
    spec::String  # the full one

    function Quantizer(spec::AbstractString = ""; fields...)
        handle = Ref(ABI.gqsgd_quantizer(C_NULL))
        check(ABI.gqsgd_quantizer_create(joined_fields(spec, fields), handle))
        return finalizer(destroy, new(handle[], described(handle[])))
    end
end

destroy(q::Quantizer) = ABI.gqsgd_quantizer_destroy(q.handle)

function described(handle::ABI.gqsgd_quantizer)
    size_bytes = Ref{Csize_t}(0)
    check(ABI.gqsgd_quantizer_describe(handle, C_NULL, 0, size_bytes))
    spec = Vector{UInt8}(undef, size_bytes[])
    check(ABI.gqsgd_quantizer_describe(handle, spec, length(spec), C_NULL))
    return String(spec[1:(end - 1)])  # without the final 0
end

# Passed to a call as it is, a quantizer lives until the call is over.
function Base.unsafe_convert(::Type{ABI.gqsgd_quantizer}, q::Quantizer)
    q.handle == C_NULL && revive(q)
    return q.handle
end

const REVIVING = ReentrantLock()

"Gives a constant of a precompiled package its handle: what is precompiled has neither pointers nor
finalizers."
function revive(q::Quantizer)
    lock(REVIVING) do
        q.handle == C_NULL || return
        handle = Ref(ABI.gqsgd_quantizer(C_NULL))
        check(ABI.gqsgd_quantizer_create(q.spec, handle))
        q.handle = handle[]
        finalizer(destroy, q)
    end
end

Base.string(q::Quantizer) = q.spec
Base.print(io::IO, q::Quantizer) = print(io, q.spec)
Base.show(io::IO, q::Quantizer) = print(io, "Quantizer(", repr(short_spec(q.spec)), ")")
Base.:(==)(a::Quantizer, b::Quantizer) = a.spec == b.spec
Base.hash(q::Quantizer, seed::UInt) = hash(q.spec, hash(:Quantizer, seed))
Base.deepcopy_internal(q::Quantizer, ::IdDict) = q

# Another process makes an equal one: handles are of this process alone.
function Serialization.serialize(stream::AbstractSerializer, q::Quantizer)
    Serialization.serialize_type(stream, Quantizer)
    serialize(stream, q.spec)
end
Serialization.deserialize(stream::AbstractSerializer, ::Type{Quantizer}) =
    Quantizer(deserialize(stream)::String)

"The presets; docs/PRESETS.md has what they are for."
const PRESETS = ("blocks-8", "rotated-8", "rotated-4-8", "rotated-4", "adaptive-6",
                 "adaptive-5", "adaptive-4", "adaptive-3", "rice-6", "rice-5", "rice-4", "rice-3",
                 "relative-8", "paper-gl8", "paper-ge8", "paper-gl4", "paper-ge4", "bf16", "fp16",
                 "none")

"Of the specifications preset,field=value,.. that mean the same as `spec`, which names every field,
the one with the fewest fields."
function short_spec(spec)
    shortest = nothing
    for preset in PRESETS
        own = split(meaning(preset), ',')
        parts = vcat(preset, filter(field -> !(field in own), split(spec, ',')))
        for field in parts[2:end]  # what follows from the others
            fewer = filter(!=(field), parts)
            meaning(join(fewer, ',')) == spec && (parts = fewer)
        end
        meaning(join(parts, ',')) == spec || continue
        (shortest === nothing || length(parts) < length(shortest)) && (shortest = parts)
    end
    return shortest === nothing ? spec : join(shortest, ',')
end

"The full specification; nothing where fields do not go together."
function meaning(spec)
    try
        return Quantizer(spec).spec
    catch failure
        failure isa GQSGDError && failure.status === :INVALID_ARGUMENT || rethrow()
    end
end

function size_by(f, q::Quantizer, value_count)
    answer = Ref{Csize_t}(0)
    check(f(q, integer("value_count", Csize_t, value_count), answer))
    return Int(answer[])
end

"""
    packed_size(q, value_count) -> Int

Size in bytes of `value_count` packed values: whole 32-bit words. With `rotate=hadamard` values are
filled up to a multiple of 128.
"""
packed_size(q::Quantizer, value_count::Integer) = size_by(ABI.gqsgd_packed_size, q, value_count)

"""
    result_size(q, value_count) -> Int

The same for what [`Stages.reduce_many`](@ref) returns, whose codes have `bits_down` bits.
"""
result_size(q::Quantizer, value_count::Integer) = size_by(ABI.gqsgd_result_size, q, value_count)

"""
    norm_count(q, value_count) -> Int

How many norms `value_count` values have: one for each block, or one.
"""
norm_count(q::Quantizer, value_count::Integer) = size_by(ABI.gqsgd_norm_count, q, value_count)
