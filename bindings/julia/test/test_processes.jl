# Ranks that are processes of Julia, by the library's own transport and by MPI.

"Runs rank.jl as `size` processes; their outputs in rank order."
function run_ranks(size, job)
    id = bytes2hex(unique_id())
    outputs = [IOBuffer() for _ in 1:size]
    processes = map(1:size) do k
        command = ignorestatus(julia_command("rank.jl", k - 1, size, job, id))
        run(pipeline(command; stdout = outputs[k], stderr = stderr); wait = false)
    end
    try
        within(() -> foreach(wait, processes), 240)
    finally
        foreach(process -> process_running(process) && kill(process), processes)
    end
    return map(output -> String(take!(output)), outputs)
end

@testset "processes get the bits of virtual ranks, and see that one dies" begin
    q = Quantizer("blocks-8", seed = 3)
    expected = [simulate([gradient(rank, 5000) for rank in 0:2], q; step = step) for step in 0:1]
    answer = bytes2hex(reinterpret(UInt8, vcat(expected...)))
    results = run_ranks(3, "bits_then_death")
    @test results[1] == results[2] == "$answer PEER_LOST rank 2\n"
    @test results[3] == "$answer "
end

@testset "processes refuse calls together, and measure the error of the next one" begin
    results = map(split, run_ranks(2, "refused_then_measured"))
    @test results[1][1:3] == fill("INVALID_ARGUMENT", 3)
    @test results[2][1:3] == fill("REMOTE_ERROR", 3)
    @test results[1][4:end] == results[2][4:end]
    counter, transport, measured = results[1][4:end]
    @test (counter, transport) == ("3", "processes")  # two refused calls and one
    inputs, q = [gradient(rank, 5000) for rank in 0:1], Quantizer("paper-gl4", seed = 3)
    expected = expected_error(inputs, q; step = 2, draws = 1)
    @test isapprox(parse(Float64, measured), expected; rtol = 1e-4)
end

@testset "processes compare their bits with the reference, and name the rank that differs" begin
    differs = "INTEGRITY ranks whose results differ: 1. On rank 1"
    @test run_ranks(2, "verified") == fill("236 $differs true\n", 2)
end

@testset "the environment of a launcher makes a group, on one machine and between several" begin
    port = string(rand(20000:30000))
    for (hosts, transport) in ((rank -> "one", "processes"), (rank -> "host$rank", "network"))
        outputs = [IOBuffer() for _ in 1:2]
        processes = map(0:1) do rank
            command = addenv_(julia_command("env_rank.jl"), "RANK" => string(rank),
                              "WORLD_SIZE" => "2", "MASTER_ADDR" => "127.0.0.1",
                              "GQSGD_PORT" => port, "GQSGD_SECRET" => "a secret of this test",
                              "GQSGD_HOST_ID" => hosts(rank))
            run(pipeline(command; stdout = outputs[rank + 1], stderr = stderr); wait = false)
        end
        within(() -> foreach(wait, processes), 240)
        for (rank, output) in enumerate(outputs)
            @test String(take!(output)) == "$(rank - 1) $transport [0.5, 3.0]\n"
        end
    end
end

@testset "a group between machines, by an id" begin
    id = network_id(interface = "lo")
    @test length(id) == 256
    @test status_of(() -> network_comm(unique_id(), 0, 1)) == :INVALID_ARGUMENT
    @test status_of(() -> network_comm(id[1:5], 0, 1)) == :INVALID_ARGUMENT
    @test status_of(() -> network_id(interface = "no-such-if")) == :INVALID_ARGUMENT
    @test status_of(() -> network_comm(id, 0, 1; interface = "lo", ucx = "/nowhere.so")) ==
          :UNSUPPORTED
end

# More ranks than cores, in a container, as root: Open MPI wants to be told that it is meant so.
const OPEN_MPI = Dict("OMPI_ALLOW_RUN_AS_ROOT" => "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" => "1",
                      "OMPI_MCA_rmaps_base_oversubscribe" => "1",
                      "OMPI_MCA_mpi_yield_when_idle" => "1")

@testset "ranks of MPI get the bits of virtual ranks" begin
    command = `mpirun -n 2 $(julia_command("mpi_rank.jl"))`
    @test within(() -> success(pipeline(setenv(command, merge(Dict(ENV), OPEN_MPI));
                                        stdout = stdout, stderr = stderr)), 240)
end
