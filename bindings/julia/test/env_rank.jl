# One rank of test_processes.jl, of which the environment has rank and size.
using GQSGD

comm = env_comm(timeout_ms = 120000)
mean = allreduce(Float32[comm.rank, 3], comm, Quantizer("none"))
println(comm.rank, " ", GQSGD.transport(comm), " ", Float64.(mean))
close(comm)
