# How the library is found, and the error where it is not.

"What a new Julia prints that runs `code` with other environment variables."
function printed(code, variables...)
    command = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE -e $code`
    return read(ignorestatus(addenv_(command, variables...)), String)
end

@testset "the package loads without the library, and its first use names what was tried" begin
    code = "using GQSGD; try Quantizer() catch e; showerror(stdout, e) end"
    text = printed(code, "GQSGD_LIBRARY" => "/nowhere/libgqsgd.so")
    @test occursin("libgqsgd.so.0 could not be loaded", text)
    @test occursin("/nowhere/libgqsgd.so", text)
    @test occursin("GQSGD_LIBRARY", text)
end

@testset "a FIFO as the library is refused at once" begin
    mktempdir() do folder
        fifo = joinpath(folder, "libgqsgd.so")
        run(`mkfifo $fifo`)
        code = "using GQSGD; try Quantizer() catch e; showerror(stdout, e) end"
        @test occursin("$fifo is not a regular file", printed(code, "GQSGD_LIBRARY" => fifo))
    end
end

@testset "a quantizer may be a constant of a package that is precompiled" begin
    mktempdir() do folder
        sources = mkpath(joinpath(folder, "Constant", "src"))
        write(joinpath(sources, "Constant.jl"), """
            module Constant
            using GQSGD
            const Q = Quantizer("blocks-8", seed = 3)
            end
            """)
        code = """
            using Constant, GQSGD
            results = run_local(comm -> allreduce(ones(Float32, 3), comm, Constant.Q), 2)
            finalize(Constant.Q)
            print(Constant.Q == Quantizer("blocks-8", seed = 3), results[1])
            """
        variables = ("JULIA_LOAD_PATH" => join([PACKAGE, folder, "@stdlib"], ':'),
                     "JULIA_DEPOT_PATH" => join([joinpath(folder, "depot"); DEPOT_PATH], ':'))
        for _ in 1:2  # it is precompiled, and loaded from there
            @test printed(code, variables...) == "trueFloat32[1.0, 1.0, 1.0]"
        end
    end
end

@testset "the library says what it is" begin
    @test GQSGD.version() == GQSGD.ABI.VERSION
    @test startswith(GQSGD.build_info(), "libgqsgd $(GQSGD.version())")
    @test isfile(GQSGD.library_path())
end

@testset "every exported name has a docstring" begin
    documented = keys(Base.Docs.meta(GQSGD))
    elsewhere = (:Site, :Stages, :GQSGD)  # a name of ABI, and modules, which hold theirs
    for name in filter(name -> !(name in elsewhere), names(GQSGD))
        @test (name, Base.Docs.Binding(GQSGD, name) in documented) == (name, true)
    end
end
