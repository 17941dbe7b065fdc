#!/bin/bash
# test_ledger.sh: runs are recorded, listed, billed, compared and carried elsewhere, as a user types it;
# a ledger that cannot be written is one sentence, and the run goes on.
. "$(dirname "$0")/common.sh"
export FRUGAL_RUN_LEDGER=$folder/state/ledger.db TZ=UTC

four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 8}, relu, {dense: 4}]}
train: {epochs: 40, usd_hour: 3600, lr: 0.01}
run: {tags: [team_a, "odd, tag"]}
END

# Without SQLite: training goes on, and says once that nothing is recorded.
run 0 train run.yaml
if grep -q 'built without SQLite' err; then
  [ "$(grep -c 'not recorded' err)" = 1 ] || fail "not said once"
  run 1 runs
  has err 'built without SQLite'
  echo "built without SQLite: the rest needs it"
  exit $failed
fi
lacks err 'not recorded'

# What it said lies beside the ledger, for its user alone.
log=$(echo state/events/*/*.jsonl)
has "$log" '^\{"event":"start",.*"wall_ns":[0-9]+\}$'
has "$log" '^\{"event":"done",.*"stopped":"end",.*"wall_ns":[0-9]+\}$'
[ "$(stat -c %a "$log")" = 600 ] || fail "$log can be read by others"

# Nothing yet; then one run, with its parts.
run 0 runs --ledger "$folder/empty.db"
has err 'no run is recorded yet'
run 1 report --ledger "$folder/empty.db"
has err 'no run is recorded yet in .*empty.db'
run 0 runs
[ "$(wc -l <out)" = 2 ] || fail "not a heading and a run"
has out '^run +started +name +ended +steps +time +dollars +a million +last +tags$'
has out ' run +end +480 .*accuracy .*team_a,odd, tag$'
run 0 report
cp out newest
run 0 report last
cmp -s out newest || fail 'report last is not the newest run'
has out '^run  [0-9a-f]{12}  started 20[0-9-]+ [0-9:]+, 1 segment, ended: end$'
has out '^compute .* \$[0-9.]+ +[0-9.]+ %$'
has out '^starting .* \$'
has out '^total .* \$[0-9.]+$'
lacks out 'a month'
awk '/^(compute|evaluation|redone|loading|checkpoint|starting)/ { for (i = 1; i <= NF; i++) if ($i ~ /^\$/) sum += substr($i, 2) }
     /^total/ { total = substr($NF, 2) } END { exit !(sum > 0 && sum - total < 1e-9 && total - sum < 1e-9) }' out ||
  fail "the parts that are printed do not sum to the total that is"

# A second, cheaper one: stops at its target, half the price. Then before -> after.
run 0 train run.yaml train.target=0.9 train.eval_every=10 train.usd_hour=1800 run.market=spot run.runs_per_month=1200
has err '^price: \$1800 an hour, from train.usd_hour; run.market=spot alone has no price$'
run 0 runs --csv
[ "$(wc -l <out)" = 3 ] || fail "not a heading and two runs"
has out '^[0-9a-f]{12},run,train,end,.*,"team_a,odd, tag"$'
set -- $(sed 1d out | cut -d, -f1)
run 0 report "$1" "$2" --svg picture.svg
has out '^\$[0-9.]+ -> \$[0-9.]+ a run, [0-9.]+ % less to accuracy 90.0 %$'
has out 'train.target=0.9'
lacks out 'run.tags'
has out 'less work -\$'
has out 'a cheaper hour -\$'
has out '^before +\$[0-9.]+  #+$'
has out '^after +\$[0-9.]+  #+$'
has out '^1,200 runs a month \(as the run file says\): .* a month, .* a year$'
awk '/^before/ { at = substr($2, 2) } /^(less|more|faster|slower|a) / && /#/ {
       for (i = 1; i <= NF; i++) if ($i ~ /^-?\$/) { v = $i; s = sub(/^-/, "", v) ? -1 : 1; at += s * substr(v, 2) } }
     /^after/ { after = substr($2, 2) } END { d = at - after; exit !(d < 1e-9 && d > -1e-9) }' out ||
  fail "the levers that are printed do not lead from before to after"
if command -v python3 >/dev/null; then
  python3 -c 'import xml.etree.ElementTree as x
root = x.parse("picture.svg").getroot()
assert root.tag.endswith("svg") and len([r for r in root if r.tag.endswith("rect")]) >= 4' || fail "the SVG is not XML"
fi
run 0 report "$1" "$2" --json
has out '^\{"event":"lever","what":"less work","dollars":-'
has out '^\{"event":"compare","before":"[0-9a-f]{12}","after":'
run 0 report run
has out 'ended: target'
has out '^target +reached after \$'
has out '^a month +\$[0-9.,]+ for 1,200 runs, as the run file says; \$[0-9.,]+ a year$'
run 2 report "$1" --svg x.svg
has err 'give two runs or more'
run 2 report nobody
has err 'no run is called nobody'

# One that ends sooner and learns less is not called cheaper: quality stands beside the dollars, and no per cent.
run 1 train run.yaml train.target=0.9 train.epochs=1 train.lr=1e-6 run.name=short
run 0 report "$2" short
has out '^\$[0-9.]+ for accuracy [0-9.]+ % -> \$[0-9.]+ for accuracy [0-9.]+ %: no target that both reached$'
has err 'did not all reach one target'
lacks out '% less|% more'
run 0 report "$2" short --json
has out '"event":"compare".*"saved_month":null,"saved_year":null,"target":null\}$'
run 0 report short
has out '^target +not reached$'

# Groups.
run 0 report --by month
has out "^$(date -u +%Y-%m) +3 "
run 0 report --by tag
has out '^team_a +3 '
run 0 run run.ledger=unpriced.db -- true
run 0 report --by month --ledger unpriced.db
has err '^1 run has no price and is not included in the dollars$'
run 2 report --by moon
has err 'expected month or tag'

# Carried to another machine's ledger: the same listing there, however often.
run 0 runs --json
cp out here
for id in "$1" "$2" short; do "$frugal" runs --export "$id" || fail "no export"; done >rows
run 0 runs rows rows --json --ledger "$folder/other.db"
has err 'rows: [0-9]+ rows merged'
cmp -s here out || fail "the merged ledger lists other runs"
head -c 300 rows >torn
run 2 runs torn --ledger "$folder/third.db"
has err '^torn: line 1: byte '
run 0 runs --ledger "$folder/third.db"
[ ! -s out ] || fail "a torn file left rows"

# A price by the catalogue; one that is not there; none at all.
run 0 train run.yaml train.usd_hour=none run.machine=aws/g5.xlarge run.market=spot train.epochs=1
run 0 report
has out '^total .*\$[0-9.]+$'
run 0 train run.yaml train.usd_hour=0.5 run.machine=aws/g5.xlarge run.market=spot train.epochs=1 run.ledger=none
has err '^price: \$0.5 an hour, from train.usd_hour; the catalogue.s spot price of aws/g5.xlarge, \$[0-9.]+, is not used$'
run 2 train run.yaml run.machine=moon/base
has err 'run.machine=moon/base is not in the catalogue'
run 0 train run.yaml train.usd_hour=none train.epochs=1
run 0 report
has out '^compute .* unknown$'
has err 'the price is not known'
run 1 report "$1" run
has err 'is not known, so there is nothing to compare'

# Planned, then run as the plan says: what was predicted stands beside what was billed.
run 0 plan run.yaml train.epochs=20
words=$(sed -n 's/^  frugal train //p' out)
run 0 train $words train.epochs=20 run.name=planned
run 0 report planned
has out '^predicted +\$[0-9.]+; billed [+-][0-9.]+ %$'

# A sweep is one run; a mistake is none.
run 0 sweep run.yaml 'sweep.over=[{train.lr: [0.1, 0.01]}]' train.epochs=4
run 3 train run.yaml data.path=gone
run 0 runs --json
has out '"kind":"sweep".*"unit":"trials"'
[ "$(wc -l <out)" = 7 ] || fail "not seven runs"

# Killed: it ends at its last heartbeat, and the doubt is shown.
"$frugal" train run.yaml train.epochs=100000000 >/dev/null 2>&1 &
pid=$!
sleep 1
{ kill -9 $pid && wait $pid; } 2>/dev/null
run 0 runs
has out ' runs +[0-9,]+ ' # its heartbeat is but a second old
if command -v python3 >/dev/null; then
  python3 -c "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute(\"UPDATE segment SET beat_wall_ns = beat_wall_ns - 100000000000 WHERE ended = ''\"); d.commit()" "$FRUGAL_RUN_LEDGER"
  run 0 runs
  has out ' killed .* \+1 s '
  has err 'a killed run'
fi

# Interrupted and gone on with: one run, and its segments.
"$frugal" train run.yaml train.epochs=10000000 checkpoint.dir=kept checkpoint.every=2000 run.market=spot run.name=spotted >/dev/null 2>&1 &
pid=$!
for i in $(seq 100); do ls kept/*/manifest.json >/dev/null 2>&1 && break; sleep 0.1; done
sleep 1.5 # for a heartbeat between two checkpoints
{ kill -9 $pid && wait $pid; } 2>/dev/null
saved=$(ls -d kept/step-* | sed -n '$s/.*step-0*\([0-9]*\)\..*\..*/\1/p')
steps=$("$frugal" runs --json | sed -n 's/.*"name":"spotted".*"steps":\([0-9]*\).*/\1/p')
run 0 train run.yaml train.epochs=10000000 train.steps=$((steps + 1000)) checkpoint.dir=kept checkpoint.every=200 run.market=spot run.name=spotted
run 0 runs --json
has out '"name":"spotted".*"ended":"end".*"segments":2'
[ "$(grep -c spotted out)" = 1 ] || fail "a restart is a run of its own"
run 0 report spotted # what was done since the last checkpoint, as far as the last heartbeat tells, is done again, and billed
[ "$steps" -le "$saved" ] || has out '^redone +[0-9.]+ m?s +\$[0-9.]+ '

# No home: the run says that it is not recorded; who asked for none hears nothing.
env -u HOME -u XDG_STATE_HOME -u FRUGAL_RUN_LEDGER "$frugal" train run.yaml train.epochs=2 >out 2>err || fail "no home ended the run"
[ "$(grep -c 'not recorded: HOME is not set' err)" = 1 ] || fail "no home is not one warning"
env -u HOME "$frugal" train run.yaml train.epochs=2 run.ledger=none >out 2>err
lacks err 'not recorded'

# Nowhere to write: one warning, and the run is whole.
run 0 train run.yaml run.ledger=images/ledger.db train.epochs=2
[ "$(grep -c 'not recorded' err)" = 1 ] || fail "not one warning"
has out '^accuracy'
run 0 train run.yaml run.ledger=none train.epochs=2
lacks err 'not recorded'
(trap '' XFSZ; ulimit -f 8; exec "$frugal" train run.yaml run.ledger=full.db train.epochs=2) >out 2>err ||
  fail "a full disk ended the run"
[ "$(grep -c 'not recorded: cannot .* the ledger full.db' err)" = 1 ] || fail "a full disk is not one warning"
has out '^accuracy'
echo 'this is no database, though it is long enough to have been one, and is left as it is' >text.db
cat text.db text.db >text
mv text text.db
cp text.db before
run 0 train run.yaml run.ledger=text.db train.epochs=2
has err 'not recorded: the ledger text.db is damaged'
cmp -s before text.db || fail "a file of the user was changed"
exit $failed
