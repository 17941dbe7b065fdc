#!/bin/bash
# test_doctor.sh: doctor shows the level of the processor's vectors, and what FRUGAL_VECTORS leaves of it.
. "$(dirname "$0")/common.sh"
levels=(none avx2 avx512 avx512bf16 amx)
unset FRUGAL_VECTORS

# place LEVEL: its place in the list.
place() { for i in "${!levels[@]}"; do [ "${levels[$i]}" != "$1" ] || echo "$i"; done; }

run 0 doctor --json
own=$(grep -oE '"vectors":"[a-z0-9]+"' out | cut -d'"' -f4)
[ -n "$(place "$own")" ] || fail "no known level: $own"
has out "\"vectors_used\":\"$own\""
if grep -qE '^flags.* avx2( |$)' /proc/cpuinfo; then
  [ "$own" != none ] || fail "the processor has AVX2, and doctor says none"
elif [ -r /proc/cpuinfo ]; then
  [ "$own" = none ] || fail "the processor has no AVX2, and doctor says $own"
fi
run 0 doctor
has out "^  vectors   $own\$"

for cap in "${levels[@]}"; do
  export FRUGAL_VECTORS=$cap
  used=$cap
  [ "$(place "$cap")" -lt "$(place "$own")" ] || used=$own # no cap makes a processor better
  run 0 doctor --json
  has out "\"vectors\":\"$own\",\"vectors_used\":\"$used\""
  case $cap in none | avx2) ;; *) continue ;; esac
  run 0 doctor
  if [ "$used" = "$own" ]; then has out "^  vectors   $own\$"
  else has out "^  vectors   $own, of which FRUGAL_VECTORS allows $cap\$"; fi
done
exit $failed
