# Processes of any machines fit a straight line to points that each of them draws by itself, with
# gradients in 8-bit codes; docs/TWO_MACHINES.md starts them. Every one ends with the same bits.
using GQSGD

"Slope and intercept of y = 2 x - 1, found by all ranks together."
function fit_line(comm; steps = 100, points = 64)
    q, line, state = Quantizer("blocks-8"), zeros(Float32, 2), UInt32(comm.rank + 1)
    function draw()  # from -1 to 1
        state = state * 0x0019660d + 0x3c6ef35f
        return Float32(state >> 8) / 8388608 - 1
    end
    for _ in 1:steps
        gradient = zeros(Float32, 2)
        for _ in 1:points
            x = draw()
            error = line[1] * x + line[2] - (2x - 1 + 0.1f0 * draw())
            gradient .+= Float32.((error * x, error)) ./ points
        end
        line .-= allreduce(gradient, comm, q)
    end
    return line
end

comm = env_comm()
line = fit_line(comm)
println("rank ", comm.rank, " of ", comm.size, ": y = ", round(line[1]; digits = 2), " x ",
        round(line[2]; digits = 2), ", bits ",
        join(string.(reinterpret(UInt32, line); base = 16, pad = 8), ' '))
close(comm)
