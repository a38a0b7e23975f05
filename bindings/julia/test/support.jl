# What several tests use: inputs, test vectors, and the programs that are started.

const TESTS = @__DIR__
const PACKAGE = dirname(TESTS)
const ROOT = dirname(dirname(PACKAGE))

"The deterministic float32 inputs of tests/vectors: exact, of eight magnitudes."
function generated_values(salt, rank, count)
    return map(0:(count - 1)) do e
        m = e % UInt32 * 0x9e3779b1 + rank % UInt32 * 0x85ebca77 + salt % UInt32 * 0xc2b2ae3d
        m = xor(m, m >> 15) * 0x85ebca77
        m = xor(m, m >> 13)
        ldexp(Float32((m % Int32) >> 8), -23 - 4 * (e % 8))
    end
end

"The values in blocks of 128 with norms of `spread` powers of two."
spread_blocks(values, spread) =
    [ldexp(value, -(7 * div(e - 1, 128) % spread)) for (e, value) in enumerate(values)]

"Inputs of a record: generated, and spread where it says so."
function inputs_of(answer, rank, count)
    values = generated_values(integer(answer, "salt"), rank, count)
    return haskey(answer, "spread") ? spread_blocks(values, Int(integer(answer, "spread"))) : values
end

gradient(rank, count) = generated_values(5, rank, count)
exact_mean(xs) = sum(x -> Float64.(x), xs) / length(xs)

"A record of tests/vectors: key => values, as text."
struct Answer
    fields::Dict{String,Vector{String}}
end
Base.haskey(answer::Answer, key) = haskey(answer.fields, key)
text(answer::Answer, key) = only(answer.fields[key])
integer(answer::Answer, key) = parse(UInt64, text(answer, key))
integers(answer::Answer, key) = parse.(UInt64, answer.fields[key])
patterns(answer::Answer, key) = parse.(UInt64, answer.fields[key]; base = 16)
words(answer::Answer, key) = UInt32.(patterns(answer, key))
floats(answer::Answer, key) = collect(reinterpret(Float32, words(answer, key)))

"The records of a file, each completed by the record `defaults`."
function test_vectors(file)
    records, defaults = Answer[], Dict{String,Vector{String}}()
    for block in split(read(joinpath(ROOT, "tests", "vectors", file), String), r"\n\s*\n")
        fields = Dict{String,Vector{String}}()
        for line in filter(line -> !startswith(line, '#'), split(block, '\n'; keepempty = false))
            key, values = Iterators.peel(String.(split(line, ' ')))
            fields[key] = collect(values)
        end
        isempty(fields) && continue
        fields["case"] == ["defaults"] ? (defaults = fields) :
            push!(records, Answer(merge(defaults, fields)))
    end
    isempty(records) && error("no test vectors in $file")
    return records
end

"The fields that a record names: files of the paper's formats leave out the others."
function quantizer_of(answer)
    parts = ["levels=$(text(answer, "levels"))"]
    if text(answer, "levels") != "none"
        haskey(answer, "bits") && push!(parts, "bits=$(text(answer, "bits"))")
        push!(parts, "combine=$(text(answer, "combine"))")
        haskey(answer, "q") && push!(parts, "norm=$(text(answer, "q")):$(text(answer, "p"))")
    end
    for field in ("bits_down", "width", "mean_bits", "block", "rounding_down", "rotate",
                  "mantissa_bits", "rounding", "seed")
        haskey(answer, field) && push!(parts, "$field=$(text(answer, field))")
    end
    haskey(answer, "rescale") && push!(parts, "rescale=$(integer(answer, "rescale") == 1)")
    return Quantizer(join(parts, ','))
end

"bfloat16 as a package might bring it: two bytes and no arithmetic."
primitive type Brain16 16 end
GQSGD.dtype(::Type{Brain16}) = :bfloat16
const TYPES = Dict("float32" => (Float32, UInt32), "float16" => (Float16, UInt16),
                   "bfloat16" => (Brain16, UInt16), "float64" => (Float64, UInt64))

from_patterns(bits, dtype) = collect(reinterpret(TYPES[dtype][1], TYPES[dtype][2].(bits)))
to_patterns(values, dtype) = UInt64.(reinterpret(TYPES[dtype][2], values))

"float32 values rounded to nearest even in another type."
function converted(values::Vector{Float32}, dtype)
    dtype == "bfloat16" || return TYPES[dtype][1].(values)
    return map(values) do value
        bits = reinterpret(UInt32, value)
        isnan(value) && return reinterpret(Brain16, 0x7fc0)
        reinterpret(Brain16, UInt16((bits + 0x7fff + (bits >> 16 & 1)) >> 16))
    end
end

"Whether values are the known ones: all of their patterns, or a checksum."
function is_known(answer, values)
    found = to_patterns(values, text(answer, "dtype"))
    haskey(answer, "result") && return found == patterns(answer, "result")
    sum = zero(UInt64)
    for (k, pattern) in enumerate(found)
        sum += (2k - 1) % UInt64 * pattern
    end
    return sum == integer(answer, "result_checksum")
end

"""
A list that makes a new array at each look and forgets it, as lazy ones do: when the collector finds
an array, its values become NaN.
"""
struct LazyList{T} <: AbstractVector{Vector{T}}
    arrays::Vector{Vector{T}}
end
Base.size(list::LazyList) = size(list.arrays)
function Base.getindex(list::LazyList, k::Int)
    spoil(x) = fill!(reinterpret(UInt8, x), 0xff)
    made = finalizer(spoil, copy(list.arrays[k]))
    GC.gc()
    return made
end

"The status of what a call throws; `:nothing` if it throws nothing."
function status_of(f)
    try
        f()
    catch failure
        failure isa GQSGDError || rethrow()
        return failure.status
    end
    return :nothing
end

"A Julia that has this package, to run a file of this folder."
julia_command(file, arguments...) = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE
                                     $(joinpath(TESTS, file)) $(collect(string.(arguments)))`

# `addenv` itself came with Julia 1.6.
addenv_(command, variables...) = setenv(command, merge(Dict(ENV), Dict(variables)))

"What a new Julia prints that runs `code` with other environment variables."
function printed(code, variables...)
    command = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE -e $code`
    return read(ignorestatus(addenv_(command, variables...)), String)
end

"What `f` gives within a time limit; a test that waits for ever says so instead."
function within(f, seconds)
    outcome, failure = nothing, nothing
    task = @async try
        outcome = f()
    catch e
        failure = e
    end
    timedwait(() -> istaskdone(task), Float64(seconds)) === :ok ||
        error("no end within $seconds s")
    failure === nothing || throw(failure)
    return outcome
end
