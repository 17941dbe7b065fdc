#!/bin/sh
# test_driver.sh PLANTED: the fuzz driver must find the planted fault and keep an input that shows it.
crash=$(mktemp) || exit 1
trap 'rm -f "$crash"' EXIT
ulimit -c 0
(unset CHECK_SECONDS; CHECK_EXECUTIONS=1 CHECK_SEED=1 "$1" --corpus "" --crash "$crash") | grep -q '^1 executions in ' ||
  { echo "the driver does not stop after one execution"; exit 1; }
"$1" --corpus "" --crash "$crash" && { echo "the driver did not find the planted fault"; exit 1; }
"$1" "$crash" && { echo "the input it kept does not show the fault"; exit 1; }
echo "found and kept"
