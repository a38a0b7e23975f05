# run_local: the ranks of a group as tasks of this process.

"""
    run_local(f, n; options...) -> Vector

Calls `f(comm)` in `n` tasks, one per rank of a new group; the results in rank order.

    means = run_local(4) do comm
        allreduce(gradients[comm.rank + 1], comm, Quantizer("blocks-8"))
    end

Tasks run on the threads that Julia was started with; one is enough. Options are those of
[`Comm`](@ref). The communicators are closed at the end. When `f` throws on one rank every
communicator is aborted, so that no rank waits for it; the first error that is no echo of another
rank's is thrown.
"""
function run_local(f, n::Integer; options...)
    comms = local_comms(n; options...)
    failures = Any[nothing for _ in comms]
    try
        tasks = [Threads.@spawn work(f, comms, comm, failures) for comm in comms]
        results = map(fetch, tasks)
        found = filter(!isnothing, failures)
        isempty(found) && return results
        throw(found[argmin(map(echo, found))])
    finally
        foreach(close, comms)
    end
end

function work(f, comms, comm, failures)
    try
        return f(comm)
    catch failure
        failures[comm.rank + 1] = failure
        foreach(give_up, vcat(comm, comms))  # its own first, so that the others name this rank
    end
end

"`f` may have closed a communicator: no task can be waiting in it then."
give_up(comm::Comm) = isopen(comm) && abort(comm)

"How far an error is from the cause: one that names a culprit comes before \"aborted\"."
echo(failure) = 0
function echo(failure::GQSGDError)
    failure.status in (:ABORTED, :REVOKED) && return 2
    return failure.status in (:REMOTE_ERROR, :PEER_LOST) ? 1 : 0
end
