# The example, as one runs it in the REPL: it learns, and its processes agree.

@testset "processes fit the equation, and agree" begin
    file = joinpath(ROOT, "examples", "julia", "fit_ode.jl")
    code = "include($(repr(file))); fit(processes = 2, format = \"paper-ge4\", steps = 60)"
    output = IOBuffer()
    command = `$(Base.julia_cmd()) --startup-file=no --project=$PACKAGE -e $code`
    @test within(() -> success(pipeline(command; stdout = output, stderr = stderr)), 300)
    text = String(take!(output))
    first_loss = parse(Float64, match(r"step    1: loss (\S+)", text)[1])
    last_loss = parse(Float64, match(r"loss (\S+) after 60 steps", text)[1])
    @test last_loss < first_loss / 20
    @test occursin("agree bit for bit: true", text)
end
