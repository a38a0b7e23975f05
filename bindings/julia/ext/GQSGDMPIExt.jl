"""
Communicators of MPI.jl as groups of ranks. Loaded by Julia 1.9 and later where both packages are.
"""
module GQSGDMPIExt

using GQSGD: GQSGD
using MPI: MPI

"""
    GQSGD.Comm(comm::MPI.Comm; options...)

[`mpi_comm`](@ref) of a communicator of MPI.jl, all of whose ranks call it.
"""
GQSGD.Comm(comm::MPI.Comm; options...) =
    GQSGD.mpi_comm(MPI.API.MPI_Comm_c2f(comm); options...)

end
