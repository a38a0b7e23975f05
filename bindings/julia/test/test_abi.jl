# ABI.jl against gqsgd.h, gqsgd_stages.h, gqsgd_model.h, gqsgd_log.h, gqsgd_nccl.h, gqsgd_network.h,
# gqsgd_elastic.h and gqsgd_mpi.h: every status, constant, struct and prototype, both ways.
using GQSGD: ABI

const INCLUDE = joinpath(ROOT, "include")
const HEADERS = ["gqsgd.h", "gqsgd_stages.h", "gqsgd_model.h", "gqsgd_log.h", "gqsgd_nccl.h",
                 "gqsgd_network.h", "gqsgd_elastic.h"]

header_text(name) = read(joinpath(INCLUDE, name), String)
"Without comments and lines of the preprocessor."
function code_of(text)
    code = replace(text, r"/\*.*?\*/|//[^\n]*"s => "")
    return replace(code, r"^[ \t]*#(?:.*\\\n)*.*$"m => "")
end
const HEADER = join(header_text(name) for name in HEADERS)
const HEADER_CODE = code_of(HEADER)

const JULIA_TYPES = Dict(
    "void" => Cvoid, "gqsgd_status" => Int32, "int32_t" => Int32, "int64_t" => Int64,
    "uint64_t" => UInt64, "size_t" => Csize_t, "const char*" => Cstring, "char*" => Ptr{UInt8},
    "void*" => Ptr{Cvoid}, "const void*" => Ptr{Cvoid}, "double*" => Ptr{Cdouble},
    "float*" => Ptr{Cfloat}, "const float*" => Ptr{Cfloat}, "uint32_t*" => Ptr{UInt32},
    "const uint32_t*" => Ptr{UInt32}, "const void*const*" => Ptr{Ptr{Cvoid}},
    "void*const*" => Ptr{Ptr{Cvoid}}, "const uint32_t*const*" => Ptr{Ptr{UInt32}},
    "int32_t*" => Ptr{Int32}, "const int32_t*" => Ptr{Int32},
    "int64_t*" => Ptr{Int64}, "uint64_t*" => Ptr{UInt64},
    "const char**" => Ptr{Cstring}, "size_t*" => Ptr{Csize_t}, "gqsgd_dtype" => Int32,
    "gqsgd_op" => Int32, "gqsgd_schedule" => Int32, "gqsgd_step_source" => Int32,
    "gqsgd_log_level" => Int32, "const gqsgd_config*" => Ptr{ABI.Config},
    "const size_t*" => Ptr{Csize_t}, "gqsgd_comm" => ABI.gqsgd_comm,
    "gqsgd_comm*" => Ptr{ABI.gqsgd_comm}, "gqsgd_quantizer" => ABI.gqsgd_quantizer,
    "gqsgd_quantizer*" => Ptr{ABI.gqsgd_quantizer}, "gqsgd_request" => ABI.gqsgd_request,
    "gqsgd_request*" => Ptr{ABI.gqsgd_request}, "gqsgd_unique_id*" => Ptr{UInt8},
    "const gqsgd_unique_id*" => Ptr{UInt8}, "const gqsgd_site*" => Ptr{ABI.Site},
    "uint8_t*" => Ptr{UInt8}, "gqsgd_log_callback" => Ptr{Cvoid})

"`const void *const *send` as `const void*const*`: the name is dropped."
function type_of(declaration)
    pattern = r"^\s*((?:const\s+)?\w+)((?:[\s*]|const\b)*?)(\w+)?\s*(\[\d+\])?\s*$"
    parts = match(pattern, declaration)
    base, pointers, _, array = parts.captures
    spelled = string(join(split(base), ' '), filter(!isspace, pointers), something(array, ""))
    return JULIA_TYPES[spelled]
end

function declared(code, pattern)
    return Dict(map(collect(eachmatch(pattern, code))) do found
        result, name, parameters = found.captures
        types = parameters == "void" ? [] : type_of.(split(parameters, ','))
        Symbol(name) => (type_of(result * " "), Any[types...])
    end)
end

@testset "prototypes equal those of the headers" begin
    found = declared(HEADER_CODE, r"^([\w\s*]*?)\b(gqsgd_\w+)\(([^()]*)\);"m)
    # Counted in another way as well: a declaration that the pattern does not fit is none less.
    @test length(found) == length(collect(eachmatch(r"\bgqsgd_\w+\(", HEADER_CODE))) > 50
    @test sort(collect(keys(found))) == sort(collect(keys(ABI.LIBGQSGD.prototypes)))
    for (name, prototype) in found
        @test (name, prototype) == (name, get(ABI.LIBGQSGD.prototypes, name, nothing))
    end
end

@testset "no header is left out" begin
    of_c_alone = ["gqsgd_mpi.h", "gqsgd_mpi_table.h", "gqsgd_transport.h"]  # or of the next test
    @test sort(readdir(INCLUDE)) == sort(vcat(HEADERS, of_c_alone))
end

@testset "prototypes equal those of gqsgd_mpi.h without an MPI_Comm" begin
    code = replace(header_text("gqsgd_mpi.h"), r"/\*.*?\*/"s => "")
    pattern = r"GQSGD_MPI_API\s+(gqsgd_status) (gqsgd_\w+)\(((?!MPI_Comm)[^;{]*)\);"
    found = declared(code, pattern)
    @test length(found) == 2
    @test found == ABI.LIBGQSGD_MPI.prototypes
end

@testset "statuses equal the header's" begin
    rows = eachmatch(r"X\((\w+), (\d+), \"", HEADER)
    @test Dict(Symbol(row[1]) => parse(Int, row[2]) for row in rows) == Dict(pairs(ABI.STATUSES))
    for (name, number) in pairs(ABI.STATUSES)
        @test unsafe_string(ABI.gqsgd_status_name(number)) == string(name)
    end
end

@testset "constants equal the header's" begin
    ours = Dict{String,Int}()
    for (prefix, table) in ("" => ABI.DTYPES, "" => ABI.OPS, "SCHEDULE_" => ABI.SCHEDULES,
                            "STEP_" => ABI.STEP_SOURCES, "LOG_" => ABI.LOG_LEVELS)
        merge!(ours, Dict(prefix * uppercase(string(k)) => v for (k, v) in pairs(table)))
    end
    merge!(ours, Dict("CALLS_" * uppercase(string(name)) => k - 1
                      for (k, name) in enumerate(GQSGD.CALLS)))
    rows = collect(eachmatch(r"GQSGD_(\w+) = (\d+)", HEADER_CODE))
    @test length(rows) == length(ours)
    @test Dict(row[1] => parse(Int, row[2]) for row in rows) == ours
end

@testset "version, soname and sizes equal the header's" begin
    numbers = eachmatch(r"#define GQSGD_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", HEADER)
    @test VersionNumber(map(row -> parse(Int, row[1]), collect(numbers))...) == ABI.VERSION
    @test ABI.LIBGQSGD.soname == "libgqsgd.so.$(ABI.VERSION.major)"
    project = read(joinpath(PACKAGE, "Project.toml"), String)
    @test occursin("version = \"$(ABI.VERSION)\"", project)
    size = match(r"unsigned char bytes\[(\d+)\];\s*\} gqsgd_unique_id;", HEADER_CODE)
    @test parse(Int, size[1]) == ABI.UNIQUE_ID_SIZE_BYTES
end

"[(name, type)] of the fields of a struct of the headers."
function fields_of(name)
    body = match(Regex("typedef struct \\{([^{}]*)\\} $name;"), HEADER_CODE)[1]
    declarations = filter(!isempty, map(strip, split(body, ';')))
    return [(Symbol(match(r"\w+$", each).match), type_of(each)) for each in declarations]
end

@testset "the site equals the header's" begin
    @test collect(zip(fieldnames(Site), fieldtypes(Site))) == fields_of("gqsgd_site")
    @test all(==(UInt64), fieldtypes(Site))
end

@testset "the config equals the header's, and begins as its initializer" begin
    @test collect(zip(fieldnames(ABI.Config), fieldtypes(ABI.Config))) == fields_of("gqsgd_config")
    values = match(r"GQSGD_CONFIG_INIT[\s\\]*\{ ([^}]*) \}", HEADER)[1]
    @test values == "sizeof(gqsgd_config), GQSGD_SCHEDULE_AUTO, GQSGD_STEP_COUNTER, 0, 0, NULL"
    begun = ABI.Config()
    @test map(name -> getfield(begun, name), fieldnames(ABI.Config)) ==
          (sizeof(ABI.Config), 0, 0, 0, 0, C_NULL)
end

@testset "names of counters equal the header's" begin
    sentence = match(r"/\*\* Running totals of this rank: (.*?)\. "s, HEADER)[1]
    names = split(replace(sentence, r"\([^)]*\)|\n \*" => ""), ',')
    @test Tuple(Symbol(strip(name)) for name in names) == ABI.STATS
end
