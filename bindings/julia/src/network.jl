# Groups between machines, and groups that mpirun, srun or torchrun has started
# (docs/TWO_MACHINES.md).

"""
    network_id(; options...) -> Vector{UInt8}

A fresh name, secret and address for a group between machines. The process that makes it is rank 0,
and listens at the address from then on, until the group has formed. Pass the bytes to all ranks by
a channel that no other user can read. `interface` names the network interface whose address that
is, or `address` the address; by default `ENV["GQSGD_INTERFACE"]` or `ENV["GQSGD_ADDRESS"]`, else
the first interface that is up and no loopback. `port` is any free one by default. Throws
`:INVALID_ARGUMENT` for an address that no other machine reaches, `:NO_RESOURCE` for a port in use.
"""
function network_id(; options...)
    bytes = zeros(UInt8, ABI.UNIQUE_ID_SIZE_BYTES)
    check(ABI.gqsgd_network_id_create(joined_fields("", options), bytes))
    return bytes
end

"""
    network_comm(unique_id, rank, size; options...) -> Comm

Joins a group of `size` processes on any machines as rank `rank`, from 0; `unique_id` is what
[`network_id`](@ref) made in the process of rank 0. Codes travel over UCX, arrays are in host
memory. Options besides the others: `interface` or `address`, at which the others reach this
process; `host_id`, equal for ranks of one node; `paths`, connections of UCX to each other rank, for
links that one does not fill; `ucx`, the file of the UCX to use, by default
`ENV["GQSGD_UCX_LIBRARY"]` or the system's. Returns when all ranks are there. Throws `:UNSUPPORTED`
without UCX, `:TIMEOUT`, which names the missing ranks, `:MISMATCH` where sizes differ,
`:DUPLICATE_RANK`, `:PEER_LOST` or `:VERSION`. Nothing is left behind then.
"""
network_comm(unique_id::Vector{UInt8}, rank::Integer, size::Integer; options...) =
    join_group(ABI.gqsgd_comm_create_network, "what network_id() returned on rank 0", unique_id,
               rank, size, options)

"""
    env_comm(; options...) -> Comm

Joins the group that torchrun, mpirun, mpiexec or srun has started, of which it reads the
environment: rank, size and the address of rank 0 (docs/TRANSPORTS.md has the variables). Processes
of one user on one machine get the transport of [`process_comm`](@ref), others that of
[`network_comm`](@ref), with its options. `ENV["GQSGD_SECRET"]`, equal on all ranks, keeps other
processes out. Throws what these throw, and `:INVALID_ARGUMENT` with the variable that is missing or
wrong.
"""
env_comm(; options...) =
    created(handle -> ABI.gqsgd_comm_create_env(joined_fields("", options), handle))
