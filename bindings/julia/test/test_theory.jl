# Bounds and predictions: those of the paper where it has one.

@testset "bounds of linear levels are the theorem's" begin
    q = Quantizer("paper-gl8", norm = (2, 2))
    @test variance_bound(q, 4, 100; schedule = :ring) > 0
    @test sparsity_bound(q, 4, 100; schedule = :ring) > 0
    @test depth_factor(q, 4; schedule = :ring) == 1
    @test depth_factor(Quantizer("paper-ge8"), 5; schedule = :ring) == (9 / 8)^4
    @test status_of(() -> variance_bound(Quantizer("paper-gl8", rounding = :nearest), 4, 100)) ==
          :UNSUPPORTED
end

@testset "more values take longer, and constants are read" begin
    q = Quantizer()
    @test 0 < predict_time(q, 4, 1000) < predict_time(q, 4, 10^7)
    @test status_of(() -> predict_time(q, 4, 1000; constants = "nonsense")) == :INVALID_ARGUMENT
    built_in = predict_time(q, 4, 1000; schedule = :direct)
    @test predict_time(q, 4, 1000; schedule = :direct, constants = "") == built_in
end

@testset "arrays of a lazy list live until the end" begin
    inputs, q = [gradient(rank, 300) for rank in 0:2], Quantizer("blocks-8")
    @test simulate(LazyList(inputs), q) == simulate(inputs, q)
    @test expected_error(LazyList(inputs), q) == expected_error(inputs, q)
end

@testset "the expected error of a format is that of its draws" begin
    inputs = [gradient(rank, 2000) for rank in 0:1]
    exact = expected_error(inputs, Quantizer("none"))
    coarse = expected_error(inputs, Quantizer("paper-gl4"))
    @test 0 <= exact < 1e-10 < coarse
    nodes = [0, 0, 1, 1]
    four, q = [gradient(rank, 2000) for rank in 0:3], Quantizer("rotated-8")
    @test expected_error(four, q; schedule = :hierarchical, nodes = nodes) >
          1.3 * expected_error(four, q; schedule = :hierarchical)
    @test status_of(() -> expected_error([ones(Float32, 2), ones(Float32, 3)], Quantizer())) ==
          :INVALID_ARGUMENT
end
