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

# As many compilers at once as there are cores, and 1.5 GiB of memory for each.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1024 / 1536)}' /proc/meminfo)
  echo $((memory < 1 ? 1 : memory < cores ? memory : cores))
}
