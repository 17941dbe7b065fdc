# ctest.awk: turns what ctest prints into ./check's lines as it comes: one a test, appended to
# `results` as well, and after a failure the last LINES_MAX lines that the test said.

BEGIN { LINES_MAX = 30 }

/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
    said_end()
    name = $0; sub(/^[^:]*: /, "", name); sub(/ .*/, "", name)
    result = /  Passed  / ? "ok" : /\*\*\*Skipped/ ? "skipped" : "FAILED"
    printf "%-7s  %-12s  %-40s %8.2f s\n", result, folder, name, $(NF - 1)
    print result, folder, name >> results
    fflush()
    if (result == "FAILED") failed = $0
    next
}
/^ +Start +[0-9]+: / { next }
/^[0-9]+% tests passed/ { said_end() }
failed != "" { said[++count] = $0 }

function said_end(    i)
{
    if (failed != "") {
        print "---" failed
        for (i = count > LINES_MAX ? count - LINES_MAX + 1 : 1; i <= count; i++) print said[i]
    }
    failed = ""; count = 0
}
