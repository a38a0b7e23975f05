# ABI.jl against gqsgd.h, gqsgd_segments.h, gqsgd_nccl.h and gqsgd_mpi.h: every status, constant,
# struct and prototype, both ways.
using GQSGD: ABI

without_comments(code) = replace(code, r"/\*.*?\*/"s => "")
header_text(name) = read(joinpath(ROOT, "include", name), String)
const HEADER = header_text("gqsgd.h") * header_text("gqsgd_segments.h")
const HEADER_CODE = without_comments(HEADER)

const JULIA_TYPES = Dict(
    "void" => Cvoid, "gqsgd_status" => Int32, "int32_t" => Int32, "int64_t" => Int64,
    "uint64_t" => UInt64, "size_t" => Csize_t, "const char*" => Cstring, "char*" => Ptr{UInt8},
    "void*" => Ptr{Cvoid}, "const void*" => Ptr{Cvoid}, "double*" => Ptr{Cdouble},
    "float*" => Ptr{Cfloat}, "const float*" => Ptr{Cfloat}, "uint32_t*" => Ptr{UInt32},
    "const uint32_t*" => Ptr{UInt32}, "const void*const*" => Ptr{Ptr{Cvoid}},
    "void*const*" => Ptr{Ptr{Cvoid}}, "const uint32_t*const*" => Ptr{Ptr{UInt32}},
    "int32_t*" => Ptr{Int32}, "int64_t*" => Ptr{Int64}, "uint64_t*" => Ptr{UInt64},
    "const uint64_t[2]" => Ptr{UInt64}, "size_t*" => Ptr{Csize_t},
    "const size_t*" => Ptr{Csize_t}, "gqsgd_comm" => ABI.gqsgd_comm,
    "gqsgd_comm*" => Ptr{ABI.gqsgd_comm}, "gqsgd_quantizer" => ABI.gqsgd_quantizer,
    "gqsgd_quantizer*" => Ptr{ABI.gqsgd_quantizer}, "gqsgd_request" => ABI.gqsgd_request,
    "gqsgd_request*" => Ptr{ABI.gqsgd_request}, "gqsgd_unique_id*" => Ptr{UInt8},
    "const gqsgd_unique_id*" => Ptr{UInt8}, "const gqsgd_site*" => Ptr{ABI.Site},
    "gqsgd_log_callback" => Ptr{Cvoid})

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

@testset "prototypes equal those of gqsgd.h, gqsgd_segments.h and gqsgd_nccl.h" begin
    code = HEADER_CODE * without_comments(header_text("gqsgd_nccl.h"))
    found = declared(code, r"GQSGD_API\s+([\w\s*]*?)(gqsgd_\w+)\(([^;]*)\);")
    @test length(found) == length(collect(eachmatch(r"(?<!define )GQSGD_API ", code)))
    @test sort(collect(keys(found))) == sort(collect(keys(ABI.LIBGQSGD.prototypes)))
    for (name, prototype) in found
        @test (name, prototype) == (name, get(ABI.LIBGQSGD.prototypes, name, nothing))
    end
end

@testset "prototypes equal those of gqsgd_mpi.h without an MPI_Comm" begin
    code = without_comments(header_text("gqsgd_mpi.h"))
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
    for (prefix, table) in ("" => ABI.DTYPES, "" => ABI.OPS, "SCHEDULE_" => ABI.SCHEDULES)
        merge!(ours, Dict(prefix * uppercase(string(k)) => v for (k, v) in pairs(table)))
    end
    rows = eachmatch(r"GQSGD_(\w+) = (\d+)", HEADER_CODE)
    @test Dict(row[1] => parse(Int, row[2]) for row in rows) == ours
    @test occursin("#define GQSGD_AT_DEVICE UINT64_MAX\n", HEADER)
    @test ABI.AT_DEVICE == 0xffffffffffffffff
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

@testset "the site equals the header's" begin
    body = match(r"typedef struct \{([^}]*)\} gqsgd_site;", HEADER_CODE)[1]
    names = Tuple(Symbol(row[1]) for row in eachmatch(r"uint64_t (\w+);", body))
    @test fieldnames(Site) == names
    @test count(==(';'), body) == length(names)
    @test sizeof(Site) == 8 * length(names)
    @test all(==(UInt64), fieldtypes(Site))
end

@testset "names of counters equal the header's" begin
    comment = match(r"/\*\* One counter by name:(.*?)\*/"s, HEADER)[1]
    @test Tuple(Symbol(row[1]) for row in eachmatch(r"\"(\w+)\"", comment)) == ABI.STATS
end
