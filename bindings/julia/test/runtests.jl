# The tests of GQSGD: `julia --project=.. runtests.jl [JUNIT_FILE]`. Two threads or more make the
# ranks of one process run at once; one is enough for all to pass.
using GQSGD, Test

include("junit.jl")
include("support.jl")

const FILES = ["abi", "layout", "loading", "quantizer", "errors", "collectives", "segments",
               "requests", "vectors", "stages", "theory", "processes", "elastic", "example",
               "cuda", "memory"]

@testset JUnitSet "GQSGD" begin
    for file in FILES
        @testset "$file" begin
            include("test_$file.jl")
        end
    end
end
