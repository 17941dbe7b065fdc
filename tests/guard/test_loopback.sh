#!/bin/bash
# test_loopback.sh LIBRARY: the guard ends who connects elsewhere, and lets loopback be. bash itself is
# the program that connects, by /dev/tcp; 192.0.2.1 is nobody's (RFC 5737).
ulimit -c 0
said=$(LD_PRELOAD=$1 bash -c 'exec 3<>/dev/tcp/192.0.2.1/80' 2>&1)
rc=$?
[ $rc = 134 ] || { echo "a stray connection: exit $rc, not 134"; exit 1; }
case $said in *'a test connects to 192.0.2.1'*) ;; *) echo "said: $said"; exit 1 ;; esac
said=$(LD_PRELOAD=$1 bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>&1)
rc=$?
[ $rc = 1 ] || { echo "loopback: exit $rc, not 1: $said"; exit 1; }
case $said in *refused*) ;; *) echo "said: $said"; exit 1 ;; esac
