# The answers of tests/vectors, which the reference computed from docs/FORMAT.md alone.

function made_values(answer, rank)
    values = inputs_of(answer, rank, Int(integer(answer, "value_count")))
    if haskey(answer, "kept_modulus")
        modulus = integer(answer, "kept_modulus")
        for e in eachindex(values)
            (e - 1 + rank) % modulus == 0 || (values[e] = 0)
        end
    end
    if haskey(answer, "special_ranks")
        places = zip(integers(answer, "special_ranks"), integers(answer, "special_elements"))
        for ((r, e), value) in zip(places, floats(answer, "special_values"))
            r == rank && (values[e + 1] = value)
        end
    end
    return values
end

function input_of(answer, rank)
    dtype, key = text(answer, "dtype"), "rank_$rank"
    haskey(answer, key) && return from_patterns(patterns(answer, key), dtype)
    return converted(made_values(answer, rank), dtype)
end

options_of(answer) = (op = Symbol(text(answer, "op")), schedule = Symbol(text(answer, "schedule")),
                      step = integer(answer, "step"), index = integer(answer, "index"))

"Those of a group."
function group_options(answer)
    stream_id = text(answer, "stream_id")
    haskey(answer, "nodes") || return (stream_id = stream_id,)
    return (stream_id = stream_id, nodes = text(answer, "nodes"))
end

const WHOLE_CALLS = ["allreduce", "allreduce_large", "allreduce_special", "allreduce_blocks",
                     "allreduce_presets", "allreduce_sparse", "allreduce_hierarchical",
                     "allreduce_adaptive", "allreduce_rice"]

@testset "allreduce_native: virtual ranks, for a transport's sums are its own" begin
    for answer in test_vectors("allreduce_native.txt")
        xs = [input_of(answer, r) for r in 0:(integer(answer, "rank_count") - 1)]
        @test is_known(answer, simulate(xs, quantizer_of(answer); options_of(answer)...,
                                        group_options(answer)...))
    end
end

@testset "$file: ranks of one process and virtual ones" for file in WHOLE_CALLS
    answers = test_vectors("$file.txt")
    group_of(answer) = Int(integer(answer, "rank_count")), group_options(answer)
    for group in unique(map(group_of, answers))
        members = filter(answer -> group_of(answer) == group, answers)
        calls = [(answer, quantizer_of(answer), [input_of(answer, r) for r in 0:(group[1] - 1)])
                 for answer in members]
        virtual = [is_known(answer, simulate(xs, q; options_of(answer)..., group[2]...))
                   for (answer, q, xs) in calls]
        @test all(virtual)
        known = run_local(group[1]; group[2]...) do comm
            [is_known(answer, allreduce(xs[comm.rank + 1], comm, q; options_of(answer)...))
             for (answer, q, xs) in calls]
        end
        @test all(all, known)
    end
end

"One call on tensors or slices; the rank's result, and where it lies in the whole."
function segment_call(comm, answer)
    q, dtype = Quantizer(text(answer, "quantizer")), text(answer, "dtype")
    counts, kind = Int.(integers(answer, "lengths")), text(answer, "operation")
    values = inputs_of(answer, comm.rank, sum(counts))
    haskey(answer, "nan_element") && comm.rank == 0 &&
        (values[integer(answer, "nan_element") + 1] = NaN32)
    x, ends = converted(values, dtype), cumsum(counts)
    parts = [view(x, (e - c + 1):e) for (e, c) in zip(ends, counts)]
    op, schedule, step, index = options_of(answer)
    if kind == "allreduce_many"
        allreduce_many!(parts, comm, q; op = op, schedule = schedule, step = step, index = index)
        return x
    elseif kind == "reduce_scatter"
        return reduce_scatter(x, comm, q; counts = counts, op = op, step = step, index = index)
    end
    return allgather(collect(parts[comm.rank + 1]), comm, q; counts = counts, step = step,
                     index = index)
end

@testset "$file: tensors and slices" for (file, count) in [("segments", 70),
                                                           ("segments_adaptive", 10),
                                                           ("segments_rice", 10)]
    answers = test_vectors("$file.txt")
    @test length(answers) > count
    for answer in answers
        results = run_local(comm -> segment_call(comm, answer), Int(integer(answer, "rank_count"));
                            group_options(answer)...)
        wholes = text(answer, "operation") == "reduce_scatter" ? [vcat(results...)] : results
        @test (text(answer, "case"), all(whole -> is_known(answer, whole), wholes)) ==
              (text(answer, "case"), true)
    end
end
