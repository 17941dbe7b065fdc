#!/bin/sh
# test_configs.sh: `frugal plan` counts the parameters of other people's models as their cards publish them, within 0.5 %,
# and refuses by name what it does not understand. configs/ has the shapes of these models as their config.json files give them.
. "$(dirname "$0")/common.sh"
unset FRUGAL_TRAIN_PRECISION # it would limit the plans
configs=$top/tests/cli/configs

# counts FILE PARAMETERS [ACTIVE]: as published, in millions; those that a token uses may differ by the cards' rounding, 3 %.
counts() {
  run 0 plan "$configs/$1.json" --tokens 1e9 --on aws
  head -n 1 out | awk -v name="$1" -v published="$2" -v active="${3:-}" '
    function millions(number, unit) { return number * (unit == "G" ? 1000 : unit == "M" ? 1 : 1 / 0) }
    function far(count, from, by) { return count < from * (1 - by) || count > from * (1 + by) }
    {
      count = millions($2, $3); print name ": " count " million parameters"
      if ($4 !~ /^parameters/ || far(count, published, 0.005)) exit 1
      if (active != "" && ($7 != "used" || far(millions($5, $6), active, 0.03))) exit 1
    }' || fail "$1: its parameters are not $2 million, $3 used by a token"
}
counts bert 110
counts gpt2 124
counts gemma2_2b 2614
counts gemma2_9b 9242
counts llama31 8030
counts mistral 7242
counts mixtral 46700 12900
counts phi3 3821
counts qwen 7616
counts qwen3moe 30532 3345

run 2 plan "$configs/t5.json" --tokens 1e9
has err 'model_type "t5" has an encoder and a decoder'
run 2 plan "$configs/vit.json" --tokens 1e9
has err 'model_type "vit" is a vision transformer'
exit $failed
