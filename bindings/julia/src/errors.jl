# GQSGDError: the one exception of this package.

"""
    GQSGDError <: Exception

What a call failed with.

- `status::Symbol`: the name of the status, `:PEER_LOST` for example; docs/ERRORS.md has them all.
- `code::Int`: its number in gqsgd.h.
- `message::String`: the library's sentence: rank, operation, field, both values and a hint.

`:INVALID_ARGUMENT`, `:UNSUPPORTED`, `:MISMATCH`, `:REMOTE_ERROR` and `:NONFINITE` leave results
untouched and the communicator usable; `:TIMEOUT`, `:PEER_LOST`, `:ABORTED`, `:REVOKED`,
`:PROTOCOL`, `:INTEGRITY` and `:BACKEND` break it: `close` is what is left. `GQSGD.check(comm)`
tells the two apart.
"""
struct GQSGDError <: Exception
    status::Symbol
    code::Int
    message::String
end

GQSGDError(status::Symbol, message::AbstractString) =
    GQSGDError(status, ABI.STATUSES[status], message)

Base.showerror(io::IO, failure::GQSGDError) =
    print(io, "GQSGDError: ", failure.status, " (", failure.code, "): ", failure.message)

"What a status of the library means on this thread, its last sentence included."
function failure_of(code::Integer)
    message = unsafe_string(ABI.gqsgd_last_error())
    for (status, number) in pairs(ABI.STATUSES)
        number == code && return GQSGDError(status, code, message)
    end
    return GQSGDError(Symbol("STATUS_", code), code, message)  # newer than this package
end

check(code::Int32) = code == 0 ? nothing : throw(failure_of(code))

"Refuses an argument that cannot be handed to the library."
refuse(sentence...) = throw(GQSGDError(:INVALID_ARGUMENT, string(sentence...)))
