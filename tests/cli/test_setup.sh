#!/bin/bash
# test_setup.sh: scripts/setup with package managers that are made up: what it installs, that it never asks
# for a password, never fails for an optional package, and does not try again at once what failed. And
# doctor names every library that setup installs.
. "$(dirname "$0")/common.sh"

mkdir -p bin scripts
cp "$top/scripts/setup" "$top/scripts/packages.txt" scripts/
for tool in sh awk cat dirname env find grep mktemp mkdir rm tail timeout true; do ln -s "$(type -P $tool)" bin/; done
program() { printf '#!/bin/sh\n%s\n' "$2" >"bin/$1"; chmod +x "bin/$1"; }
for tool in cc cmake make; do program $tool 'exit 0'; done
program apt-get 'echo "apt-get $*" >>log
case "$*" in
  *" install "*"$(cat absent)"*) [ ! -s absent ] || exit 100 ;;
esac
case "$*" in *" install "*) for p; do echo "$p" >>have; done ;; esac'
program dpkg-query 'for p; do :; done; grep -qx -- "$p" have && printf installed'
id() { program id "echo $1"; }

# setup CODE [ARGUMENT]: with nobody at the keyboard.
setup() {
  local code=$1 rc
  shift
  : >log
  PATH=$PWD/bin scripts/setup "$@" >out 2>err </dev/null
  rc=$?
  [ $rc = "$code" ] || fail "setup $*: exit $rc, not $code"
}

# As root, everything there is: once.
id 0; : >absent; : >have
setup 0 build
has log 'apt-get .*install .*gcc .*libpng-dev'
setup 0 build
[ ! -s log ] || fail "the second setup calls an installer"
[ ! -s err ] || fail "the second setup says something"

# One package is unknown: the others come, it is named, and not tried again at once.
rm -rf build; : >have; echo libpng-dev >absent
setup 0 build
grep -qx libsqlite3-dev have || fail "one package that is unknown keeps the others away"
has err 'Not installed; to have them, as root: apt-get install libpng-dev$'
setup 0 build
[ ! -s log ] || fail "setup tries again at once"
has err 'apt-get install libpng-dev$'
touch -d '2 hours ago' build/setup.tried
setup 0 build
has log install

# Not root: no sudo, then one that would ask, then one that does not.
rm -rf build; : >have; : >absent; id 1000
setup 0 build
[ ! -s log ] || fail "apt-get is called without the right to"
has err 'as root: apt-get install gcc'
program sudo 'echo "sudo $*" >>asked; [ "$1" = -n ] && exit 1; echo password? >&2; read -r answer'
setup 0 build
[ ! -s log ] || fail "apt-get is called although sudo refuses"
lacks err 'password'
program sudo '[ "$1" = -n ] || exit 9; shift; exec "$@"'
setup 0 build
has log 'apt-get .*install'

# Everything there and no rights at all.
rm -f bin/sudo
setup 0 build
[ ! -s err ] || fail "setup without root says something where nothing is missing"

# Only what frugal cannot be built without ends it.
program cc 'exit 1'
setup 3 build
has err "cannot be built without the C library's headers"
rm bin/cc
setup 3 build
has err 'cannot be built without cc'
program cc 'exit 0'

# Fedora and Amazon Linux have dnf; what has neither is left alone.
id 0; rm -rf build bin/apt-get bin/dpkg-query; : >have
program dnf 'echo "dnf $*" >>log; for p; do echo "$p" >>have; done'
program rpm 'for p; do :; done; grep -qx -- "$p" have'
setup 0 build
has log 'dnf install'
rm bin/dnf
setup 0 build
[ ! -s log ] || fail "an installer was called"

# Doctor names each library, found or not.
"$frugal" doctor >out 2>err || fail "doctor"
packages=$(awk '$1 == "build" && $2 ~ /^lib.*-dev$/ && $2 != "libc6-dev" { print $2 }' scripts/packages.txt)
[ "$(echo "$packages" | wc -l)" = "$(sed -n '/^Libraries/,$p' out | grep -cE 'found, .* used for|(missing|not in this build): .*; install')" ] ||
  fail "doctor does not name what setup installs: $packages"
for package in $packages; do
  grep -q "\"$package\")" "$top/src/job/libraries.def" || fail "doctor has no $package"
done
exit $failed
