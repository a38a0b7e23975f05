# A group of tasks that continues with other ranks.
@testset "survivors and a newcomer continue at the step of the old group" begin
    old, q = local_comms(2; stream_id = 4, timeout_ms = 30000), Quantizer("rotated-4")
    foreach(comm -> GQSGD.counter!(comm, 11), old)
    id, members = local_id(), [1, -1, 0]
    inputs = [gradient(rank, 500) for rank in 0:2]
    tasks = map(1:3) do k
        Threads.@spawn begin
            from = members[k] < 0 ? nothing : old[members[k] + 1]
            comm = reconfigure(from, id, k - 1, members; timeout_ms = 30000)
            result = allreduce(comm, inputs[k], q)
            close(comm)
            result
        end
    end
    expected = simulate(inputs, q; step = 11, stream_id = 4)
    for task in tasks
        @test within(() -> fetch(task), 120) == expected
    end
    @test status_of(() -> reconfigure(old[1], id[1:5], 0, [0])) == :INVALID_ARGUMENT
    @test status_of(() -> reconfigure(old[1], id, 0, [-1])) == :INVALID_ARGUMENT
    @test status_of(() -> reconfigure(nothing, local_id(), 0, [0])) == :MISMATCH
    foreach(close, old)
end
