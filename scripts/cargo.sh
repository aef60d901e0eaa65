#!/bin/sh
# Runs the first cargo that is new enough, with the compiler that belongs to it: Debian's
# (rustc-web) may lie behind an older one in PATH.
set -eu

wanted=1.89 # rust-version in Cargo.toml

for cargo in "${CARGO-cargo}" /usr/bin/cargo; do
    version=$("$cargo" --version 2>/dev/null | cut -d ' ' -f 2) || continue
    [ -n "$version" ] || continue
    oldest=$(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -n 1)
    if [ "$oldest" = "$wanted" ]; then
        PATH=$(dirname "$(command -v "$cargo")"):$PATH
        export PATH
        exec "$cargo" "$@"
    fi
done
echo "no cargo of version $wanted or later: run \`make build\` as root, or see CONTRIBUTING.md" >&2
exit 3
