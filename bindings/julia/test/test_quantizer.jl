# Quantizers: specifications, fields, equality, sizes, serialization to other processes.
using Serialization

@testset "specification, fields and preset make equal quantizers" begin
    q = Quantizer("paper-gl8,seed=7")
    @test q == Quantizer("paper-gl8", seed = 7) == Quantizer(string(q))
    @test hash(q) == hash(Quantizer("paper-gl8", seed = 7))
    @test q != Quantizer("paper-gl8", seed = 8)
    @test string(q) == "$q" && occursin("seed=7", string(q))
    @test repr(q) == "Quantizer(\"paper-gl8,seed=7\")"
    @test repr(Quantizer("blocks-8,bits=4")) == "Quantizer(\"blocks-8,bits=4\")"
    @test map(name -> repr(Quantizer(name)), GQSGD.PRESETS) ==
          map(name -> "Quantizer($(repr(name)))", GQSGD.PRESETS)
    @test Quantizer() == Quantizer("blocks-8")
end

@testset "booleans, symbols and pairs are fields" begin
    q = Quantizer(levels = :linear, bits = 8, norm = (:inf, :inf), block = 128, rescale = true)
    @test all(part -> occursin(part, string(q)), ("norm=inf:inf", "block=128", "rescale=true"))
end

@testset "vectors are lists" begin
    comms = local_comms(2; nodes = [0, 1])
    @test length(comms) == 2
    foreach(close, comms)
end

@testset "what is not known is refused with what is" begin
    unknown = try Quantizer("no-such-preset") catch e; e end
    known = match(r"there are ([\w, -]*);", unknown.message)[1]
    @test Set(split(known, ", ")) == Set(GQSGD.PRESETS)
    failure = try Quantizer(bits = 5) catch e; e end
    @test failure.status == :INVALID_ARGUMENT && failure.code == 1
    @test occursin("bits", failure.message)
    @test sprint(showerror, failure) == "GQSGDError: INVALID_ARGUMENT (1): $(failure.message)"
    @test status_of(() -> Quantizer("a\0b")) == :INVALID_ARGUMENT
end

@testset "sizes are those of the format" begin
    @test packed_size(Quantizer("paper-gl8"), 1000) == 1000
    @test packed_size(Quantizer("paper-gl4"), 1001) == 504
    @test norm_count(Quantizer("blocks-8"), 1000) == 8
    @test result_size(Quantizer("rotated-4-8"), 1024) == 1024
    @test status_of(() -> packed_size(Quantizer(), -1)) == :INVALID_ARGUMENT
end

@testset "a quantizer travels as its specification" begin
    q, buffer = Quantizer("rotated-8", seed = 3), IOBuffer()
    serialize(buffer, [q])
    @test deserialize(seekstart(buffer)) == [q]
    @test deepcopy(q) === q
end
