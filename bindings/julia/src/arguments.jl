# Julia arguments as strings and numbers of the ABI. Only what cannot be handed on is refused here.

"The string `first,name=value,..`: a pair, tuple or vector becomes a:b."
function fields_text(first::AbstractString, fields)
    parts = isempty(first) ? String[] : [String(first)]
    append!(parts, "$name=$(value_text(value))" for (name, value) in pairs(fields))
    text = join(parts, ',')
    '\0' in text && refuse("the text $(repr(text)) holds a NUL character")
    return text
end

value_text(value) = string(value)
value_text(values::Union{Tuple,Pair}) = join(map(value_text, Tuple(values)), ':')
value_text(values::AbstractVector) = join(map(value_text, values), ':')

"`value` in a C integer type that holds it unchanged."
function integer(name, ::Type{T}, value::Integer) where {T}
    typemin(T) <= value <= typemax(T) && return T(value)
    refuse("$name is $value, which does not fit $(8 * sizeof(T)) bits ",
           "(from $(typemin(T)) to $(typemax(T)))")
end
integer(name, ::Type{T}, value) where {T} =
    refuse("$name is $(repr(value)), a $(typeof(value)); an integer is needed")

"The ABI's number for one of the names of an enumeration."
function number_of(field, name, numbers::NamedTuple)
    name isa Symbol && haskey(numbers, name) && return Int32(numbers[name])
    refuse("$field is $(repr(name)); accepted are $(join(map(repr, keys(numbers)), ", "))")
end

"{step, index} of a call; NULL, which takes the communicator's counter, without a step."
function place(step, index)
    step === nothing ||
        return UInt64[integer("step", UInt64, step), integer("index", UInt64, index)]
    index == 0 || refuse("index is $index without a step; give both, or neither")
    return Ptr{UInt64}(C_NULL)
end
