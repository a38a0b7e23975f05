# ABI.jl against tests/api/abi/layout.txt, the list that C and Python are tested with: sizes, places
# of fields, values of enumerators.
using GQSGD: ABI

const LAYOUT_FILE = joinpath(ROOT, "tests", "api", "abi", "layout.txt")
const LAYOUT = [split(line) for line in eachline(LAYOUT_FILE) if !startswith(line, '#')]
listed(kind) = Dict(name => parse(Int, number) for (of, name, number) in LAYOUT if of == kind)

const STRUCTS = Dict("gqsgd_config" => ABI.Config, "gqsgd_site" => ABI.Site)
const SIZED = Dict("gqsgd_comm" => ABI.gqsgd_comm, "gqsgd_quantizer" => ABI.gqsgd_quantizer,
                   "gqsgd_request" => ABI.gqsgd_request, "gqsgd_status" => ABI.gqsgd_status,
                   "gqsgd_dtype" => Int32, "gqsgd_op" => Int32, "gqsgd_schedule" => Int32,
                   "gqsgd_step_source" => Int32, "gqsgd_log_level" => Int32)

places(structs) = Dict("$name.$field" => Int(fieldoffset(type, k))
                       for (name, type) in structs for (k, field) in enumerate(fieldnames(type)))
listed_places(structs) = filter(line -> first(split(line.first, '.')) in keys(structs),
                                listed("offset"))

@testset "structs and types have the sizes and places of the list" begin
    @test places(STRUCTS) == listed_places(STRUCTS)
    sizes = listed("size")
    # Julia writes no transport of its own.
    @test setdiff(keys(sizes), keys(STRUCTS), keys(SIZED)) ==
          Set(["gqsgd_transport", "gqsgd_unique_id"])
    @test sizes["gqsgd_unique_id"] == ABI.UNIQUE_ID_SIZE_BYTES
    for (name, type) in merge(Dict{String,Type}(STRUCTS), SIZED)
        @test (name, sizeof(type)) == (name, sizes[name])
    end
end

@testset "enumerators have the values of the list" begin
    ours = Dict{String,Int}()
    for (prefix, table) in ("" => ABI.STATUSES, "" => ABI.DTYPES, "" => ABI.OPS,
                            "SCHEDULE_" => ABI.SCHEDULES, "STEP_" => ABI.STEP_SOURCES,
                            "LOG_" => ABI.LOG_LEVELS)
        merge!(ours, Dict("GQSGD_$prefix" * uppercase(string(k)) => v for (k, v) in pairs(table)))
    end
    for (k, name) in enumerate(GQSGD.CALLS)
        ours["GQSGD_CALLS_" * uppercase(string(name))] = k - 1
    end
    of_c_alone(name) = endswith(name, "_MAX_") || startswith(name, "GQSGD_ADD_")
    @test ours == filter(line -> !of_c_alone(line.first), listed("value"))
end

struct MovedConfig
    size_bytes::Csize_t
    step_source::Int32
    schedule::Int32
    step::UInt64
    index::UInt64
    device_step::Ptr{UInt32}
end

@testset "a struct with a moved field is seen" begin
    moved = Dict("gqsgd_config" => MovedConfig)
    @test places(moved) != listed_places(moved)
end
