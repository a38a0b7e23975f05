# Several arrays in one call, and slices of ranks.

@testset "many arrays are one operation" begin
    results = run_local(2) do comm
        xs = [fill(Float32(comm.rank), 3), zeros(Float32, 0), fill(Float32(4comm.rank), 2, 2)]
        allreduce_many!(xs, comm, Quantizer("none"))
    end
    @test results[1] == results[2] == [fill(0.5f0, 3), Float32[], fill(2f0, 2, 2)]
end

@testset "a list of arrays may be a tuple, of any element type, or empty" begin
    for list in ((a, b) -> (a, b), (a, b) -> Any[a, b])
        results = run_local(2) do comm
            a, b = fill(Float32(comm.rank), 3), fill(Float32(4comm.rank), 2)
            allreduce_many!(list(a, b), comm, Quantizer("none"))
            (a, b)
        end
        @test results == fill((fill(0.5f0, 3), fill(2f0, 2)), 2)
    end
    @test run_local(comm -> allreduce_many!([], comm, Quantizer("none")), 2) == [[], []]
end

@testset "arrays of a lazy list live until the end of the call" begin
    outs = [[zeros(Float32, 3) for _ in 1:3] for _ in 1:2]
    run_local(2) do comm
        xs = LazyList([fill(Float32(k + comm.rank), 3) for k in 1:3])
        allreduce_many!(outs[comm.rank + 1], xs, comm, Quantizer("none"))
    end
    @test outs[1] == outs[2] == [fill(k + 0.5f0, 3) for k in 1:3]
end

@testset "arrays of one call share a budget of bits" begin
    q = Quantizer("adaptive-4", seed = 3)
    inputs(rank) = [100 .* gradient(rank, 8192), gradient(rank + 2, 8192), gradient(rank + 4, 8192),
                    gradient(rank + 6, 8192)]
    exact = [exact_mean([inputs(rank)[k] for rank in 0:1]) for k in 1:4]
    error(means) = sum(sum(abs2, mean .- right) for (mean, right) in zip(means, exact))
    sent(comm) = GQSGD.stats(comm).payload_bytes_sent
    results = run_local(2) do comm
        together = allreduce_many!(inputs(comm.rank), comm, q)
        many_bytes = sent(comm)
        apart = [allreduce(x, comm, q) for x in inputs(comm.rank)]
        (together, apart, many_bytes, sent(comm) - many_bytes)
    end
    (together, apart, many_bytes, apart_bytes) = results[1]
    @test together == results[2][1]
    @test error(together) < error(apart) / 10  # the array of large values takes bits of the others
    @test many_bytes <= apart_bytes
end

@testset "reduce_scatter gives slices, allgather puts them together" begin
    inputs, q = [gradient(rank, 1001) for rank in 0:2], Quantizer("none")
    results = run_local(3) do comm
        own = reduce_scatter(inputs[comm.rank + 1], comm, q)
        counts = [334, 334, 333]
        (length(own), allgather(own, comm, q; counts = counts),
         allgather!(zeros(Float32, 1001), own, comm, q; counts = counts))
    end
    @test [r[1] for r in results] == [334, 334, 333]
    for (_, gathered, again) in results
        @test gathered == again == results[1][2]
        @test isapprox(gathered, exact_mean(inputs); rtol = 1e-6)
    end
end

@testset "slices may be views of where they lie" begin
    results = run_local(2) do comm
        x = Float32[comm.rank, 2, 3, 4comm.rank]
        own = view(x, comm.rank == 0 ? (1:1) : (2:4))
        @assert reduce_scatter!(own, x, comm, Quantizer("none"); counts = [1, 3]) === own
        allgather!(x, own, comm, Quantizer("none"); counts = [1, 3])
    end
    @test results[1] == results[2] == Float32[0.5, 2, 3, 2]
end
