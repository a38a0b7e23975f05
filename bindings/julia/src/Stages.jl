"""
The stages of an allreduce, one call each: `norm`, `quantize`, `reduce!`, `reduce_many`,
`dequantize`.

For studies, tests and other people's transports. The random words of a stage depend on its
[`Site`](@ref), the quantizer's seed and nothing else.

With `levels=rice` a stage works on a whole call; [`Stages.rice_groups`](@ref) says how its codes
lie in words, and [`Stages.reduce_rice`](@ref) adds those of the groups that an owner has.
"""
module Stages

using ..ABI: ABI, Site
using ..GQSGD: Quantizer, check, dtype_number, host_address_of, integer, norm_count,
               number_of, packed_size, refuse, result_size

"""
    Stages.norm(x, q; site) -> Vector{Float32}

Norms of this rank's values: `norm_count(q, length(x))` numbers, NaN or infinity where an input
is. With p = inf the largest over ranks is the global norm (NaN if one is NaN).
"""
function norm(x::AbstractArray, q::Quantizer; site::Site)
    norms = Vector{Float32}(undef, norm_count(q, length(x)))
    type = dtype_number(eltype(x))
    workspace = workspace_for(q, length(x), type)
    values = host_address_of("x", x)
    GC.@preserve x check(ABI.gqsgd_norm(q, Ref(site), values, length(x), type, norms, workspace,
                                        length(workspace), C_NULL))
    return norms
end

"""
    Stages.quantize(x, q, norms; site) -> Vector{UInt32}

Rounds `x` at random to codes: `packed_size(q, length(x)) / 4` words. `norms` are the global norms.
"""
function quantize(x::AbstractArray, q::Quantizer, norms::Vector{Float32}; site::Site)
    require_length("norms", norms, norm_count(q, length(x)))
    words = Vector{UInt32}(undef, word_count(q, length(x), site))
    type = dtype_number(eltype(x))
    workspace = workspace_for(q, length(x), type)
    values = host_address_of("x", x)
    GC.@preserve x check(ABI.gqsgd_quantize(q, Ref(site), values, length(x), type, norms, words,
                                            workspace, length(workspace), C_NULL))
    return words
end

"""
    Stages.reduce!(b, a, q, count; site) -> b

Adds the codes of `a`, which came from a peer, to this rank's `b` in code form, or averages them
(`combine=average`). Both hold `count` values.
"""
function reduce!(b::Vector{UInt32}, a::Vector{UInt32}, q::Quantizer, count::Integer; site::Site)
    require_length("a", a, word_count(q, count, site))
    require_length("b", b, word_count(q, count, site))
    check(ABI.gqsgd_reduce(q, Ref(site), a, b, count, C_NULL))
    return b
end

"""
    Stages.reduce_many(words, q, norms, count; site) -> (words, scales)

The owner's step of the direct schedule: decodes the `site.size` vectors of `count` codes, in rank
order, adds them wide and encodes once, with `bits_down` bits. One scale per norm.
"""
function reduce_many(words::AbstractVector{Vector{UInt32}}, q::Quantizer, norms::Vector{Float32},
                     count::Integer; site::Site)
    length(words) == site.size ||
        refuse("words has $(length(words)) vectors for $(site.size) ranks")
    words = collect(words)  # a lazy vector makes new ones at each look
    foreach(operand -> require_length("an operand", operand, word_count(q, count, site)), words)
    require_length("norms", norms, norm_count(q, count))
    result = Vector{UInt32}(undef, result_word_count(q, count, site))
    scales = similar(norms)
    workspace = workspace_for(q, count, dtype_number(Float32))
    GC.@preserve words check(ABI.gqsgd_reduce_many(
        q, Ref(site), Ptr{UInt32}[pointer(operand) for operand in words], count, norms, result,
        scales, workspace, length(workspace), C_NULL))
    return result, scales
end

"""
    Stages.dequantize(words, q, scales, count, T = Float32; op = :mean, site) -> Vector{T}

Decodes the codes of `site.size` ranks to `count` values. `words` and `scales` are what
[`Stages.reduce_many`](@ref) returned where `site.reduction_depth` is 0, or codes reduced in code
form and the global norms. `op` is `:mean` or `:sum` over the ranks.
"""
function dequantize(words::Vector{UInt32}, q::Quantizer, scales::Vector{Float32}, count::Integer,
                    ::Type{T} = Float32; op::Symbol = :mean, site::Site) where {T}
    needed = site.reduction_depth == 0 ? result_word_count(q, count, site) :
             word_count(q, count, site)
    require_length("words", words, needed)
    require_length("scales", scales, norm_count(q, count))
    values = Vector{T}(undef, count)
    GC.@preserve values check(ABI.gqsgd_dequantize(
        q, Ref(site), words, scales, count, dtype_number(T), number_of("op", op, ABI.OPS),
        host_address_of("values", values), C_NULL))
    return values
end

"""
    Stages.rice_groups(q, count; site) -> (count, words_each, result_words_each)

With `levels=rice`: the groups of a call of `count` values over `site.size` ranks, and the words of
each one's codes and sums, which lie one after the other. In the direct schedule rank r owns the
groups r k to r k + k - 1, k the groups over the ranks, rounded up.
"""
function rice_groups(q::Quantizer, count::Integer; site::Site)
    groups, codes, sums = Ref{Csize_t}(0), Ref{Csize_t}(0), Ref{Csize_t}(0)
    value_count = integer("count", Csize_t, count)
    check(ABI.gqsgd_rice_groups(q, Ref(site), value_count, groups, codes, sums))
    return (count = Int(groups[]), words_each = Int(div(codes[], sizeof(UInt32))),
            result_words_each = Int(div(sums[], sizeof(UInt32))))
end

"""
    Stages.reduce_rice(words, q, groups, count; site) -> words

As [`Stages.reduce_many`](@ref), of some groups of a call of `count` values with `levels=rice`:
`groups` are a range of their numbers, from 0 on, and `words` those of these groups alone.
"""
function reduce_rice(words::AbstractVector{Vector{UInt32}}, q::Quantizer,
                     groups::UnitRange{<:Integer}, count::Integer; site::Site)
    length(words) == site.size ||
        refuse("words has $(length(words)) vectors for $(site.size) ranks")
    words = collect(words)  # a lazy vector makes new ones at each look
    call = rice_groups(q, count; site = site)
    foreach(operand -> require_length("an operand", operand, length(groups) * call.words_each),
            words)
    result = Vector{UInt32}(undef, length(groups) * call.result_words_each)
    workspace = workspace_for(q, count, dtype_number(Float32))
    GC.@preserve words check(ABI.gqsgd_reduce_rice(
        q, Ref(site), Ptr{UInt32}[pointer(operand) for operand in words], count,
        integer("the first of groups", Csize_t, first(groups)), length(groups), result, workspace,
        length(workspace), C_NULL))
    return result
end

has_rice_codes(q) = occursin("levels=rice", string(q))

function word_count(q, value_count, site)
    has_rice_codes(q) || return div(packed_size(q, value_count), sizeof(UInt32))
    groups = rice_groups(q, value_count; site = site)
    return groups.count * groups.words_each
end

function result_word_count(q, value_count, site)
    has_rice_codes(q) || return div(result_size(q, value_count), sizeof(UInt32))
    groups = rice_groups(q, value_count; site = site)
    return groups.count * groups.result_words_each
end

"The library sees only an address: lengths can be checked nowhere else."
require_length(role, x, count) =
    length(x) == count || refuse("$role has $(length(x)) elements, $count are needed")

function workspace_for(q::Quantizer, value_count, type)
    size_bytes = Ref{Csize_t}(0)
    check(ABI.gqsgd_workspace_size(q, integer("value_count", Csize_t, value_count), type,
                                   size_bytes))
    return Vector{UInt8}(undef, size_bytes[])
end

end
