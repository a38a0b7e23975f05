# Julia arguments as strings and numbers of the ABI. Only what cannot be handed on is refused here.

"The string `first,name=value,..`: a pair, tuple or vector becomes a:b; `nothing` is left out."
function joined_fields(first::AbstractString, fields)
    parts = isempty(first) ? String[] : [String(first)]
    append!(parts, "$name=$(value_string(value))" for (name, value) in pairs(fields)
            if value !== nothing)
    joined = join(parts, ',')
    '\0' in joined && refuse("the string $(repr(joined)) holds a NUL character")
    return joined
end

value_string(value) = string(value)
value_string(values::Union{Tuple,Pair}) = join(map(value_string, Tuple(values)), ':')
value_string(values::AbstractVector) = join(map(value_string, values), ':')

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

"The rarely used arguments of a call. Without a step it takes the communicator's counter."
function config_of(schedule, step, index)
    number = number_of("schedule", schedule, ABI.SCHEDULES)
    step === nothing || return Ref(ABI.Config(
        schedule = number, step_source = ABI.STEP_SOURCES.given,
        step = integer("step", UInt64, step), index = integer("index", UInt64, index)))
    index == 0 || refuse("index is $index without a step; give both, or neither")
    return Ref(ABI.Config(schedule = number))
end
