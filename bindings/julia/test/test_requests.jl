# Requests: results, order, arrays that are kept alive, and what is dropped.

@testset "results are those of allreduce in any order of waiting" begin
    counts, q = [1000, 3, 70000, 0, 33], Quantizer("blocks-8", seed = 5)
    inputs = [[gradient(rank, count) for rank in 0:2] for count in counts]
    expected = [simulate(xs, q; step = k - 1) for (k, xs) in enumerate(inputs)]
    results = run_local(3) do comm
        requests = [allreduce_start!(similar(xs[1]), xs[comm.rank + 1], comm, q) for xs in inputs]
        values = [fetch(requests[k]) for k in (4, 2, 5, 1, 3)]
        @assert all(isready, requests) && isempty(comm.requests)
        @assert repr(requests[1]) == "Request(rank $(comm.rank), ended)"
        wait(requests[1])
        values
    end
    @test all(==(expected[[4, 2, 5, 1, 3]]), results)
end

@testset "every task that waits for a request learns that it has failed" begin
    # Its failure is taken down slowly here, so that others look in the meantime.
    code = """
        using GQSGD
        GQSGD.failure_of(code::Int32) =
            (sleep(0.2); invoke(GQSGD.failure_of, Tuple{Integer}, code))
        comm, = local_comms(1)
        q = Quantizer("blocks-8", nonfinite = :error)
        request = allreduce_start!(Float32[NaN], comm, q)
        outcome() = try fetch(request) catch failure; failure.status end
        join(stdout, map(fetch, [@async(outcome()) for _ in 1:3]), ' ')
        """
    @test printed(code) == "NONFINITE NONFINITE NONFINITE"
end

@testset "a request is not ready before its peer has come" begin
    first, second = local_comms(2)
    x, q = ones(Float32, 10), Quantizer("none")
    request = allreduce_start!(zeros(Float32, 10), x, first, q; op = :sum)
    @test !isready(request) && repr(request) == "Request(rank 0, under way)"
    wait(allreduce_start!(zeros(Float32, 10), x, second, q; op = :sum))
    @test within(() -> fetch(request), 60) == fill(2f0, 10)
    foreach(close, (first, second))
end

@testset "workspace is reserved after the requests in flight, whose peers may be tasks" begin
    first, second = local_comms(2; timeout_ms = 20000)
    x, q = ones(Float32, 10), Quantizer("none")
    request = allreduce_start!(copy(x), first, q)
    peer = @async allreduce(x, second, q)
    GQSGD.reserve(first, q, 1000)
    @test isready(request) && fetch(request) == fetch(peer) == x
    foreach(close, (first, second))
end

@testset "the other collectives start too" begin
    results = run_local(2) do comm
        q = Quantizer("none")
        many = allreduce_many_start!([fill(Float32(comm.rank), 3)], comm, q)
        slice = reduce_scatter_start!(zeros(Float32, 2), fill(Float32(comm.rank), 4), comm, q)
        all = allgather_start!(zeros(Float32, 2), Float32[comm.rank], comm, q)
        (fetch(many), fetch(slice), fetch(all))
    end
    @test results[1] == results[2] == ([fill(0.5f0, 3)], fill(0.5f0, 2), Float32[0, 1])
end

@testset "arrays live until the end of a dropped request" begin
    collected = Ref(false)
    first, second = local_comms(2)
    x, q = ones(Float32, 1000), Quantizer("none")
    function start_and_drop()
        dropped = finalizer(_ -> (collected[] = true), copy(x))
        allreduce_start!(dropped, first, q; op = :sum)
        return nothing
    end
    start_and_drop()
    GC.gc()
    @test !collected[]
    @test allreduce(x, second, q; op = :sum) == fill(2f0, 1000)
    last = allreduce_start!(copy(x), first, q)
    allreduce(x, second, q)
    wait(last)
    allreduce_start!(copy(x), first, q)  # a start looks for what has ended
    GC.gc()
    @test collected[]
    foreach(close, (first, second))
end

@testset "closing ends requests, and every wait says so" begin
    first, second = local_comms(2)
    request = allreduce_start!(ones(Float32, 10), first, Quantizer())
    close(first)
    for _ in 1:2
        @test status_of(() -> fetch(request)) == :ABORTED
    end
    @test repr(request) == "Request(rank 0, failed)"
    close(second)
end

@testset "a collected communicator takes its requests along" begin
    threads() = length(readdir("/proc/self/task"))
    before = threads()
    for _ in 1:10
        allreduce_start!(ones(Float32, 9), first(local_comms(2)), Quantizer())
    end
    GC.gc()
    GC.gc()
    @test threads() <= before + 2  # the youngest may still be on the stack
end
