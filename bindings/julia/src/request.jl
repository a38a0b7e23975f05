# Request: a nonblocking collective.

"A collective that is ready to run: the C function, the one that starts it, what both are given, the
arrays that have to live meanwhile, and the result."
struct Collective
    run::Function
    start::Function
    arguments::Tuple
    arrays::Any
    result::Any
end

"""
    Request

What [`allreduce_start!`](@ref) and its like return. `fetch(request)` waits for the end and gives
the result, or throws what the collective failed with, then and at every later call;
`wait(request)` does so without the result; `isready(request)` is true once it has ended and never
waits. Other tasks run meanwhile. A request that is dropped still runs to its end and keeps its
arrays alive until then.
"""
mutable struct Request
    handle::ABI.gqsgd_request  # NULL once the end is known
    comm::Comm
    collective::Collective
    failure::Union{GQSGDError,Nothing}
end

const POLLS_WITHOUT_SLEEP = 100  # some tens of microseconds
const POLL_INTERVAL_S = 0.001    # what timers resolve

"Takes down the end of a request if it has come; false otherwise."
function note_end(request::Request)
    done = Ref{Int32}(0)
    code = ABI.gqsgd_request_test(request.handle, done)
    if done[] == 1
        request.handle = C_NULL
        code == 0 || (request.failure = failure_of(code))
    elseif code != 0 && code != ABI.STATUSES.BUSY  # busy: another task is at this communicator
        check(code)
    end
    return done[] == 1
end

# Under the lock, so that the failure of a request that has ended is there as well.
function Base.isready(request::Request)
    comm = request.comm
    lock(comm.lock) do
        request.handle == C_NULL && return true
        note_end(request) || return false
        filter!(other -> other !== request, comm.requests)
        return true
    end
end

# A task that waits lets others run on its thread: ranks of one process may be among them.
function await_end(request::Request)
    for _ in 1:POLLS_WITHOUT_SLEEP
        isready(request) && return
        yield()
    end
    while !isready(request)
        sleep(POLL_INTERVAL_S)
    end
end

function Base.fetch(request::Request)
    await_end(request)
    request.failure === nothing || throw(request.failure)
    return request.collective.result
end

Base.wait(request::Request) = (fetch(request); nothing)

function Base.show(io::IO, request::Request)
    state = request.handle != C_NULL ? "under way" :
            request.failure === nothing ? "ended" : "failed"
    print(io, "Request(rank ", request.comm.rank, ", ", state, ")")
end

"Starts a collective. What was dropped and has ended is let go here."
function start(comm::Comm, c::Collective)
    handle = Ref(ABI.gqsgd_request(C_NULL))
    lock(comm.lock) do
        filter!(request -> !note_end(request), comm.requests)
        GC.@preserve c check(c.start(comm, c.arguments..., handle))
        request = Request(handle[], comm, c, nothing)
        push!(comm.requests, request)
        return request
    end
end

"Runs a collective to its end. Ranks of one process must not wait inside C for each other: their
tasks may share a thread."
function run(comm::Comm, c::Collective)
    comm.shares_process && return fetch(start(comm, c))
    GC.@preserve c check(c.run(comm, c.arguments...))
    return c.result
end
