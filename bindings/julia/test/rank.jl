# One rank of test_processes.jl: `rank.jl RANK SIZE JOB UNIQUE_ID`.
using GQSGD, Test

include("support.jl")

"Two allreduces; then the last rank dies without notice, and the others print what they got."
function bits_then_death(comm)
    q, x = Quantizer("blocks-8", seed = 3), gradient(comm.rank, 5000)
    foreach(_ -> print(bytes2hex(reinterpret(UInt8, allreduce(x, comm, q)))), 1:2)
    print(" ")
    flush(stdout)
    comm.rank == comm.size - 1 && ccall(:_exit, Cvoid, (Cint,), 1)
    failure = try allreduce(x, comm, q) catch e; e end
    println(failure.status, " ", match(r"rank 2", failure.message).match)
end

"Refusals of one rank, and the measured error of a later call."
function refused_then_measured(comm)
    q, x = Quantizer("paper-gl4", seed = 3), gradient(comm.rank, 5000)
    first_refuses(f) = status_of(() -> f(comm.rank == 0 ? view(x, 1:2:5000) : x))
    statuses = [first_refuses(x -> allreduce(x, comm, q)),
                first_refuses(x -> allreduce_many!([copy(x)], [x], comm, q)),
                first_refuses(x -> measured_error(x, comm, q))]
    measured = measured_error(x, comm, q)
    allreduce(x, comm, q)
    println(join((statuses..., GQSGD.counter(comm), GQSGD.transport(comm), measured), ' '))
end

"How many results were compared; then what a wrong bit of rank 1 is told as, and once more."
function verified(comm)
    compared = GQSGD.verify(comm)
    failure = try GQSGD.verify(comm; flipped_rank = 1) catch e; e end
    named = match(r"ranks whose results differ: [0-9]+\. On rank [0-9]+", failure.message).match
    println(compared, " ", failure.status, " ", named, " ", GQSGD.verify(comm) == compared)
end

rank, size = parse.(Int, ARGS[1:2])
comm = process_comm(hex2bytes(ARGS[4]), rank, size; timeout_ms = 120000)
Dict("bits_then_death" => bits_then_death,
     "refused_then_measured" => refused_then_measured,
     "verified" => verified)[ARGS[3]](comm)
close(comm)
