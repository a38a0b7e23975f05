# How the library is found, and the error where it is not.

@testset "the package loads without the library, and its first use names what was tried" begin
    code = "using GQSGD; try Quantizer() catch e; showerror(stdout, e) end"
    text = printed(code, "GQSGD_LIBRARY" => "/nowhere/libgqsgd.so")
    @test occursin("libgqsgd.so.0 could not be loaded", text)
    @test occursin("/nowhere/libgqsgd.so", text)
    @test occursin("GQSGD_LIBRARY", text)
end

@testset "a library of another kind or version is named with what it lacks" begin
    code = "using GQSGD; try Quantizer() catch e; showerror(stdout, e) end"
    text = printed(code, "GQSGD_LIBRARY" => "libm.so.6")
    @test occursin(r"libm.* has no gqsgd_version: it is not the libgqsgd.so.0 of GQSGD 0\.", text)
    mktempdir() do folder
        source, older = joinpath(folder, "older.c"), joinpath(folder, "libgqsgd.so")
        write(source, "int gqsgd_version(void) { return 1; }")
        run(`cc -shared -fPIC -o $older $source`)
        text = printed(code, "GQSGD_LIBRARY" => older)
        @test occursin("$older has no gqsgd_quantizer_create: it is not", text)
        @test occursin("Set ENV[\"GQSGD_LIBRARY\"] to a matching one", text)
    end
end

@testset "a library of another architecture is not said to be missing" begin
    mktempdir() do folder  # the loader says "No such file" of it
        foreign = joinpath(folder, "libgqsgd.so")
        bytes = read(GQSGD.library_path())
        bytes[19:20] = [0xf3, 0x00]  # e_machine: RISC-V
        write(foreign, bytes)
        code = "using GQSGD; try Quantizer() catch e; showerror(stdout, e) end"
        text = printed(code, "GQSGD_LIBRARY" => foreign)
        @test occursin("The file is there; it is no library for $(Sys.ARCH)", text)
    end
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
