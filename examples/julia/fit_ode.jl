# Processes fit the parameters of an ordinary differential equation together: each has
# trajectories of its own, and gradients are averaged in 8-bit codes. From the REPL, after `] dev
# bindings/julia`:
#
#     include("examples/julia/fit_ode.jl")
#     fit()                                        # 4 processes, the default format
#     fit(format = "none"); fit(format = "paper-ge4", steps = 400)
#
# The equation is that of a network of rates, dx/dt = W tanh(x) - x, and W is to be found.
using Distributed

const PROGRAM = abspath(@__FILE__)

module FitODE

using GQSGD, Random

const UNITS, TIMES, STEP = 24, 12, 0.1f0  # of the network; of observation; of the integrator

slope(W, X) = W * tanh.(X) .- X

"The cotangents of W and X, from that of the slope."
function slope_back(W, X, D)
    Y = tanh.(X)
    return D * Y', (W' * D) .* (1 .- Y .* Y) .- D
end

"One step of the classical Runge-Kutta method, and the points where the slope was taken."
function advance(W, X)
    h = STEP
    A = slope(W, X)
    XB = X .+ h / 2 .* A
    B = slope(W, XB)
    XC = X .+ h / 2 .* B
    C = slope(W, XC)
    XD = X .+ h .* C
    D = slope(W, XD)
    return X .+ h / 6 .* (A .+ 2 .* B .+ 2 .* C .+ D), (X, XB, XC, XD)
end

"The same step backwards: cotangents of W and of its start, from that of its end."
function advance_back(W, points, G)
    h = STEP
    X, XB, XC, XD = points
    wd, xd = slope_back(W, XD, h / 6 .* G)
    wc, xc = slope_back(W, XC, h / 3 .* G .+ h .* xd)
    wb, xb = slope_back(W, XB, h / 3 .* G .+ h / 2 .* xc)
    wa, xa = slope_back(W, X, h / 6 .* G .+ h / 2 .* xb)
    return wa .+ wb .+ wc .+ wd, G .+ xa .+ xb .+ xc .+ xd
end

trajectory(W, X) = accumulate((state, _) -> advance(W, state)[1], 1:TIMES; init = X)

"Half the mean squared distance from the observed trajectory, and its gradient."
function loss_and_gradient(W, start, observed)
    state, points, distances = start, Any[], Any[]
    for k in 1:TIMES
        state, taken = advance(W, state)
        push!(points, taken)
        push!(distances, state .- observed[k])
    end
    scale = 1 / Float32(TIMES * size(start, 2))
    gradient, G = zero(W), zero(start)
    for k in TIMES:-1:1
        w, G = advance_back(W, points[k], G .+ scale .* distances[k])
        gradient .+= w
    end
    return scale / 2 * sum(d -> sum(abs2, d), distances), gradient
end

"W after `steps` of Adam with averaged gradients, and the mean loss of every step."
function descend(comm, q, truth, starts, steps)
    observed = trajectory(truth, starts)
    W, M, V = zero(truth), zero(truth), zero(truth)
    losses = Float32[]
    for step in 1:steps
        loss, gradient = loss_and_gradient(W, starts, observed)
        push!(losses, allreduce([loss], comm, Quantizer("none"); step = step)[1])
        allreduce!(gradient, comm, q; step = step, index = 1)  # the same bits on every rank
        M .= 0.9f0 .* M .+ 0.1f0 .* gradient
        V .= 0.99f0 .* V .+ 0.01f0 .* gradient .^ 2
        rate = 0.02f0 * min(1, 2 * (1 - step / Float32(steps)))
        W .-= rate .* (M ./ (1 - 0.9f0^step)) ./ (sqrt.(V ./ (1 - 0.99f0^step)) .+ 1f-8)
    end
    return W, losses
end

"What one process does: its W, the losses, and how far W is from the one that made the data."
function work(id, rank, size, format, steps)
    truth = 1.5f0 / sqrt(Float32(UNITS)) .* randn(MersenneTwister(1), Float32, UNITS, UNITS)
    starts = 2 .* randn(MersenneTwister(100 + rank), Float32, UNITS, 16)  # this process's own
    comm = process_comm(id, rank, size)
    W, losses = descend(comm, Quantizer(format), truth, starts, steps)
    close(comm)
    return W, losses, sqrt(sum(abs2, W .- truth) / sum(abs2, truth))
end

end

"""
    fit(; processes = 4, format = "", steps = 300)

Fits W with new processes and prints how it went; `format` is the specification of a `Quantizer`.
Returns W.
"""
function fit(; processes = 4, format = "", steps = 300)
    helpers = addprocs(processes; exeflags = "--project=$(Base.active_project())")
    try
        Distributed.remotecall_eval(Main, helpers, :(include($PROGRAM)))
        id = FitODE.unique_id()
        futures = [remotecall(FitODE.work, helper, id, k - 1, processes, format, steps)
                   for (k, helper) in enumerate(helpers)]
        results = map(fetch, futures)
        W, losses, distance = first(results)
        println("format $(FitODE.Quantizer(format))")
        for step in 1:max(1, div(steps, 6)):steps
            println("step $(lpad(step, 4)): loss $(losses[step])")
        end
        println("loss $(last(losses)) after $steps steps; relative error of W: $distance")
        println("processes agree bit for bit: $(all(result -> result[1] == W, results))")
        return W
    finally
        rmprocs(helpers)
    end
end

if !isinteractive() && myid() == 1 && abspath(PROGRAM_FILE) == PROGRAM
    fit(; (Symbol(name) => something(tryparse(Int, value), value)
           for (name, value) in split.(ARGS, '='))...)
end
