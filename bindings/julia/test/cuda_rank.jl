# One rank over the stand-in of NCCL, on the device of threads: what the extension for CUDA.jl makes
# of arrays and streams. Prints "good" at its end.
push!(LOAD_PATH, joinpath(@__DIR__, "fakes"))
using GQSGD, CUDA
include(joinpath(@__DIR__, "..", "ext", "GQSGDCUDAExt.jl"))
using Test

# The stand-in has to be told what a null stream is: refused calls are made there.
let nccl = CUDA.dlopen(ENV["GQSGD_NCCL_LIBRARY"])
    stream = ccall(CUDA.symbol(:threads_default_stream), Ptr{Cvoid}, ())
    ccall(CUDA.dlsym(nccl, :stand_in_default_stream), Cvoid, (Ptr{Cvoid},), stream)
end

const VALUES = randn(Float32, 5000)
expected(q; options...) = simulate([VALUES], q; options...)

comm = nccl_comm(nccl_unique_id(), 0, 1; timeout_ms = 20000)
q = Quantizer("blocks-8", seed = 3)

x = CuArray(VALUES)
mean = allreduce(x, comm, q; step = 5)
@test mean isa CuArray{Float32}
@test Array(mean) == expected(q; step = 5)
@test Array(x) == VALUES
@test allreduce!(x, comm, q; op = :sum, step = 6) === x
@test Array(x) == expected(q; op = :sum, step = 6)

function status_of(f)
    try
        f()
    catch failure
        return failure.status
    end
    return :nothing
end
@test status_of(() -> allreduce!(VALUES, x, comm, q)) == :INVALID_ARGUMENT  # one of each memory
@test status_of(() -> allreduce!(view(x, 1:2:9), comm, q)) == :INVALID_ARGUMENT  # gaps
@test status_of(() -> Stages.norm(x, q; site = Site())) == :INVALID_ARGUMENT
@test status_of(() -> simulate([x], q)) == :INVALID_ARGUMENT
@test status_of(() -> nccl_comm(zeros(UInt8, 3), 0, 1)) == :INVALID_ARGUMENT
@test status_of(() -> nccl_comm(C_NULL)) == :INVALID_ARGUMENT
GQSGD.check(comm)
close(comm)
print("good")
