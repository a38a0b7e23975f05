# JUnitSet: a test set that prints one line for each innermost set, and writes a JUnit file for
# those who add up results of several languages.

mutable struct JUnitSet <: Test.AbstractTestSet
    description::String
    started::Float64
    results::Vector{Any}  # Test.Result or JUnitSet
end
JUnitSet(description::AbstractString; options...) = JUnitSet(description, time(), [])

Test.record(set::JUnitSet, result) = (push!(set.results, result); result)

function Test.finish(set::JUnitSet)
    if Test.get_testset_depth() > 0
        is_innermost(set) && (println(verdict_line(set)); flush(stdout))
        Test.record(Test.get_testset(), set)
        return set
    end
    cases = innermost(set, "")
    isempty(ARGS) || write(first(ARGS), junit_text(cases))
    failed = count(((_, case),) -> !isempty(failures(case)), cases)
    println("$(length(cases)) tests, $failed failed, $(round(Int, time() - set.started)) s")
    exit(failed == 0 && !isempty(cases) ? 0 : 1)
end

is_innermost(set) = !any(result -> result isa JUnitSet, set.results)
is_failure(result) = result isa Union{Test.Fail,Test.Error}
failures(set) = filter(is_failure, set.results)

function verdict_line(set)
    seconds = rpad("$(round(time() - set.started; digits = 1)) s", 8)
    details = join("\n" * sprint(show, failure) for failure in failures(set))
    return "$(isempty(failures(set)) ? "ok    " : "FAILED") $seconds $(set.description)$details"
end

"(path, set) of the innermost sets; what a set holds besides others counts as one of its own."
function innermost(set, path)
    is_innermost(set) && return [(path, set)]
    here = isempty(path) ? set.description : "$path.$(set.description)"
    cases = Tuple{String,JUnitSet}[]
    foreach(inner -> inner isa JUnitSet && append!(cases, innermost(inner, here)), set.results)
    outside = filter(is_failure, set.results)
    isempty(outside) || push!(cases, (here, JUnitSet("outside of a test", set.started, outside)))
    return cases
end

function junit_text(cases)
    lines = ["<testsuites><testsuite name=\"GQSGD\">"]
    for (path, set) in cases
        names = "classname=\"$(escaped(path))\" name=\"$(escaped(set.description))\""
        push!(lines, "<testcase $names>")
        append!(lines, "<failure>$(escaped(sprint(show, failure)))</failure>"
                       for failure in failures(set))
        push!(lines, "</testcase>")
    end
    return join(push!(lines, "</testsuite></testsuites>"), "\n") * "\n"
end

function escaped(text)
    text = replace(replace(replace(text, "&" => "&amp;"), "<" => "&lt;"), "\"" => "&quot;")
    return filter(letter -> letter in ('\n', '\t') || !iscntrl(letter), text)
end
