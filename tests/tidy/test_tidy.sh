#!/bin/sh
# test_tidy.sh: tidy must name every breach of a bad tree, and nothing in a good one.
tidy=$(cd "$(dirname "$0")" && pwd)/tidy.sh
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
failed=0

# put FILE: standard input becomes that file of the tree.
put() { mkdir -p "$tree/$(dirname "$1")" && cat >"$tree/$1"; }

# long_function LINES: a function whose body, braces included, has that many.
long_function() {
  echo 'void f(void)'; echo '{'
  awk -v n="$1" 'BEGIN { while (n-- > 2) print "    ;" }'
  echo '}'
}

# accept WHAT / reject WHAT PATTERN: tidy passes the tree, or fails and prints PATTERN and no more
# than one line; the tree is emptied for the next case.
accept() {
  said=$("$tidy" "$tree") || { echo "FAILED: $1 was rejected: $said"; failed=1; }
  rm -rf "$tree/src" "$tree/tests" "$tree/docs"
}
reject() {
  said=$("$tidy" "$tree") && { echo "FAILED: $1 was accepted"; failed=1; }
  case $said in
    *"
"*) echo "FAILED: $1: more than one line: $said"; failed=1 ;;
    *"$2"*) ;;
    *) echo "FAILED: $1: said '$said', not '$2'"; failed=1 ;;
  esac
  rm -rf "$tree/src" "$tree/tests" "$tree/docs"
}

echo '#include "ir/graph.h"' | put src/compile/a.c;          accept "an include downward"
echo '#include "compile/b.h"' | put src/compile/a.c;         accept "an include in the room"
echo '#include "frugal.h"' | put src/train/a.c;              accept "the public header"
echo '#include "train/b.h"' | put src/ir/a.c;                reject "an include upward" src/ir/a.c:1:
echo '#include "backend/b.h"' | put src/compile/a.c;         reject "an include sideways" "only lower floors"
echo '#include "b.h"' | put src/ir/a.c;                      reject "an include without room" "by its room"
echo 'int x;' | put src/attic/a.c;                           reject "an unknown room" "is no room"

yes 'int x;' | head -900 | put src/ir/a.c;                   accept "a file of 900 lines"
yes 'int x;' | head -901 | put src/ir/a.c;                   reject "a file of 901 lines" "more than 900"
yes 'int x;' | head -400 | put src/run/a.c;                  accept "a file of 400 lines upstairs"
yes 'int x;' | head -401 | put src/cli/a.h;                  reject "a file of 401 lines upstairs" "more than 400"
yes 'ROW(x)' | head -900 | put src/cli/a.def;                accept "a long table upstairs"
long_function 70 | put src/ir/a.c;                           accept "a function of 70 lines"
long_function 71 | put tests/unit/a.c;                       reject "a function of 71 lines" "has 71 lines"
{ echo '/* tidy: long, a table */'; long_function 71; } | put src/ir/a.c
accept "a long function with a reason"
{ echo '/* tidy: long, */'; long_function 71; } | put src/ir/a.c
reject "a long function without a reason" "has 71 lines"
{ echo '/* tidy: long, a table */'; long_function 71; long_function 71; } | put src/ir/a.c
reject "a second long function" :145:
printf 'void f(void) {\n    ;\n}\n' | put src/ir/a.c;        reject "a brace beside the name" "line of its own"

echo '    if (gpu->code >= 90) x();' | put src/base/a.cuh;      accept "the code's capability"
echo '    if (gpu->capability == 90) x();' | put src/base/a.cu; accept "one GPU's own instructions"
echo '    if (gpu->capability >= 90) x();' | put src/base/a.cuh; reject "the GPU's capability" "gpu->code"
echo '    return c->gpu->capability < 90;' | put src/base/a.cu;  reject "the GPU's capability" "gpu->code"

echo '    p = malloc(7);' | put src/base/arena.c;            accept "malloc in arena.c"
echo '    p = malloc(7);' | put src/base/text.c;             reject "malloc elsewhere" "from an arena"
echo '    free (p);' | put src/run/a.c;                      reject "free" "from an arena"
echo '    bus_free(p); b->free(p);' | put src/run/a.c;       accept "names that end in free"
printf '/* one\n * malloc(7) two */\nint x; // exit(1)\n' | put src/run/a.c; accept "comments"
echo '    f("call exit(1)", '"'\"'"', 1);' | put src/run/a.c; accept "strings"

echo '    printf("x");' | put src/cli/a.c;                   accept "printf in cli"
echo '    printf("x");' | put src/run/a.c;                   reject "printf elsewhere" "prints or exits"
echo '    snprintf(b, n, "x"); _exit(1);' | put src/run/a.c; accept "snprintf and _exit"
echo '    exit(1);' | put src/run/a.c;                       reject "exit elsewhere" "prints or exits"
echo '    abort(); /* tidy: talk, our own fault */' | put src/base/a.c; accept "abort with a reason"
printf '/* tidy: talk, once */\n    puts("");\n    puts("");\n' | put src/base/a.c
reject "a second line" :3:

line() { printf '/* '; printf '%s' "$(yes "$2" | head -n $(($1 - 6)) | tr -d '\n')"; echo ' */'; } # COLUMNS LETTER
line 120 x | put src/ir/a.cuh;                               accept "a line of 120 columns"
line 120 é | put src/ir/a.c;                                 accept "a line of 120 letters"
line 121 x | put src/ir/a.cuh;                               reject "a line of 121 columns" "has 121 columns"
line 121 x | put src/ir/a.def;                               accept "a row of a table"
echo '    i64 t = os->now_ns(os);' | put src/run/clock.c;    accept "the clock in clock.c"
echo '    i64 t = os->now_ns(os);' | put src/train/a.c;      reject "the clock elsewhere" "src/run/clock.c alone"
echo '    clock_gettime(CLOCK_MONOTONIC, &t);' | put src/cli/a.c; reject "the clock by its name" "src/run/clock.c alone"
echo '    i64 t = r->config.os->now_ns (r->config.os);' | put src/supervise/a.c; reject "the clock, spaced" "src/run/clock.c alone"
echo '    i64 (*now)(struct os *) = os->now_ns;' | put src/job/a.c; reject "the clock by a pointer" "src/run/clock.c alone"
echo '    clock_gettime(CLOCK_MONOTONIC_RAW, &t);' | put src/train/a.c; reject "the clock raw" "src/run/clock.c alone"
echo '    i64 t = os_process_age_ns();' | put src/train/a.c;  reject "the age of the process" "src/run/clock.c alone"
for room in train job run supervise cli; do
  echo '    i64 t = os->now_ns(os);' | put src/$room/notice.c; reject "the clock in $room" "src/run/clock.c alone"
done
echo '    i64 t = os->now_ns(os);' | put src/data/a.c;       accept "the clock downstairs"
echo '    f64 d = s / 3600 * t->usd_hour;' | put src/run/bill.c; accept "a price in bill.c"
echo '    f64 d = s / 3600 * t->usd_hour;' | put src/cli/a.c; reject "a price elsewhere" "src/run/bill.c alone"
echo '    f64 d = usd_hour(s) * hours;' | put src/train/a.c;  reject "a price from a function" "src/run/bill.c alone"
echo '    f64 d = p->put_1000_usd * n;' | put src/run/a.c;    reject "the price of requests" "src/run/bill.c alone"
echo '    f64 each = m->spot_usd_h / m->gpus;' | put src/cli/a.c; reject "the price of a GPU" "src/run/bill.c alone"
echo '    t->usd_hour  = t->usd_hour / (f64)at_once;' | put src/cli/a.c; reject "a part of a price" "src/run/bill.c alone"
echo '    f64 h = usd / p->usd_hour;' | put src/cli/a.c;      reject "hours for a sum" "src/run/bill.c alone"
echo '    f64 d = price[0] * (work + rest);' | put src/run/a.c; reject "a list of prices" "src/run/bill.c alone"
echo '    return bill_estimate_usd(u(s), t) / (f64)n;' | put src/cli/a.c; reject "a part of a sum" "src/run/bill.c alone"
echo '    f64 d = bill_estimate_usd(p->usd_hour, s);' | put src/cli/a.c; accept "asking the bill"
echo '    i64 t = now_ns(r) + moment_now(os);' | put src/run/a.c; accept "a name like it"

echo '#include "backend/backend.h"' | put src/cli/a.c;          reject "a backend in cli" "belongs to a room below"
echo '#include "remote/address.h"' | put src/cli/a.c;           accept "an address in cli"
echo '    st = c->os->stat(c->os, path, &s, err);' | put src/cli/a.c; reject "a file in cli" "only parses and prints"
echo '    st = os_child_start(&child, f, p, err);' | put src/cli/a.c; reject "a process in cli" "only parses and prints"
echo '    plan_search(&w, &v, d, 1, c, &l, r, s);' | put src/cli/a.c; reject "a search in cli" "only parses and prints"
echo '    st = ledger_read(l, t, NULL, k, p, &r, &n, err);' | put src/cli/a.c; reject "rows in cli" "only parses and prints"
echo '    st = os_read_all(c->os, path, perm, &t, err);' | put src/cli/a.c; accept "a whole file that the user names"
echo '    st = os->stat(os, path, &s, err);' | put src/job/a.c; accept "a file in job"

printf '\tint x;\n' | put src/ir/a.c;                        reject "a tab" "a tab"
printf 'int x; \n' | put docs/a.md;                          reject "a blank at the end" "at the end"
echo '<<<<<<< HEAD' | put docs/a.md;                          reject "a merge conflict" "not resolved"
echo "see /ho""me/somebody" | put docs/a.md;                 reject "a machine's path" "somebody's machine"
echo "see src/ho""me/x and a/wor""k" | put docs/a.md;        accept "a path inside the tree"

[ $failed = 0 ] && echo "tidy names what it should"
exit $failed
