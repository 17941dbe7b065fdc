#!/bin/sh
# test_needs.sh OBJDUMP MODULE...: does each name libstdc++ among the libraries that the loader brings?
objdump=$1
shift
for module; do
  "$objdump" -p "$module" | grep -q 'NEEDED *libstdc++\.so\.6$' || { echo "FAILED: $module does not need libstdc++.so.6"; exit 1; }
done
