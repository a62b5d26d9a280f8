#!/usr/bin/env bash
# Installs what is missing of the packages with the given tags: scripts/install-packages.sh build test
# Needs apt, and root or sudo, only when something is missing. Asks nothing, but for the password that
# sudo may want at a terminal.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || { echo "usage: scripts/install-packages.sh build|test|ci|nightly ..." >&2; exit 2; }

is_there() {  # package probe
  case $2 in
    -) dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed' ;;
    *.h | *.hpp)
      [ -e ".deps/include/$2" ] || [ -e "/usr/include/$2" ] || [ -e "/usr/local/include/$2" ] ;;
    *) command -v "$2" >/dev/null ;;
  esac
}

missing=()
while read -r tag package probe; do
  case $tag in '#'* | '') continue ;; esac
  for wanted in "$@"; do
    if [ "$wanted" = "$tag" ] && ! is_there "$package" "$probe"; then missing+=("$package"); fi
  done
done <scripts/packages.txt
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "No apt-get here. If the build stops, install what these Debian packages hold:" >&2
  echo "  ${missing[*]}" >&2
  exit 0
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Packages are missing, and neither root nor sudo is at hand. As root:" >&2
    echo "  apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
  if [ ! -t 0 ]; then as_root+=(-n); fi
fi
apt() { ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null; }

echo "Installing: ${missing[*]}"
apt install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
  { apt update && apt install -y --no-install-recommends "${missing[@]}"; }
