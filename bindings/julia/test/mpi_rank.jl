# One rank of test_processes.jl, started by mpirun. MPI itself is called by ccall, as MPI.jl does.
using GQSGD, Libdl, Test

include("support.jl")

const MPI = GQSGD.ABI.opened(GQSGD.ABI.LIBGQSGD_MPI)  # brings MPI with it
find(name) = dlsym(MPI, name)

@test status_of(mpi_comm) == :UNSUPPORTED  # not initialised yet
@test ccall(find(:MPI_Init), Cint, (Ptr{Cvoid}, Ptr{Cvoid}), C_NULL, C_NULL) == 0
world = find(:ompi_mpi_comm_world)  # what MPI_COMM_WORLD is in Open MPI: this object's address
handle = ccall(find(:MPI_Comm_c2f), Cint, (Ptr{Cvoid},), world)

q = Quantizer("blocks-8", seed = 3)
for make in (() -> mpi_comm(timeout_ms = 60000), () -> mpi_comm(handle; timeout_ms = 60000))
    comm = make()
    expected = simulate([gradient(rank, 3000) for rank in 0:(comm.size - 1)], q; step = 5)
    x = gradient(comm.rank, 3000)
    @test comm.size == 2
    @test allreduce(x, comm, q; step = 5) == expected
    @test fetch(allreduce_start!(similar(x), x, comm, q; step = 5)) == expected
    close(comm)
end
@test status_of(() -> mpi_comm(speed = :high)) == :INVALID_ARGUMENT
@test ccall(find(:MPI_Finalize), Cint, ()) == 0
