# 10,000 calls leave nothing behind: not in the library, not in Julia.

function resident_kb()
    status = read("/proc/self/status", String)
    return parse(Int, match(r"VmRSS:\s+(\d+) kB", status)[1])
end

"Calls with collections in between: how long garbage may lie is not the question here."
function call_often(f, count)
    for k in 1:count
        f()
        k % 500 == 0 && GC.gc()
    end
    GC.gc()
end

"Growth in kB over calls, after some of them that fill what is kept on purpose."
function growth_kb(f, warm, count)
    call_often(f, warm)
    before = resident_kb()
    call_often(f, count)
    return resident_kb() - before
end

# A leaked handle, request or array of 1000 values is 1 to 4 kB: 10,000 of them are 10 MB or more.
const GROWTH_MAX_KB = 6000

@testset "10,000 allreduces" begin
    comm = process_comm(unique_id(), 0, 1)
    x, q = gradient(0, 1000), Quantizer()
    @test growth_kb(() -> allreduce(x, comm, q), 1000, 10000) < GROWTH_MAX_KB
    close(comm)
end

@testset "10,000 requests, waited for and dropped" begin
    comm, = local_comms(1)
    x, q = gradient(0, 1000), Quantizer()
    call() = rand(Bool) ? isready(allreduce_start!(copy(x), comm, q)) :
             wait(allreduce_start!(copy(x), comm, q))
    @test growth_kb(call, 1000, 10000) < GROWTH_MAX_KB
    close(comm)
end

@testset "10,000 quantizers and failures" begin
    call() = (Quantizer("paper-gl8", seed = 3); status_of(() -> Quantizer("no-such-preset")))
    @test growth_kb(call, 1000, 10000) < GROWTH_MAX_KB
end

@testset "1,000 groups that only the collector ends" begin
    call() = allreduce(ones(Float32, 4), only(local_comms(1)), Quantizer("none"))
    descriptors() = length(readdir("/proc/self/fd"))
    before = descriptors()
    @test growth_kb(call, 1000, 1000) < GROWTH_MAX_KB  # the heap has its size after some hundred
    GC.gc()
    @test descriptors() <= before + 4
end
