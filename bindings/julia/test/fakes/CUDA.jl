__precompile__(false)  # addresses of a library are of a process

"""
What of CUDA.jl the extension uses, over the device of threads that the library's own tests have:
its memory, and one stream.
"""
module CUDA

using Libdl: dlopen, dlsym

export CuArray

const LIBRARY = dlopen(ENV["GQSGD_LIBRARY"])
symbol(name) = dlsym(LIBRARY, name)

primitive type CuPtr{T} 64 end

mutable struct CuArray{T} <: DenseVector{T}
    address::Ptr{T}
    count::Int
    function CuArray{T}(::UndefInitializer, count::Integer) where {T}
        address = ccall(symbol(:threads_allocate), Ptr{T}, (Csize_t,), count * sizeof(T))
        free(x) = ccall(symbol(:threads_release), Cvoid, (Ptr{T},), x.address)
        return finalizer(free, new{T}(address, count))
    end
end
function CuArray(values::Vector{T}) where {T}
    x = CuArray{T}(undef, length(values))
    GC.@preserve x values unsafe_copyto!(x.address, pointer(values), length(values))
    return x
end
Base.size(x::CuArray) = (x.count,)
Base.similar(x::CuArray, ::Type{T}, dims::Dims{1}) where {T} = CuArray{T}(undef, dims[1])
Base.pointer(x::CuArray{T}) where {T} = reinterpret(CuPtr{T}, x.address)

"What a synchronisation and a copy to the host give."
function Base.Array(x::CuArray{T}) where {T}
    done = ccall(symbol(:threads_synchronize), Cint, (Ptr{Cvoid}, Cint), STREAM, 20000)
    done == 1 || error("the stream does not get there")
    return GC.@preserve x copy(unsafe_wrap(Vector{T}, x.address, x.count))
end

const STREAM = ccall(symbol(:threads_make_stream), Ptr{Cvoid}, ())
stream() = (handle = ccall(symbol(:threads_handle), Ptr{Cvoid}, (Ptr{Cvoid},), STREAM),)

end
