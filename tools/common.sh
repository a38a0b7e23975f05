# Shared by the commands in this folder: timed steps, compilers, Debian packages and virtual environments.
# Source it with bash.

fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

# clang_command clang|clang++: the first one found, plain or with a version in its name.
clang_command() {
  compgen -c "$1" | grep -xE "${1//+/\\+}(-[0-9]+)?" | sort -V | head -n 1
}

# step NAME LOG COMMAND...: runs a command with its output in LOG and prints one line with the time
# taken; after a failure the end of the log, because that is where compilers and pip say why.
step() {
  local name=$1 log=$2 begin=$SECONDS
  shift 2
  mkdir -p "$(dirname "$log")"
  printf '%-44s' "$name"
  if "$@" >"$log" 2>&1 </dev/null; then
    printf '%4d s\n' $((SECONDS - begin))
  else
    printf 'failed after %d s; the end of %s:\n' $((SECONDS - begin)) "$log"
    tail -n 40 "$log"
    return 1
  fi
}

# beside NAME LOG COMMAND...: starts a command whose output goes into LOG, and returns; `joined NAME`
# waits for it, prints that output and has its status. What still runs when the script ends is ended.
declare -A beside_pid=() beside_log=()
beside() {
  local name=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  beside_log[$name]=$log
  set -m  # a process group of its own
  "$@" >"$log" 2>&1 </dev/null &
  set +m
  beside_pid[$name]=$!
  trap end_beside EXIT
}

joined() {
  local status=0
  wait "${beside_pid[$1]}" || status=$?
  unset "beside_pid[$1]"
  cat "${beside_log[$1]}"
  return $status
}

end_beside() {
  local pid
  for pid in "${beside_pid[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
}

# Prints what this machine lacks for a virtual environment and a C++ build, one package per line.
missing_basics() {
  if ! command -v python3 >/dev/null; then
    echo python3
    echo python3-venv
  elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    echo python3-venv
  fi
  command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
    echo gcc
  command -v "${CXX:-c++}" >/dev/null || command -v g++ >/dev/null ||
    command -v clang++ >/dev/null || echo g++
}

# Packages of the system are installed where the user asks for it, and in continuous integration.
install=no
[ "${CI-}" != true ] || install=yes

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update && apt-get -qq install -y --no-install-recommends "$@"
}

# need_packages LOG PACKAGE...: installs them if that was asked for, else says what to install, and ends.
need_packages() {
  local log=$1
  shift
  [ $# -gt 0 ] || return 0
  [ "$install" = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
    fail "this machine lacks $*. On Debian or Ubuntu, as root:
  apt-get install $*"
  step "Debian packages: $*" "$log" install_packages "$@" || exit 1
}

# make_venv DIRECTORY REQUIREMENTS: a virtual environment holding just these packages; nothing is
# done where the last complete installation had the same list.
make_venv() {
  local directory=$1 requirements=$2
  cmp -s "$requirements" "$directory/installed.txt" && "$directory/bin/python" -c '' && return 0
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "Python 3.10 or later is needed; python3 is $(python3 --version 2>&1)"
    return 1
  }
  python3 -m venv --clear "$directory" &&
    "$directory/bin/python" -m pip install -q --disable-pip-version-check -r "$requirements" &&
    cp "$requirements" "$directory/installed.txt"
}
