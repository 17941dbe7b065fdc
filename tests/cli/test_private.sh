#!/bin/bash
# test_private.sh: what a run keeps is for its user alone and holds no password or token of an address; what comes from
# other ledgers cannot steer the terminal that it is shown on.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || exit 77
umask 022
export FRUGAL_RUN_LEDGER=$folder/state/frugal/ledger.db
four_classes
cat >run.yaml <<END
data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 4}]}
train: {steps: 4, out: weights}
END

# Modes: the ledger, the checkpoints and their folders; a result is as umask has it.
run 0 train run.yaml checkpoint.dir=kept/run checkpoint.every=1
[ "$(stat -c %a weights)" = 644 ] || fail "weights have $(stat -c %a weights)"
for path in kept kept/run kept/run/step-*; do
  [ "$(stat -c %a "$path")" = 700 ] || fail "$path has $(stat -c %a "$path")"
done
for path in kept/run/lock kept/run/spent.json kept/run/step-*/*; do
  [ "$(stat -c %a "$path")" = 600 ] || fail "$path has $(stat -c %a "$path")"
done
run 0 checkpoints copy kept/run copied
for path in copied copied/step-*; do
  [ "$(stat -c %a "$path")" = 700 ] || fail "$path has $(stat -c %a "$path")"
done
for path in copied/lock copied/step-*/*; do
  [ "$(stat -c %a "$path")" = 600 ] || fail "$path has $(stat -c %a "$path")"
done
run 0 runs
if ! grep -q 'built without SQLite' err; then
  [ "$(stat -c %a state/frugal)" = 700 ] && [ "$(stat -c %a state/frugal/ledger.db)" = 600 ] || fail "the ledger is open to others"
fi

# No setting shows a secret: not in the ledger, not in what is exported, not in `show`.
secret=hunter2
run 0 show run.yaml "train.seed=7" "spot.metadata=http://me:$secret@127.0.0.1:1/?token=$secret"
lacks out $secret
has out 'http://\*\*\*@127.0.0.1:1/\?token=\*\*\*'
export FRUGAL_SPOT_METADATA="http://me:$secret@127.0.0.1:1/?token=$secret"
run 0 train run.yaml spot.cloud=none run.name=secretive
export FRUGAL_SPOT_METADATA=http://127.0.0.1:1
lacks out $secret
lacks err $secret
! grep -rq $secret state || fail "the ledger holds the secret"
run 0 runs
if ! grep -q 'built without SQLite' err; then
  run 0 runs --export secretive
  lacks out $secret
  has out 'token=\*\*\*'

  # Rows from elsewhere: a name that clears the screen, a tag that begins a line of its own.
  python3 - out rows <<'END'
import json, sys
with open(sys.argv[1]) as source, open(sys.argv[2], "w") as to:
    for line in source:
        row = json.loads(line)
        if row["row"] == "run":
            row.update(id="eeeeeeeeeeee", name="\x1b[2Jclear\u009b31m", tags="a\nfake row", metric="\x1b]0;title\x07")
        if row["row"] == "segment":
            row.update(id="ffffffffffff", run="eeeeeeeeeeee", ended="\x1b[1mend", value=1)
        if row["row"] in ("run", "segment", "price"):
            to.write(json.dumps(row) + "\n")
END
  run 0 runs rows
  has out '\\x1b\[2Jclear'
  lacks out "$(printf '\033')"
  lacks out '^fake row'
  run 0 report eeeeeeeeeeee
  lacks out "$(printf '\033')"
  run 0 runs --csv
  lacks out "$(printf '\033')"
  lacks out '^fake row'
  run 0 runs --export eeeeeeeeeeee
  has out 'clear\\u009b31m'
  lacks out "$(printf '\302\233')"
  run 2 report "$(printf '\033[2J')"
  lacks err "$(printf '\033')"
fi
exit $failed
