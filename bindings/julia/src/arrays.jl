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

Where the values of `x` lie. `:host` is what this version of the library works on: an `Array`, and
views, reshapes and reinterpretations of one. Anything else is refused by the name returned here,
which is that of its innermost type: `:CuArray` for an array of a GPU.

An extension point: a package whose arrays lie in host memory, and that defines `pointer` and
`strides` for them, adds `GQSGD.memory(::ItsArray) = :host`.
"""
memory(::Array) = :host
function memory(x::AbstractArray)
    inner = parent(x)
    return inner === x ? nameof(typeof(x)) : memory(inner)
end

"The address of the values of `x`, which the caller keeps alive; refuses what cannot be used."
function address_of(role, x::AbstractArray)
    place = memory(x)
    place === :host || throw(GQSGDError(:UNSUPPORTED,
        "$role is a $place: this version of the library works on host memory alone; " *
        "copy the values with Array($role)"))
    is_contiguous(x) || refuse("$role is a $(typeof(x)) whose values do not lie side by side; ",
                               "copy them with collect($role)")
    return Ptr{Cvoid}(pointer(x))
end

is_contiguous(::Array) = true
function is_contiguous(x::AbstractArray)
    x isa StridedArray || return false
    expected = 1
    for (count, stride) in zip(size(x), strides(x))
        count == 1 || stride == expected || return false
        expected *= count
    end
    return true
end
