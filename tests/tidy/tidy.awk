# tidy.awk: reads names of files, prints breaches of the house's rules, exits 1 if there are any.
#
#   floors   a room includes only rooms on floors below its own
#   length   a file has at most 900 lines, in train, job, run and cli 400 (tables apart), a function at most 70
#   memory   only src/base/arena.c asks for memory
#   talk     only src/cli prints or exits
#   columns  a line of C or CUDA has at most 120; clang-format (format.sh) keeps code within 100, but breaks
#            no comment and no string
#   clock    in the rooms upstairs only src/run/clock.c reads the monotonic clock
#   price    in these rooms only src/run/bill.c multiplies by a price, or divides it
#   decide   src/cli parses and prints: it opens no backend and no object store, touches no file but whole ones that
#            a user names, starts no process, reads no rows of the ledger and searches no plan; whoever decides,
#            measures or keeps something is a room below
#   blanks   no tabs, no blanks at the end of a line, no unresolved merge conflict
#   paths    no path of somebody's machine
#   code     a kernel that is another one from __CUDA_ARCH__ 900 on is launched by gpu->code, what it was compiled for
#
# An exemption is a comment before the function or line (or on the line), with its reason:
#   /* tidy: long, REASON */    /* tidy: talk, REASON */

BEGIN {
    FILE_LINES_MAX = 900; SMALL_FILE_LINES_MAX = 400; FUNCTION_LINES_MAX = 70; COLUMNS_MAX = 120
    split("base 0 ir 1 compile 2 backend 2 remote 2 model 3 data 3 store 3 run 3 train 4 plan 4 supervise 4 job 5 infer 5 page 5 cli 6 wasm 6", w, " ")
    for (i = 1; i in w; i += 2) floor[w[i]] = w[i + 1]
    word   = "(^|[^A-Za-z0-9_.>])"
    memory = word "(malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|free)[ ]*\\("
    talk   = word "(printf|fprintf|vprintf|vfprintf|dprintf|puts|fputs|putchar|perror|exit|abort)[ ]*\\("
    split("train job run supervise page cli", w, " ")
    for (i in w) upstairs[w[i]]
    clock  = "(->|\\.)now_ns([^A-Za-z0-9_]|$)|CLOCK_(MONOTONIC|BOOTTIME)|os_(clock|process_age)_ns"
    rate   = "(usd_h|usd_hour|_1000_usd|gb_usd|gb_month_usd|usd_gib_month)"
    index_ = "(\\[[^]]*\\]|\\([^)]*\\))?"
    price  = rate index_ "\\)? *[*/]|[*/] *[A-Za-z0-9_>.-]*" rate "([^a-z_]|$)" \
             "|(^|[^a-z_])price\\[[^]]*\\] *[*/]|bill_[a-z_]*usd\\(.*\\) *[*/]"
    decide = "os->(stat|open_read|create|read|write|make_dir|rename|remove|list|map|unmap|close)\\(" \
             "|(plan_(search|compile|price|cut|learn|mixed|ask)|ledger_(read|put)|st_open|law_fit)[ ]*\\(" \
             "|os_publish[ ]*\\(|os_child_[a-z]*[ ]*\\(|os_wait_any[ ]*\\(|" word "(fork|dlopen|sysconf)[ ]*\\("
    drawn["src/cli/cmd_report.c"]    # the chart that --svg asks for is printed into a file
    paths  = "(^|[^A-Za-z0-9_./-])/(work|root|home|Users|var/tmp)(/|[^A-Za-z0-9_-]|$)"
}

{ check_file($0) }

END { exit breaches > 0 }

function breach(text) { print file ":" line ": " text; breaches++ }

function check_file(name,    text, most)
{
    file = name; line = 0; in_comment = 0; begin = 0; exempt_long = 0; exempt_talk = -1
    room = ""
    is_c = name ~ /\.(c|h|cu|cuh|def)$/
    is_narrow = is_c && name !~ /\.def$/
    is_cuda = name ~ /\.cuh?$/
    if (name ~ /^src\//) { room = name; sub(/^src\//, "", room); sub(/\/.*/, "", room) }
    if (room != "" && !(room in floor)) breach("src/" room " is no room; the rooms are in tests/tidy/tidy.awk")

    while ((getline text < name) > 0) {
        line++
        check_text(text)
        if (is_c) check_c(text)
    }
    close(name)
    most = name ~ /^src\/(train|job|run|cli)\/.*\.[ch]$/ ? SMALL_FILE_LINES_MAX : FILE_LINES_MAX
    if (line > most) breach("the file has more than " most " lines; split it")
}

function check_text(text)
{
    if (is_narrow && length(text) > COLUMNS_MAX && columns(text) > COLUMNS_MAX)
        breach("the line has " columns(text) " columns, " COLUMNS_MAX " are allowed")
    if (text ~ /\t/) breach("a tab; indent with blanks")
    if (text ~ /[ \r]$/) breach("a blank at the end of the line")
    if (text ~ /^(<<<<<<<|>>>>>>>) /) breach("a merge conflict that was not resolved")
    if (text ~ paths) breach("a path of somebody's machine")
    if (is_cuda && text ~ /capability *(<|>|<=|>=) *9/)
        breach("the GPU's capability where the code's counts: gpu->code (the driver compiles code of 8.0 for newer GPUs)")
}

# Characters, not bytes: tidy.sh has us read bytes of UTF-8.
function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }

function check_c(text,    code)
{
    if (text ~ /tidy: long, [^ *]/) exempt_long = 1
    if (text ~ /tidy: talk, [^ *]/) exempt_talk = line
    if (room != "" && text ~ /^ *# *include *"/) check_include(text)

    code = without_comments(text)
    if (room != "" && file != "src/base/arena.c" && code ~ memory)
        breach("memory comes from an arena (base/arena.h)")
    if (room != "" && room != "cli" && code ~ talk && line > exempt_talk + 1)
        breach("only src/cli prints or exits; return a status, or say why with /* tidy: talk, REASON */")
    if ((room in upstairs) && file != "src/run/bill.c" && code ~ price)
        breach("src/run/bill.c alone multiplies by a price, or divides it: ask it (run/bill.h)")
    if ((room in upstairs) && file != "src/run/clock.c" && code ~ clock)
        breach("src/run/clock.c alone reads the monotonic clock: enter a part, ask for a view, or take a deadline or a stopwatch (run/clock.h)")
    if (room == "cli" && !(file in drawn) && code ~ decide)
        breach("src/cli only parses and prints: files, processes and what is decided belong to a room below (job)")
    check_function(code)
}

function check_include(text,    other)
{
    sub(/^[^"]*"/, "", text); sub(/".*/, "", text)
    if (text == "frugal.h") return
    other = text; sub(/\/.*/, "", other)
    if (text !~ /\// || !(other in floor))
        breach("include \"" text "\" by its room: \"room/file.h\"")
    else if (room == "cli" && other ~ /^(compile|backend|remote)$/ && text != "remote/address.h")
        breach("src/cli only parses and prints; what needs \"" text "\" belongs to a room below (job)")
    else if (other != room && floor[other] >= floor[room])
        breach(room " (floor " floor[room] ") includes " other " (floor " floor[other] "); only lower floors may be")
}

# A function's body begins with { and ends with } in the first column.
function check_function(code)
{
    if (code ~ /^[A-Za-z].*\)[ ]*\{[ ]*$/ && code !~ /^(extern|struct|enum|union)[^()]*\{/ && code !~ /=/)
        breach("a function's opening brace stands on a line of its own")
    if (code ~ /^\{/) begin = line
    if (code ~ /^\}/ && begin) {
        if (line - begin + 1 > FUNCTION_LINES_MAX && !exempt_long)
            breach("the function has " (line - begin + 1) " lines, " FUNCTION_LINES_MAX " are allowed; split it, or say why with /* tidy: long, REASON */")
        begin = 0; exempt_long = 0
    }
}

# The line without comments and without what stands in quotes.
function without_comments(text,    out, at)
{
    gsub(/\\["'\\]/, "", text); gsub(/'.'/, "' '", text)
    if (!in_comment) gsub(/"[^"]*"/, "\"\"", text)
    for (out = ""; text != "";) {
        if (in_comment) {
            if (!(at = index(text, "*/"))) return out
            text = substr(text, at + 2); in_comment = 0
            gsub(/"[^"]*"/, "\"\"", text)
        } else {
            sub(/\/\/.*/, "", text)
            if (!(at = index(text, "/*"))) return out text
            out = out substr(text, 1, at - 1); text = substr(text, at + 2); in_comment = 1
        }
    }
    return out
}
