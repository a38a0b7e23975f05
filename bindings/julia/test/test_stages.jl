# The stages one by one: test vectors, and a whole allreduce made of them.

# Vector files name a field as the first version of the format did.
key_of(name) = name == :reduction_depth ? "combines" : string(name)

function site_of(answer)
    names = filter(name -> haskey(answer, key_of(name)), fieldnames(Site))
    fields = [name => integer(answer, key_of(name)) for name in names]
    return Site(; size = integer(answer, "rank_count"), fields...)
end

@testset "reduce_$file: known sums of codes" for file in
        ["linear_exact", "linear8_average", "linear4_average", "exponential8_sum",
         "exponential4_average", "none"]
    # Stages draw for stream 0; sums of exact and of float32 words draw nothing.
    drawless = file in ("linear_exact", "none")
    answers = filter(answer -> drawless || text(answer, "stream_id") == "0",
                     test_vectors("reduce_$file.txt"))
    @test !isempty(answers)
    for answer in answers
        b = words(answer, "b")
        Stages.reduce!(b, words(answer, "a"), quantizer_of(answer), integer(answer, "value_count");
                       site = site_of(answer))
        @test (text(answer, "case"), b) == (text(answer, "case"), words(answer, "words"))
    end
end

@testset "dequantize_$file: known values" for file in
        ["linear8", "linear4", "exponential8", "exponential4", "none"]
    for answer in test_vectors("dequantize_$file.txt")
        is_wide = text(answer, "combine") == "wide"
        fields = is_wide ? Answer(filter(pair -> first(pair) != "combine", answer.fields)) : answer
        q = is_wide ? Quantizer("levels=$(text(answer, "levels")),bits=$(text(answer, "bits"))") :
            quantizer_of(fields)
        scales = haskey(answer, "scale") ? floats(answer, "scale") : Float32[0]
        count, op = integer(answer, "value_count"), Symbol(text(answer, "op"))
        values = Stages.dequantize(words(answer, "words"), q, scales, count; op = op,
                                   site = site_of(answer))
        @test (text(answer, "case"), collect(reinterpret(UInt32, values))) ==
              (text(answer, "case"), words(answer, "values"))
    end
end

@testset "a direct allreduce out of stages has the library's bits" begin
    q, n, count = Quantizer("blocks-8", seed = 9), 3, 96  # one shard, which rank 0 owns
    inputs = [gradient(rank, count) for rank in 0:(n - 1)]
    site(rank) = Site(rank = rank, size = n, step = 6)
    own = [Stages.norm(x, q; site = site(r - 1)) for (r, x) in enumerate(inputs)]
    norms = reduce((a, b) -> max.(a, b), own)
    codes = [Stages.quantize(x, q, norms; site = site(r - 1)) for (r, x) in enumerate(inputs)]
    owner = Site(rank = 0, size = n, step = 6, hop = 1)
    sums, scales = Stages.reduce_many(codes, q, norms, count; site = owner)
    @test Stages.reduce_many(LazyList(codes), q, norms, count; site = owner) == (sums, scales)
    values = Stages.dequantize(sums, q, scales, count; site = owner)
    @test values == simulate(inputs, q; schedule = :direct, step = 6)
end

@testset "a direct allreduce of Rice codes out of stages has the library's bits" begin
    q, n, count = Quantizer("rice-4", seed = 9), 3, 20_001
    inputs = [gradient(rank, count) for rank in 0:(n - 1)]
    site(rank) = Site(rank = rank, size = n, step = 6)
    norms = Stages.norm(inputs[1], q; site = site(0))
    groups = Stages.rice_groups(q, count; site = site(0))
    codes = [Stages.quantize(x, q, norms; site = site(r - 1)) for (r, x) in enumerate(inputs)]
    each = cld(groups.count, n)
    sums = UInt32[]
    for rank in 0:(n - 1)
        own = min(rank * each, groups.count):(min((rank + 1) * each, groups.count) - 1)
        places = (first(own) * groups.words_each + 1):((last(own) + 1) * groups.words_each)
        owner = Site(rank = rank, size = n, step = 6, hop = 1)
        operands = LazyList([words[places] for words in codes])
        append!(sums, Stages.reduce_rice(operands, q, own, count; site = owner))
    end
    values = Stages.dequantize(sums, q, norms, count; site = site(0))
    @test values == simulate(inputs, q; schedule = :direct, step = 6)
    @test status_of(() -> Stages.rice_groups(Quantizer(), count; site = site(0))) ==
          :INVALID_ARGUMENT
end

@testset "lengths that do not fit are refused" begin
    q, site = Quantizer("paper-gl8"), Site()
    @test status_of(() -> Stages.quantize(ones(Float32, 4), q, Float32[]; site = site)) ==
          :INVALID_ARGUMENT
    @test status_of(() -> Stages.dequantize(UInt32[], q, ones(Float32, 1), 4; site = site)) ==
          :INVALID_ARGUMENT
    @test_throws InexactError Site(rank = -1)
end
