# A group that continues with other ranks. Members of a group of threads meet in a call that blocks,
# which one thread of Julia's can do for one of them alone: C and Python test groups of more.
@testset "a survivor continues at the step of the old group" begin
    old, q = local_comms(2; stream_id = 4, timeout_ms = 30000), Quantizer("rotated-4")
    foreach(comm -> GQSGD.counter!(comm, 11), old)
    id, input = local_id(), gradient(1, 500)
    comm = reconfigure(old[2], id, 0, [1])
    @test (comm.rank, comm.size) == (0, 1)
    @test allreduce(input, comm, q) == simulate([input], q; step = 11, stream_id = 4)
    close(comm)
    @test status_of(() -> reconfigure(old[1], id[1:5], 0, [0])) == :INVALID_ARGUMENT
    @test status_of(() -> reconfigure(old[1], id, 0, [-1])) == :INVALID_ARGUMENT
    @test status_of(() -> reconfigure(nothing, local_id(), 0, [0])) == :MISMATCH
    foreach(close, old)
    @test status_of(() -> reconfigure(old[2], local_id(), 0, [1])) == :BAD_HANDLE
end

@testset "the last rank goes on alone" begin
    old, q = local_comms(2; stream_id = 4, timeout_ms = 30000), Quantizer("rotated-4")
    close(old[1])
    @test revoke(old[2]) == [0]
    @test status_of(() -> shrink(old[2]; recv = view(zeros(Float32, 9), 1:2:9))) ==
          :INVALID_ARGUMENT
    left = shrink(old[2]; recv = view(zeros(Float32, 600), 1:500))
    @test (left.members, left.calls) == ([1], :repeat)
    input = gradient(1, 500)
    @test allreduce(input, left.comm, q) == simulate([input], q; step = 0, stream_id = 4)
    @test status_of(() -> shrink(old[2])) == :REVOKED
    close(left.comm)
    close(old[2])
end
