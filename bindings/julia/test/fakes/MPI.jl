__precompile__(false)  # addresses of a library are of a process

"""
What of MPI.jl the extension uses, over the MPI that libgqsgd_mpi brings with it.
"""
module MPI

using GQSGD: ABI
using Libdl: dlsym

mutable struct Comm
    val::Ptr{Cvoid}
end

find(name) = dlsym(ABI.opened(ABI.LIBGQSGD_MPI), name)

module API

using ..MPI: Comm, find

MPI_Comm_c2f(comm::Comm) = ccall(find(:MPI_Comm_c2f), Cint, (Ptr{Cvoid},), comm.val)

end

end
