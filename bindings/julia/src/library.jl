# The shared libraries: where they are looked for, and the macro that makes a C function callable.
using Libdl

"A shared library that is opened at its first use, so that loading the package needs none."
mutable struct SharedLibrary
    soname::String
    variable::String  # the environment variable that names it outright
    flags::UInt32
    handle::Ptr{Cvoid}
    prototypes::Dict{Symbol,Tuple{Any,Vector{Any}}}  # name => (result, arguments), for tests
end
SharedLibrary(soname, variable, flags) = SharedLibrary(soname, variable, flags, C_NULL, Dict())

const LIBGQSGD = SharedLibrary("libgqsgd.so.0", "GQSGD_LIBRARY", RTLD_NOW)
# An MPI's plugins want its symbols global.
const LIBGQSGD_MPI =
    SharedLibrary("libgqsgd_mpi.so.0", "GQSGD_MPI_LIBRARY", RTLD_NOW | RTLD_GLOBAL)
const OPENING = ReentrantLock()

"Places besides the dynamic loader's: libgqsgd_mpi lies beside libgqsgd, or where a build has it."
function folders(library::SharedLibrary)
    library === LIBGQSGD && return String[]
    beside = dirname(realpath(dlpath(opened(LIBGQSGD))))
    return [beside, joinpath(beside, "bindings", "mpi")]
end

"The variable's file alone where it is set: a wrong path must not become another library."
function candidates(library::SharedLibrary)
    named = get(ENV, library.variable, "")
    isempty(named) || return [named]
    found = filter(isfile, joinpath.(folders(library), library.soname))
    return vcat(found, library.soname)
end

function opened(library::SharedLibrary)
    library.handle == C_NULL || return library.handle
    lock(OPENING) do
        library.handle == C_NULL && (library.handle = open_first(library))
    end
    return library.handle
end

function open_first(library::SharedLibrary)
    name = first(candidates(library))
    handle = try
        # dlopen would wait for a writer of a FIFO
        ispath(name) && !isfile(name) && error("$name is not a regular file")
        dlopen(name, library.flags)
    catch failure
        reason = sprint(showerror, failure)
        # Of a library for another architecture the loader says that there is no such file.
        is_there = occursin('/', name) && isfile(name) && occursin("\n$name", reason)
        error("$(library.soname) could not be loaded: $reason.\n",
              is_there ? "The file is there; it is no library for $(Sys.ARCH).\n" : "",
              "Set ENV[\"$(library.variable)\"] to the file of a build or an installation ",
              "(it is $(repr(get(ENV, library.variable, ""))) now).")
    end
    library === LIBGQSGD && require_version(handle, name)
    return handle
end

function require_version(handle, name)
    found = ccall(symbol(handle, LIBGQSGD, :gqsgd_version), Int32, ())
    div(found, 10000) == VERSION.major && return
    error("$name is version $(version_number(found)); GQSGD $VERSION was written for ",
          "$(VERSION.major).x. Set ENV[\"GQSGD_LIBRARY\"] to a matching one.")
end

version_number(number) = VersionNumber(div(number, 10000), div(number, 100) % 100, number % 100)

"The address of a C function, looked up at its first call."
function address(slot::Ref{Ptr{Cvoid}}, library::SharedLibrary, name::Symbol)
    slot[] == C_NULL && (slot[] = symbol(opened(library), library, name))
    return slot[]
end

"Where a C function lies; a library that lacks it is another one, or older than this package."
function symbol(handle, library::SharedLibrary, name::Symbol)
    found = dlsym(handle, name; throw_error = false)
    found === nothing || return found
    error("$(dlpath(handle)) has no $name: it is not the $(library.soname) of GQSGD $VERSION. ",
          "Set ENV[\"$(library.variable)\"] to a matching one.")
end

"""
    @c library name(argument::Type, ..)::Result
    @c library waiting name(argument::Type, ..)::Result

Defines the function `name` as a call of the C function of that name. One that is `waiting` may wait
for other ranks, or compute for long: Julia's garbage collector need not wait for it. (Otherwise a
rank that waits would stop every thread of its process at the next collection, and with them the
ranks that it waits for.)
"""
macro c(library, words...)
    declaration = last(words)
    length(words) == 1 || words[1] === :waiting || error("@c: unknown word $(words[1])")
    call, result = declaration.args
    name, arguments = call.args[1], call.args[2:end]
    names = Symbol[argument.args[1] for argument in arguments]
    types = Any[argument.args[2] for argument in arguments]
    slot, target = gensym(name), gensym(:target)
    make_call = length(words) == 1 ? plain_call : collectable_call
    return esc(quote
        const $slot = Ref{Ptr{Cvoid}}(C_NULL)
        function $name($(names...))
            $target = address($slot, $library, $(QuoteNode(name)))
            $(make_call(target, result, types, names))
        end
        $library.prototypes[$(QuoteNode(name))] = ($result, Any[$(types...)])
    end)
end

plain_call(target, result, types, values) =
    :(ccall($target, $result, ($(types...),), $(values...)))

"Conversions come first: nothing may be allocated while the collector is free to run."
function collectable_call(target, result, types, values)
    kept, raw = gensym.(values), gensym.(values)
    state, answer = gensym(:state), gensym(:answer)
    keep = [:($k = Base.cconvert($t, $v)) for (k, t, v) in zip(kept, types, values)]
    convert = [:($r = Base.unsafe_convert($t, $k)) for (r, t, k) in zip(raw, types, kept)]
    return quote
        $(keep...)
        GC.@preserve $(kept...) begin
            $(convert...)
            $state = ccall(:jl_gc_safe_enter, Int8, ())
            $answer = ccall($target, $result, ($(types...),), $(raw...))
            ccall(:jl_gc_safe_leave, Cvoid, (Int8,), $state)
        end
        $answer
    end
end
