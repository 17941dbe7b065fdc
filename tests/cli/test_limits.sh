#!/bin/sh
# test_limits.sh: small limits of memory and large claims: a run that needs little gets by with little, and what cannot
# be done is refused with a sentence before the work, not by the kernel in the middle of it.
. "$(dirname "$0")/common.sh"

seq 5000 >text.txt
cat >run.yaml <<'Y'
data: {path: text.txt, context: 16}
model: {kind: gpt, depth: 1, width: 16, heads: 2}
train: {batch: 4, lr: 0.001, steps: 20}
Y

# within KIB CODE ARGUMENT...: with so much address space.
within() {
  limit=$1 code=$2
  shift 2
  (ulimit -v "$limit" && exec "$frugal" "$@") >out 2>err </dev/null
  rc=$?
  [ $rc = "$code" ] || fail "ulimit -v $limit; frugal $*: exit $rc, not $code"
}
if ! (ulimit -v 2000000 && "$frugal" version) >out 2>err; then
  echo "address space cannot be limited here"
else
  within 100000000 0 train run.yaml
  within 2000000 0 train run.yaml checkpoint.dir=kept
  within 2000000 0 train run.yaml checkpoint.dir=kept train.steps=40 train.out=limited.safetensors
  run 0 train run.yaml train.steps=40 train.out=free.safetensors
  same_numbers limited.safetensors free.safetensors || fail 'with less address space the run differs'
  within 2000000 0 show run.yaml
  within 2000000 0 plan run.yaml
  within 2000000 0 tokenize text.txt --train 300 --tokenizer mine --out tokens.bin
  within 2000000 0 run checkpoint.dir=kept_of_program -- sh -c 'echo step 1 loss 2'
  within 2000000 2 train run.yaml model.width=2048 model.heads=16 model.depth=8 # 6 GB of weights and their state
  has err 'even one sample at a time needs [0-9.]+ GiB, and [01][0-9.]* GiB are allowed'
  for limit in 60000 50000 40000 35000 30000; do # KiB: with so little not even a plan
    (ulimit -v $limit && exec "$frugal" plan run.yaml) >out 2>err </dev/null
    rc=$?
    [ $rc -lt 4 ] || [ $rc = 127 ] || fail "plan in $limit KiB: exit $rc"
  done
  has err 'refuses|cannot'
fi

# 356 bytes may claim any vocabulary, in a token or beside the file.
{ head -c 352 /dev/zero; printf '\0\0\0\001'; } >tokens32.bin # the last is token 16,777,216
run 2 train run.yaml data.path=tokens32.bin data.token_type=u32
has err 'tokens32.bin: a vocabulary of 16777217 tokens is larger than any tokenizer.s; is data.token_type=u32 right'
head -c 356 /dev/zero >claims.bin
echo '{"format":"frugal tokens 1","token_type":"u16","tokens":178,"vocabulary":16777216,"tokenizer":"x","documents":1,"source_bytes":1,"work":"y"}' >claims.bin.json
run 2 train run.yaml data.path=claims.bin
has err 'claims.bin: a vocabulary of 16777216 tokens is larger'
run 0 train run.yaml data.path=claims.bin data.vocabulary=300

# A nested repeat is refused before the C library writes it out.
run 2 run 'program.step=((((([0-9]{99}){99}){99}){99}){99})' program.read=regex checkpoint.dir=of_program -- echo step 1
has err 'program.step is .*: its repeats expand to more than 1,000 nodes'
exit $failed
