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

# More ranks than cores, in a container, as root: Open MPI wants to be told that it is meant so.
const OPEN_MPI = Dict("OMPI_ALLOW_RUN_AS_ROOT" => "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM" => "1",
                      "OMPI_MCA_rmaps_base_oversubscribe" => "1")

@testset "ranks of MPI get the bits of virtual ranks" begin
    command = `mpirun -n 2 $(julia_command("mpi_rank.jl"))`
    @test within(() -> success(pipeline(setenv(command, merge(Dict(ENV), OPEN_MPI));
                                        stdout = stdout, stderr = stderr)), 240)
end
