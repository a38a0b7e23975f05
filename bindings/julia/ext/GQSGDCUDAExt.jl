"""
Arrays of CUDA.jl as the library sees them. Loaded by Julia 1.9 and later where both packages are.
"""
module GQSGDCUDAExt

using CUDA: CUDA, CuArray
using GQSGD: GQSGD

const LEGACY_STREAM = Ptr{Cvoid}(1)  # cudaStreamLegacy; NULL would stand for host memory

GQSGD.memory(::CuArray) = :device

# Asking for the address makes CUDA.jl order its own work on `x` before that of the task's stream.
GQSGD.device_address(x::CuArray) = reinterpret(Ptr{Cvoid}, pointer(x))

function GQSGD.device_stream(::CuArray)
    handle = reinterpret(Ptr{Cvoid}, CUDA.stream().handle)
    return handle == C_NULL ? LEGACY_STREAM : handle
end

end
