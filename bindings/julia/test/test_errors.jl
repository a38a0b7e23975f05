# Failures: their statuses and sentences, and the state they leave behind.
using Serialization

@testset "every status has its name; one that is newer has its number" begin
    for (name, number) in pairs(GQSGD.ABI.STATUSES)
        name == :OK || @test status_of(() -> GQSGD.check(Int32(number))) == name
    end
    @test GQSGD.check(Int32(0)) === nothing
    @test status_of(() -> GQSGD.check(Int32(57))) == :STATUS_57
end

@testset "what one rank refuses is an error on all, and they go on" begin
    q = Quantizer("none")
    wrong = [c -> allreduce!(ones(Int, 10), c, q),
             c -> allreduce!(ones(Float32, 10), c, q; op = :max),
             c -> allreduce!(ones(Float32, 9), ones(Float32, 10), c, q),
             c -> allreduce!(ones(Float64, 10), ones(Float32, 10), c, q),
             c -> allreduce!(view(ones(Float32, 20), 1:2:20), c, q),
             c -> allreduce!(ones(Float32, 10), c, q; op = "mean"),
             c -> allreduce!(ones(Float32, 10), c, q; index = 3),
             c -> allreduce_many!(AbstractVector[ones(Float32, 5), ones(5)], c, q),
             c -> allreduce_many!((ones(Float32, 5), ones(5)), c, q),
             c -> allreduce_many!(ones(Float32, 10), c, q),
             c -> reduce_scatter(ones(Float32, 10), c, q; counts = [5, 6]),
             c -> allgather(ones(Float32, 10), c, q; counts = [10])]
    for call in wrong
        results = run_local(2; timeout_ms = 60000) do comm
            own = comm.rank == 1 ? call : c -> allreduce!(ones(Float32, 10), c, q)
            status_of(() -> own(comm)), allreduce(ones(Float32, 3), comm, q; op = :sum)
        end
        @test results == [(:REMOTE_ERROR, [2, 2, 2]), (:INVALID_ARGUMENT, [2, 2, 2])]
    end
end

@testset "an argument of a wrong type is named with its value" begin
    comm, q = only(local_comms(1)), Quantizer("none")
    for (words, options) in ["op is \"mean\"; accepted are :sum, :mean" => (op = "mean",),
                             "step is 1.0, a Float64; an integer" => (step = 1.0,)]
        failure = try allreduce(ones(Float32, 3), comm, q; options...) catch e; e end
        @test failure isa GQSGDError && occursin(words, failure.message)
    end
end

@testset "a difference between ranks names field and values" begin
    messages = run_local(2) do comm
        try
            allreduce(ones(Float32, 10 + comm.rank), comm, Quantizer())
        catch failure
            (failure.status, failure.message)
        end
    end
    for (status, message) in messages
        @test status == :MISMATCH
        @test occursin("10", message) && occursin("11", message)
    end
end

@testset "a missing rank is a timeout that breaks the group" begin
    comms = local_comms(2; timeout_ms = 50)
    @test status_of(() -> allreduce(ones(Float32, 9), comms[1], Quantizer())) == :TIMEOUT
    @test status_of(() -> GQSGD.check(comms[1])) == :TIMEOUT
    foreach(close, comms)
end

@testset "abort ends the peers' calls; a closed communicator is a bad handle" begin
    comms = local_comms(2)
    waiting = @async status_of(() -> allreduce(ones(Float32, 9), comms[1], Quantizer()))
    yield()
    GQSGD.abort(comms[2])
    @test within(() -> fetch(waiting), 60) in (:ABORTED, :PEER_LOST)
    foreach(close, comms)
    foreach(close, comms)
    @test !isopen(comms[1])
    @test status_of(() -> GQSGD.counter(comms[1])) == :BAD_HANDLE
    @test occursin("closed", repr(comms[1]))
end

@testset "run_local throws the first cause and ends every rank" begin
    work(comm) = comm.rank == 1 ? div(1, 0) : allreduce(ones(Float32, 5), comm, Quantizer())
    @test_throws DivideError within(() -> run_local(work, 3), 60)
end

@testset "NaN is an error on all ranks where it was asked for" begin
    q = Quantizer("blocks-8", nonfinite = :error)
    statuses = run_local(2) do comm
        status_of(() -> allreduce(Float32[1, comm.rank == 1 ? NaN : 2], comm, q))
    end
    @test statuses == [:NONFINITE, :NONFINITE]
end

"A foreign array whose values lie elsewhere, as those of a GPU do."
struct CuArray{T} <: DenseVector{T}
    count::Int
end
Base.size(x::CuArray) = (x.count,)

@testset "numbers that do not fit are refused" begin
    comm, = local_comms(1)
    x, q = ones(Float32, 4), Quantizer()
    @test status_of(() -> allreduce(x, comm, q; step = -1)) == :INVALID_ARGUMENT
    @test status_of(() -> allreduce(x, comm, q; step = 2^32)) == :INVALID_ARGUMENT
    @test status_of(() -> variance_bound(q, 2^40, 4)) == :INVALID_ARGUMENT
    close(comm)
end

@testset "arrays of devices are refused by name" begin
    comm, = local_comms(1)
    failure = try allreduce!(CuArray{Float32}(4), comm, Quantizer()) catch e; e end
    @test failure.status == :UNSUPPORTED
    @test occursin("CuArray", failure.message) && occursin("Array(", failure.message)
    close(comm)
end

"An array in host memory that says so: the extension point."
struct HostArray{T} <: DenseVector{T}
    values::Vector{T}
end
Base.size(x::HostArray) = size(x.values)
Base.strides(x::HostArray) = (1,)
Base.pointer(x::HostArray) = pointer(x.values)
GQSGD.memory(::HostArray) = :host

@testset "other packages' arrays of host memory are accepted once they say so" begin
    comm, = local_comms(1)
    x = HostArray(Float32[1, 2])
    @test allreduce!(x, comm, Quantizer("none"); op = :sum) === x
    close(comm)
end

@testset "a communicator stays in its process" begin
    comm, = local_comms(1)
    @test status_of(() -> deepcopy(comm)) == :INVALID_ARGUMENT
    @test status_of(() -> sprint(Serialization.serialize, comm)) == :INVALID_ARGUMENT
    close(comm)
end
