#!/bin/sh
# test_usage.sh: what frugal says, where (stdout or stderr) and with which exit code.
. "$(dirname "$0")/common.sh"
demo=$top/demo

# says CODE STREAM TEXT ARGUMENT...: the command exits with CODE, and STREAM has TEXT.
says() {
  code=$1 stream=$2 text=$3
  shift 3
  "$frugal" "$@" >out 2>err </dev/null
  rc=$?
  if [ $rc != "$code" ] || ! grep -qF -- "$text" $stream; then
    echo "FAILED: frugal $*: exit $rc, expected $code and \"$text\" on $stream"
    head -n 5 out err
    failed=1
  fi
}

says 0 out 'usage: frugal COMMAND'
says 2 err 'did you mean doctor?' docter
says 0 out 'usage: frugal COMMAND' --help
says 0 out 'usage: frugal COMMAND' help
says 0 out 'usage: frugal doctor' doctor --help
says 0 out 'frugal ' --version
says 0 out '{"event":"version","version":"' version --json
says 0 out 'FRUGAL_TRAIN_BATCH' help train.batch
says 0 out 'train.batch' help options
says 0 out 'interrupted' help exit-codes
says 2 err 'did you mean train.batch?' help train.bach
says 2 err 'no completions for csh' help --completions csh
says 0 out 'cores' doctor
says 0 out '"event":"doctor"' doctor --json

# Every command that ./demo proposes is one, and its settings are settings.
grep -oE 'build/frugal [a-z]+' "$demo" | cut -d' ' -f2 | sort -u | while read -r word; do
  "$frugal" "$word" --help >/dev/null 2>&1 || echo "$word"
done >unknown
grep -oE ' [a-z_]+\.[a-z_.]+=' "$demo" | tr -d ' =' | while read -r key; do
  "$frugal" help "$key" >/dev/null 2>&1 || echo "$key"
done >>unknown
[ ! -s unknown ] || { echo "FAILED: demo proposes $(cat unknown), which frugal does not know"; failed=1; }

printf 'data:\n  path: x\ntrain:\n  batchsize: 32\n' >run.yaml
says 2 err 'run.yaml:4: unknown key train.batchsize; did you mean train.batch?' doctor run.yaml
says 2 out '{"event":"error","status":2,"text":"run.yaml:4: unknown key' doctor run.yaml --json
printf 'train:\n\tbatch: 32\n' >run.yaml
says 2 err 'run.yaml:2:' doctor run.yaml
says 3 err 'missing.yaml' doctor missing.yaml

# Nothing on stdout but the answer, no escape codes when it is no terminal.
"$frugal" help >out 2>err
[ ! -s err ] || { echo "FAILED: help writes to stderr"; failed=1; }
"$frugal" doctor >out 2>err
grep -q "$(printf '\033')" out && { echo "FAILED: escape codes in a file"; failed=1; }

# A reader that goes away or a full disk is the world's fault.
if [ -w /dev/full ]; then
  "$frugal" help >/dev/full 2>err
  [ $? = 3 ] && grep -q stdout err || { echo "FAILED: a full disk goes unnoticed"; failed=1; }
fi

# The manual page and the completions are clean.
"$frugal" help --man >frugal.1
if command -v mandoc >/dev/null; then
  mandoc -T lint -W warning frugal.1 || { echo "FAILED: mandoc"; failed=1; }
elif command -v groff >/dev/null; then
  [ -z "$(groff -man -Tutf8 -ww -z frugal.1 2>&1)" ] || { echo "FAILED: groff"; failed=1; }
fi
"$frugal" help --completions bash >frugal.bash
for shell in bash zsh fish; do
  command -v $shell >/dev/null || continue
  "$frugal" help --completions $shell >script
  $shell -n script || { echo "FAILED: completions of $shell"; failed=1; }
done
if command -v bash >/dev/null; then
  bash -c '. ./frugal.bash; COMP_WORDS=(frugal do) COMP_CWORD=1; _frugal 2>/dev/null
    [ "${COMPREPLY[*]}" = doctor ]' || { echo "FAILED: bash completes nothing"; failed=1; }
  # offers WORDS REPLIES: what Tab makes of the words, split at = as readline does.
  offers() {
    PATH=$PATH:$(dirname "$frugal") bash -c '. ./frugal.bash; COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _frugal 2>/dev/null
      [ "${COMPREPLY[*]}" = "$2" ] || { echo "FAILED: Tab after \"$1\" offers \"${COMPREPLY[*]}\""; exit 1; }' - "$1" "$2" || failed=1
  }
  offers 'frugal train run.yaml train.precision = b' bf16
  offers 'frugal train run.yaml train.precision=f' 'train.precision=fp32 train.precision=fp16'
  offers 'frugal train run.yaml model.tied =' 'true false'
  offers 'frugal train run.yaml train.batch = a' auto
  offers 'frugal train run.yaml data.path = o' '' # a file: the shell's own
  offers 'frugal prices --sort s' spot
  offers 'frugal plan gpt2 --lora R' ''
  offers 'frugal checkpoints ver' verify
  offers 'frugal train --json train.optimiser = ad' 'adam adamw'
  # Names of the catalogue, with their cloud and without, and of models.
  offers 'frugal plan gpt2-x' gpt2-xl
  offers 'frugal prices p4de' p4de.24xlarge
  offers 'frugal plan gpt2 --machine p4de' p4de.24xlarge
  offers 'frugal plan gpt2 --machine aws/p4d' 'aws/p4d.24xlarge aws/p4de.24xlarge'
  offers 'frugal train run.yaml run.machine = gcp/a2-highgpu-1' gcp/a2-highgpu-1g
  offers 'frugal train run.yaml run.machine=gcp/a2-highgpu-1' run.machine=gcp/a2-highgpu-1g
  # Settings of every command that takes them, and none of the program that `run` starts.
  offers 'frugal run run.yaml program.sig' program.signal=
  offers 'frugal evaluate model.safetensors data.eval_p' data.eval_path=
  offers 'frugal follow program.sig' program.signal=
  offers 'frugal run run.yaml -- python program.sig' ''
  printf 'data: {kind: synthetic_clicks, samples: 100}\nmodel: {kind: ranker}\ntrain: {steps: 1}\nrun: {name: alpha}\n' >run.yaml
  FRUGAL_RUN_LEDGER=$PWD/ledger.db "$frugal" train run.yaml >out 2>err
  export FRUGAL_RUN_LEDGER="$PWD/ledger.db"
  for word in report watch top evaluate; do
    [ ! -s ledger.db ] || offers "frugal $word al" alpha # a build without SQLite has no ledger
  done
fi
exit $failed
