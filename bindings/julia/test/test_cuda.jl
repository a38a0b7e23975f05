# Arrays of CUDA.jl over NCCL, on a device of threads, in a process of its own: another library.

const BUILD = joinpath(dirname(GQSGD.library_path()), "tests", "gpu", "nccl")

@testset "arrays of a GPU are reduced over NCCL, on their stream" begin
    on_threads = joinpath(BUILD, "libgqsgd_on_threads.so")
    @test isfile(on_threads)
    command = addenv_(julia_command("cuda_rank.jl"), "GQSGD_LIBRARY" => on_threads,
                      "GQSGD_NCCL_LIBRARY" => joinpath(BUILD, "libnccl_whole.so"))
    @test within(() -> read(command, String), 300) == "good"
end

@testset "without a GPU a group over NCCL is refused in words" begin
    failure = try nccl_unique_id(nccl = "/nowhere/libnccl.so") catch e; e end
    @test failure.status == :UNSUPPORTED && occursin("/nowhere/libnccl.so", failure.message)
end
