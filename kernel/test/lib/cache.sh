# The cache that runs share, also those of other clones (a fresh one of CI): kernels, by the hash of
# all their inputs. An entry is whole when its `bzImage` is there, which comes last and
# by a rename. Sourced by run.sh.

# Entries that were not used for so many days are dropped, and the least lately used beyond so many.
cache_days=30
cache_entries=48

# Sets $cache to a directory that can be written to.
find_cache() {
    cache=${KERNEL_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-$work}/.cache}/memweir-kernel}
    mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] && return
    say "kernels are not kept for other clones: no writing in $cache"
    cache=$work/cache
    mkdir -p "$cache"
}

# cache_entry KEY: sets $entry and marks it as used.
cache_entry() {
    entry=$cache/$1
    mkdir -p "$entry"
    touch "$entry"
}

# Drops the entries that no run needs any more.
trim_cache() {
    find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime "+$cache_days" -exec rm -rf {} +
    # shellcheck disable=SC2012 # names are hashes
    ls -t "$cache" | tail -n "+$((cache_entries + 1))" | while read -r old; do
        rm -rf "${cache:?}/$old"
    done
}
