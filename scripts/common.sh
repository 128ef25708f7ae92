# Shared by the scripts of this folder; sourced, not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null  # nothing here asks questions, and nothing may wait for an answer

say() { printf '\n== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# retry TIMES COMMAND…: for what goes over a network.
retry() {
  local times=$1 attempt; shift
  for ((attempt = 1; ; ++attempt)); do
    "$@" && return 0
    ((attempt < times)) || return 1
    echo "failed ($*); trying again in $((attempt * 5)) s" >&2
    sleep $((attempt * 5))
  done
}

# make_venv PYTHON FOLDER: an environment with pip, unless it is there; what was left half made is made anew.
make_venv() {
  ! "$2/bin/python" -m pip --version >/dev/null 2>&1 || return 0
  if compgen -G "$2/.installed-*" >/dev/null; then
    die "the Python of $2 does not run any more, or has lost its pip; remove $2, and it is made anew"
  fi
  "$1" -m venv --clear "$2" || die "$1 cannot make an environment in $2 (Debian: python3-venv)"
}

# The versions of clang that serve, the best first: 14, with which the sources are checked, then the newest (that of
# Debian 13 numbered 17 crashes on a kernel with both sanitizers).
clangs=(14 19 18 17 16 15)

# clang_version: the number in the names of the clang that is installed, the best one.
clang_version() {
  local version
  for version in "${clangs[@]}"; do
    if command -v "clang++-$version" >/dev/null; then
      echo "$version"
      return 0
    fi
  done
  return 1
}

# warnings_as_errors: ON under continuous integration and with the developers' compiler (gcc 12), else OFF: another one
# warns of other things, and tests are for everybody.
warnings_as_errors() {
  local macros
  macros=$(${CXX:-c++} -dM -E -x c++ - 2>/dev/null) || true
  if [[ -n ${CI:-} || ($macros =~ __GNUC__\ 12($|[^0-9]) && $macros != *__clang__*) ]]; then echo ON; else echo OFF; fi
}

# least NUMBER…: the smallest.
least() { printf '%s\n' "$@" | sort -n | head -n 1; }

# cores: that this process may use, also in a container that may use a part of the machine's (cpu.max: quota period).
cores() {
  local quota period count
  count=$(nproc)
  if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [[ $quota != max ]]; then
    count=$(least "$count" $(((quota + period - 1) / period)))
  fi
  echo "$count"
}

# As many compilers at once as there are cores, and 1.5 GiB of memory for each.
jobs() {
  local mib limit used cache  # what files keep in memory is given back when it is wanted
  mib=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
  if read -r limit 2>/dev/null </sys/fs/cgroup/memory.max && [[ $limit != max ]] &&
    read -r used 2>/dev/null </sys/fs/cgroup/memory.current; then
    cache=$(awk '$1 == "inactive_file" {print $2}' /sys/fs/cgroup/memory.stat 2>/dev/null || true)
    mib=$(least "$mib" $(((limit - used + ${cache:-0}) / 1048576)))
  fi
  least "$(cores)" $((mib < 1536 ? 1 : mib / 1536))
}
