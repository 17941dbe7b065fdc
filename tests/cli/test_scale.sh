#!/bin/sh
# test_scale.sh: frugal scale says how large a model a budget buys; frugal help claims agrees with it.
. "$(dirname "$0")/common.sh"
unset FRUGAL_PRICES XDG_CONFIG_HOME
HOME=$folder
export HOME

run 0 scale 1e20
has out '^besiroglu +855 M +19.5 G +22.8 +1e\+20 +2.5'
has out '^hoffmann1 +.* -$'
[ "$(grep -c . out)" = 6 ] || fail 'scale lists other than five laws'
run 0 scale 1e20 --law hoffmann2 --json
has out '^\{"event":"sizing","law":"hoffmann2","flops":1e\+?20,.*"loss":null\}'
run 0 scale '$5000' --machine p4d.24xlarge
has out '227.7 h of aws p4d.24xlarge at \$21.96 are 8.18e\+20 FLOPs at 40 % of its peak \(assumed'
run 0 scale 100h --machine p4d.24xlarge --mfu 0.5
lacks out assumed
run 0 scale '$5000' --machine p4d.24xlarge --spot
has out 'at \$16.44'
run 1 scale '$5000' --machine gpu_1x_a10 --spot
has err 'has no such price'
run 2 scale '$5000'
has err '--machine'
run 2 scale '$5000' --machine c7i.4xlarge
has err 'no machine c7i.4xlarge with GPUs'
run 2 scale '$5000' --machine p4d.24xlarg
has err 'did you mean p4d.24xlarge\?'
# What was meant as dollars or hours is not a model of four parameters.
run 2 scale 5000
has err "5000 FLOPs are too few for a scaling law: .* write '\\\$5000', for hours 5000h"
[ ! -s out ] || fail 'scale 5000 still recommends something'
run 2 scale 1e20 --machine p4d.24xlarge
has err 'leave out --machine'
run 2 scale much
has err '1e21'
run 2 scale 1e20 --law moore
run 2 scale 1e20 --mfu
# Fine-tuning: 6 FLOPs a weight and token where all are trained, 4 with adapters.
run 0 scale 1e20 --lora llama-3-8b
has out '^all weights +8.0 G +2.1 G '
has out '^adapters +8.0 G +3.1 G '
# 8.03 G weights, of which 2 x 128,256 x 4,096 are embedding and head: 16.1 GB, 9.1 GB and, at 4.127 bits, 5.7 GB.
has err '^frozen weights: 16.1 GB in bf16, 9.1 GB in fp8, 5.7 GB in nf4 \(QLoRA\)'
run 0 scale 1e20 --lora llama-3-8b --json
has out '^\{"event":"frozen","bf16":16060522496,"fp8":9080934400,"nf4":5701941313\}$'
run 2 scale 1e20 --lora llama-9
has err 'no known model llama-9'
run 0 scale 1e21 --served 1e13
has out '^served'

# A law of one's own: the default law's points give it back.
awk 'BEGIN { print "params,tokens,loss"
  for (n = 1e6; n < 1e9; n *= 4) for (r = 3; r < 100; r *= 3)
    printf "%.9g,%.9g,%.12g\n", n, n * r, 1.8 + 500 / n ^ 0.35 + 2000 / (n * r) ^ 0.36 }' >runs.csv
run 0 scale 1e20 --fit runs.csv
has out 'E +1.8 '
has out 'alpha +0.35 '
has out 'beta +0.36 '
run 0 scale 1e20 --fit runs.csv --json
has out '"event":"law","E":\[1.8,1.8,1.8\]'
printf 'params,tokens,loss\n1e6,1e7,4\n' >runs.csv
run 1 scale 1e20 --fit runs.csv
has err '1 runs are too few to fit a law'
run 3 scale 1e20 --fit missing.csv

run 0 help claims
has out '6 N D = 2.65 C'
has out '\$1,581'
exit $failed
