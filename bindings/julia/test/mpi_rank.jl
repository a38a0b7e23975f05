# One rank of test_processes.jl, started by mpirun. MPI itself is called by ccall, as MPI.jl does.
push!(LOAD_PATH, joinpath(@__DIR__, "fakes"))
using GQSGD, MPI, Test
include(joinpath(@__DIR__, "..", "ext", "GQSGDMPIExt.jl"))
include("support.jl")

using .MPI: find

@test status_of(mpi_comm) == :UNSUPPORTED  # not initialised yet
@test ccall(find(:MPI_Init), Cint, (Ptr{Cvoid}, Ptr{Cvoid}), C_NULL, C_NULL) == 0
world = find(:ompi_mpi_comm_world)  # what MPI_COMM_WORLD is in Open MPI: this object's address
handle = MPI.API.MPI_Comm_c2f(MPI.Comm(world))

q = Quantizer("blocks-8", seed = 3)
for make in (mpi_comm, (; options...) -> mpi_comm(handle; options...),
             (; options...) -> Comm(MPI.Comm(world); options...))
    comm = make(; timeout_ms = 60000)
    expected = simulate([gradient(rank, 3000) for rank in 0:(comm.size - 1)], q; step = 5)
    x = gradient(comm.rank, 3000)
    @test comm.size == 2
    @test GQSGD.transport(comm) == "mpi"
    @test allreduce(x, comm, q; step = 5) == expected
    @test fetch(allreduce_start!(similar(x), x, comm, q; step = 5)) == expected
    close(comm)
end
@test status_of(() -> mpi_comm(speed = :high)) == :INVALID_ARGUMENT
@test ccall(find(:MPI_Finalize), Cint, ()) == 0
