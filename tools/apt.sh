# Packages of another release of Debian, unpacked and not installed: root is not needed, and the
# machine's own package lists and locks stay as they are. Source it with bash after common.sh, with
#   apt        a folder for lists, sources and archives
#   release    the other release: bullseye, trixie
#   component  of it: main, non-free

# The machine's own sources of its release, and the same places for the other release. Its security
# updates are left out of the latter: they are named differently.
write_sources() {
  local own
  own=$(. /etc/os-release && echo "$VERSION_CODENAME")
  rm -rf "$apt/sources"
  mkdir -p "$apt/sources" "$apt/lists/partial" "$apt/archives/partial"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    cp "$file" "$apt/sources/machine-$(basename "$file")"
    case "$file" in
      *.sources)
        awk -v own="$own" -v other="$release" -v component="$component" '
          BEGIN { RS = ""; ORS = "\n\n" }
          $0 !~ "(^|[ \n])Suites:[^\n]*[ ]" own "([ \n]|$)" { next }
          { sub(/Suites:[^\n]*/, "Suites: " other); sub(/Components:[^\n]*/, "Components: main " component)
            print }' "$file"
        ;;
      *) awk -v own="$own" -v other="$release" -v component="$component" '
          /^deb / && index($0, " " own " ") { sub(" " own " .*", " " other " main " component); print }' \
        "$file" ;;
    esac >"$apt/sources/$release-$(basename "$file")"
  done
}

with_sources() {
  local command=$1
  shift
  "$command" -q -o Debug::NoLocking=1 \
    -o Dir::Etc::sourcelist="$apt/none" -o Dir::Etc::sourceparts="$apt/sources" \
    -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt" -o Dir::Cache::archives=archives "$@"
}
