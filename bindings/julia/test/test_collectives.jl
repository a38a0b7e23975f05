# allreduce on ranks of one process: values, bits, places for results, counters.

const PRESETS = ["none", "bf16", "fp16", "paper-gl8", "paper-ge4", "blocks-8", "rotated-8",
                 "relative-8"]

@testset "every preset is close to the mean, equal on all ranks and to virtual ranks" begin
    inputs = [gradient(rank, 3000) for rank in 0:2]
    for preset in PRESETS
        q = Quantizer(preset, seed = 3)
        results = run_local(comm -> allreduce(inputs[comm.rank + 1], comm, q), 3)
        @test results[1] == results[2] == results[3] == simulate(inputs, q)
        error = sum(abs2, results[1] - exact_mean(inputs))
        bound = variance_bound(q, 3, 3000) / 3 * sum(x -> sum(abs2, Float64.(x)), inputs)
        @test error <= max(4bound, 1e-9)  # Markov: a correct one is above 4 times its mean rarely
    end
end

@testset "new arrays, in place and into another have the same bits" begin
    inputs, q = [gradient(rank, 500) for rank in 0:1], Quantizer()
    results = run_local(2) do comm
        x, out = copy(inputs[comm.rank + 1]), fill(NaN32, 500)
        first = allreduce(x, comm, q; step = 4)
        @assert x == inputs[comm.rank + 1]
        @assert allreduce!(out, x, comm, q; step = 4) === out
        @assert allreduce!(x, comm, q; step = 4) === x
        (first, out, x)
    end
    @test all(==(results[1][1]), (results[1]..., results[2]...))
end

@testset "shapes are kept; views and reshapes are used where they lie" begin
    results = run_local(2) do comm
        x = fill(Float32(comm.rank), 4, 6)
        columns = view(x, :, 2:3)
        allreduce!(columns, comm, Quantizer("none"))
        (size(allreduce(x, comm, Quantizer())), x)
    end
    expected = zeros(Float32, 4, 6)
    expected[:, 2:3] .= 0.5
    @test results[1] == ((4, 6), expected)
    @test results[2][2][:, 2:3] == expected[:, 2:3]
end

@testset "Float16, Float64, an empty array and a sum" begin
    results = run_local(2) do comm
        q = Quantizer("none")
        (allreduce(Float16[comm.rank, 3], comm, q),
         allreduce(Float64[comm.rank, 3], comm, q; op = :sum), allreduce(Float32[], comm, q))
    end
    @test results[1] == results[2] == (Float16[0.5, 3], [1.0, 6.0], Float32[])
end

@testset "a view of nothing is an empty array, whatever its strides" begin
    results = run_local(2) do comm
        rows = view(zeros(Float32, 4, 6), 1:0, 2:3)
        size(allreduce!(rows, comm, Quantizer()))
    end
    @test results == [(0, 2), (0, 2)]
end

@testset "measured costs are those of all ranks, and repeat themselves as a string" begin
    measured = run_local(2; costs = :measure) do comm
        before = GQSGD.costs(comm)
        allreduce(gradient(comm.rank, 100), comm, Quantizer())
        (before, GQSGD.costs(comm))
    end
    @test measured[1] == measured[2] && measured[1][1] == ""
    @test startswith(measured[1][2], "latency_ns=")
    comm, = local_comms(1; costs = measured[1][2])
    @test GQSGD.costs(comm) == measured[1][2]
end

@testset "the counter advances, and set back it repeats the bits" begin
    x, q = gradient(0, 1000), Quantizer("paper-gl8")
    comm, = local_comms(1; stream_id = 3)
    first, second = allreduce(x, comm, q), allreduce(x, comm, q)
    @test first != second && GQSGD.counter(comm) == 2
    GQSGD.counter!(comm, 0)
    @test allreduce(x, comm, q) == first
    @test allreduce(x, comm, q; step = 1) == second
    @test GQSGD.stats(comm).calls == 4
    @test isnan(GQSGD.stats(comm).ratio)  # one rank sends nothing
    GQSGD.reserve(comm, q, 2000)
    @test GQSGD.stats(comm).workspace_bytes > 0
    close(comm)
end

@testset "bytes are counted beside those of float32" begin
    ratios = run_local(2) do comm
        allreduce(gradient(comm.rank, 2^16), comm, Quantizer("blocks-8"))
        counters = GQSGD.stats(comm)
        @test counters.ratio == counters.uncompressed_bytes_sent / counters.payload_bytes_sent
        counters.ratio
    end
    @test all(ratio -> 3.5 < ratio < 4, ratios)
end

@testset "tasks of a process cannot wait for each other in the library" begin
    comm, = local_comms(1)
    failure = try GQSGD.verify(comm) catch e; e end
    @test failure.status == :UNSUPPORTED && occursin("gqsgd-verify", failure.message)
    failure = try measured_error(ones(Float32, 8), comm, Quantizer()) catch e; e end
    @test failure.status == :UNSUPPORTED && occursin("expected_error", failure.message)
    close(comm)
end

@testset "the time limit is read and set" begin
    comm, = local_comms(1; timeout_ms = 1234)
    @test GQSGD.timeout_ms(comm) == 1234
    GQSGD.timeout_ms!(comm, 0)
    @test GQSGD.timeout_ms(comm) == 300000
    @test status_of(() -> GQSGD.timeout_ms!(comm, -2)) == :INVALID_ARGUMENT
    @test repr(comm) == "Comm(rank 0 of 1, threads)"
    @test GQSGD.transport(comm) == "threads"
    close(comm)
    @test repr(comm) == "Comm(rank 0 of 1, closed)"
end

@testset "more ranks than threads get to the end" begin
    x, q = gradient(1, 200000), Quantizer()
    results = within(() -> run_local(comm -> allreduce(x, comm, q), 2Threads.nthreads() + 1), 120)
    @test all(==(results[1]), results)
end

@testset "an option that is nothing is left out" begin
    comm, = local_comms(1; timeout_ms = nothing, costs = nothing)
    @test GQSGD.timeout_ms(comm) == 300000
    close(comm)
end

@testset "options and numbers of ranks that make no sense are refused" begin
    @test status_of(() -> local_comms(0)) == :INVALID_ARGUMENT
    @test status_of(() -> local_comms(2^40)) == :INVALID_ARGUMENT
    @test status_of(() -> local_comms(2; speed = :high)) == :INVALID_ARGUMENT
    @test status_of(() -> process_comm(UInt8[], 0, 1)) == :INVALID_ARGUMENT
    @test status_of(() -> process_comm(unique_id(), 2, 2)) == :INVALID_ARGUMENT
    @test status_of(() -> process_comm(unique_id(), 0, 2; timeout_ms = 50)) == :TIMEOUT
end
