"""
Global-QSGD: allreduce of gradients in 8 or 4 bits, without bias.

    using GQSGD
    q = Quantizer("blocks-8", seed = 7)
    gradients = [randn(Float32, 1000) for rank in 0:3]
    means = run_local(comm -> allreduce(gradients[comm.rank + 1], comm, q), 4)

The package calls libgqsgd through its C ABI ([`GQSGD.ABI`](@ref)) and holds no arithmetic of its
own. Loading it needs no library; the first use opens the one that `ENV["GQSGD_LIBRARY"]` names,
or what the dynamic loader finds.
"""
module GQSGD

using Serialization: Serialization, AbstractSerializer, deserialize, serialize

export Comm, GQSGDError, Quantizer, Request, Site, Stages
export env_comm, local_comms, mpi_comm, nccl_comm, nccl_unique_id, network_comm, network_id
export local_id, process_comm, reconfigure, revoke, run_local, shrink, unique_id
export allgather, allgather!, allgather_start!, allreduce, allreduce!, allreduce_many!
export allreduce_many_start!, allreduce_start!, reduce_scatter, reduce_scatter!
export reduce_scatter_start!
export depth_factor, expected_error, measured_error, predict_time, simulate, sparsity_bound
export variance_bound
export norm_count, packed_size, result_size

include("ABI.jl")
using .ABI: Site
include("errors.jl")
include("arguments.jl")
include("arrays.jl")
include("quantizer.jl")
include("comm.jl")
include("request.jl")
include("collectives.jl")
include("segments.jl")
include("local.jl")
include("nccl.jl")
include("network.jl")
include("elastic.jl")
include("theory.jl")
include("Stages.jl")

"""
    GQSGD.version() -> VersionNumber

Version of the library in use.
"""
version() = ABI.version_number(ABI.gqsgd_version())

"""
    GQSGD.build_info() -> String

One line: version, wire version, compiler, instruction set in use, backends.
"""
build_info() = unsafe_string(ABI.gqsgd_build_info())

"""
    GQSGD.library_path() -> String

The file that the library was loaded from.
"""
library_path() = ABI.Libdl.dlpath(ABI.opened(ABI.LIBGQSGD))

end
