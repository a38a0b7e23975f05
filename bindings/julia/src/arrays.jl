# Julia arrays as the library sees them: an address, a count and a number for the type of values.

"""
    GQSGD.dtype(::Type{T}) -> Symbol

The library's name for values of type `T`: `:float32`, `:float16`, `:bfloat16` or `:float64`.

An extension point: a package that brings bfloat16 as a 2-byte type of its own adds

    GQSGD.dtype(::Type{BFloat16}) = :bfloat16
"""
dtype(::Type{Float32}) = :float32
dtype(::Type{Float16}) = :float16
dtype(::Type{Float64}) = :float64
if isdefined(Core, :BFloat16)  # Julia 1.11
    dtype(::Type{Core.BFloat16}) = :bfloat16
end
dtype(::Type{T}) where {T} =
    refuse("values are $T; accepted are Float32, Float16, Float64, and bfloat16 (see GQSGD.dtype)")

dtype_number(::Type{T}) where {T} = Int32(ABI.DTYPES[dtype(T)])

"""
    GQSGD.memory(x::AbstractArray) -> Symbol

Where the values of `x` lie: `:host` for an `Array`, and views, reshapes and reinterpretations of
one; `:device` for a `CuArray` where CUDA.jl is loaded. Anything else is refused by the name
returned here, which is that of its innermost type.

An extension point: a package whose arrays lie in host memory, and that defines `pointer` and
`strides` for them, adds `GQSGD.memory(::ItsArray) = :host`. One whose arrays lie in a GPU's adds
`GQSGD.memory(::ItsArray) = :device`, `GQSGD.device_address` and `GQSGD.device_stream`.
"""
memory(::Array) = :host
function memory(x::AbstractArray)
    inner = parent(x)
    return inner === x ? nameof(typeof(x)) : memory(inner)
end

"""
    GQSGD.device_address(x) -> Ptr{Cvoid}
    GQSGD.device_stream(x) -> Ptr{Cvoid}

Of an array in a GPU's memory: the address of its values, and the stream (a `cudaStream_t`) that the
task works on now. Extension points, as [`GQSGD.memory`](@ref) says.
"""
device_address(x::AbstractArray) = refuse("a $(typeof(x)) of a GPU has no address of its own")

"See [`GQSGD.device_address`](@ref)."
function device_stream end

"The address of the values of `x`, which the caller keeps alive; refuses what cannot be used."
function address_of(role, x::AbstractArray)
    place = memory(x)
    place in (:host, :device) || throw(GQSGDError(:UNSUPPORTED,
        "$role is a $place, of whose memory this package knows nothing (that of GPUs takes " *
        "CUDA.jl and Julia 1.9); copy the values with Array($role)"))
    is_contiguous(x) || refuse("$role is a $(typeof(x)) whose values do not lie side by side; ",
                               "copy them with collect($role)")
    return place === :host ? Ptr{Cvoid}(pointer(x)) : device_address(x)
end

"The address of values that have to lie on the host."
function host_address_of(role, x::AbstractArray)
    address = address_of(role, x)
    memory(x) === :host || refuse("$role is a $(typeof(x)) of a GPU, this works on host memory; ",
                                  "copy the values with Array($role)")
    return address
end

"The stream of a call on these arrays, which lie in one place: NULL in host memory."
function stream_of(xs...)
    places = unique(map(memory, xs))
    length(places) <= 1 || refuse("some arrays of the call lie in :$(places[1]) memory, others in ",
                                  ":$(places[2]) memory")
    return :device in places ? device_stream(first(xs)) : C_NULL
end

is_contiguous(::Array) = true
function is_contiguous(x::AbstractArray)
    x isa StridedArray || return false
    isempty(x) && return true
    expected = 1
    for (count, stride) in zip(size(x), strides(x))
        count == 1 || stride == expected || return false
        expected *= count
    end
    return true
end
