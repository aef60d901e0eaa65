# Kernels: a series (and perhaps further patches) on the pristine source, configured, built, and
# kept by the hash of everything that went in. Sourced by run.sh; needs source.sh.

# build_kernel SERIES CONFIG [PATCH...]: sets $image (a bzImage), $entry (where it is kept) and
# $tree (its build tree, which may be absent when the image was kept). SERIES is a directory below
# kernel/, or `stock`. CONFIG is one or more names of config/*.config joined by `+`.
build_kernel() {
    series=$1 config=$2
    shift 2
    # Patches one by one begin at the stock kernel, of which the first needs most object files.
    if [ "$upto" = all ]; then tree=$work/trees/$series-$config; else tree=$work/trees/stock-$config; fi
    patches=$(series_patches "$series" "$@")
    fragments=$(config_fragments "$config" "$series")
    # shellcheck disable=SC2086 # file names of this repository, without spaces
    cache_entry "$( (echo "$source_id"; toolchain; cat $fragments; changes_of $patches) | digest)"
    image=$entry/bzImage
    [ ! -f "$image" ] || return 0
    built="$series, $config$(printf ', %s' "$@" | sed 's/, $//; s/[^ ]*\///g; s/\.patch//g')"
    [ "$upto" = all ] || built="$built, $upto patches"
    need_source
    started=$(date +%s)
    mkdir -p "$work/trees"
    # shellcheck disable=SC2086
    (
        make_tree
        set_patches $patches
        configure
        compile
    ) || {
        # A failed make leaves complete files behind.
        rm -f "$tree.unfinished"
        die "kernel $built: not built (logs beside $tree)"
    }
    trim_cache
    say "kernel $built: built in $(($(date +%s) - started)) s"
}

toolchain() {
    cc --version | head -n 1
    ld --version | head -n 1
}

# The patches without their messages and documentation, which do not change the kernel.
changes_of() {
    cat "$@" /dev/null | awk '
        /^From / { kept = 0 }
        /^diff --git/ { kept = $3 !~ /^a\/(Documentation\/|MAINTAINERS$)/ }
        kept'
}

series_patches() {
    if [ "$1" != stock ]; then
        # Without the cover letter.
        find "$(series_directory "$1")" -maxdepth 1 -name '0*.patch' ! -name '0000-*' | sort |
            if [ "$upto" = all ]; then cat; else head -n "$upto"; fi
    fi
    shift
    for patch; do
        echo "$patch"
    done
}

# A series for another kernel than Debian 12's is in a directory of that version.
series_directory() {
    [ ! -d "$kernel/$1/$linux" ] || { echo "$kernel/$1/$linux"; return; }
    echo "$kernel/$1"
}

all_series() {
    for first in "$kernel"/*/0001-*.patch; do
        basename "$(dirname "$first")"
    done
}

# The fragments with these names, each with its addition for this version of the kernel, and the
# series's own if it has one.
config_fragments() {
    for name in $(echo "$1" | tr '+' ' ') "$2"; do
        for fragment in "$here/config/$name.config" "$here/config/$name-$linux.config"; do
            [ ! -f "$fragment" ] || echo "$fragment"
        done
    done
}

# Hard links of the pristine tree: patch(1) and the kernel's build replace files, they do not write
# into them. A tree whose build was killed is not trusted: make would take half a file for a new
# one.
make_tree() {
    if [ -f "$tree/Makefile" ] && [ ! -e "$tree.unfinished" ]; then
        : >"$tree.unfinished"
        return
    fi
    rm -rf "$tree" "$tree.part"
    cp -al "$source" "$tree.part" 2>/dev/null || {
        rm -rf "$tree.part"
        cp -a "$source" "$tree.part"
    }
    mkdir "$tree.part/.applied"
    : >"$tree.unfinished"
    mv "$tree.part" "$tree"
}

# set_patches PATCH...: reverts the applied patches that are not wanted, in reverse order, and
# applies those that are missing. A file that ends as it was keeps its time, so that make rebuilds
# little.
set_patches() {
    touched=$(cat "$@" "$tree"/.applied/* /dev/null 2>/dev/null |
        sed -n 's|^[-+][-+][-+] [ab]/||p' | sort -u)
    rm -rf "$tree/.before"
    mkdir "$tree/.before"
    for file in $touched; do
        [ ! -f "$tree/$file" ] || (cd "$tree" && cp -p --parents "$file" .before)
    done
    exchange_patches "$@"
    for file in $touched; do
        if cmp -s "$tree/$file" "$tree/.before/$file"; then
            touch -r "$tree/.before/$file" "$tree/$file"
        fi
    done
    rm -rf "$tree/.before"
}

# No fuzz: a patch that only nearly fits is a patch for another kernel.
exchange_patches() {
    log=$tree.patch.log
    : >"$log"
    count=0
    for patch; do
        have=$tree/.applied/$(printf %03d "$count")
        cmp -s "$patch" "$have" || break
        count=$((count + 1))
    done
    for have in $(ls -r "$tree/.applied"); do
        [ "${have#0}" != "$have" ] && [ "$(expr "$have" + 0)" -ge "$count" ] || continue
        patch -d "$tree" -p1 -R -F0 -s -N --no-backup-if-mismatch \
            <"$tree/.applied/$have" >>"$log" 2>&1 ||
            { rm -rf "$tree"; die "cannot take back a patch in $tree; removed it, run again"; }
        rm "$tree/.applied/$have"
    done
    shift "$count"
    for patch; do
        patch -d "$tree" -p1 -F0 -s -N --dry-run <"$patch" >>"$log" 2>&1 ||
            die "$patch does not apply without fuzz to the source of $package (see $log)"
        patch -d "$tree" -p1 -F0 -s -N --no-backup-if-mismatch <"$patch" >>"$log" 2>&1
        cp "$patch" "$tree/.applied/$(printf %03d "$count")"
        count=$((count + 1))
    done
}

# allnoconfig and the options of the fragments, in the tree or, with $make_options, in $output; a
# line that Kconfig dropped (a missing dependency) is an error, not a smaller test.
configure() {
    configured=${output-$tree}
    # shellcheck disable=SC2086
    cat $fragments >"$configured/.fragment"
    # shellcheck disable=SC2086
    make -C "$tree" -s ${make_options-} KCONFIG_ALLCONFIG="$configured/.fragment" allnoconfig \
        >"$tree.config.log" 2>&1 ||
        die "no configuration (see $tree.config.log)"
    grep '^CONFIG_' "$configured/.fragment" | sort -u | while read -r line; do
        # The version may do without the option.
        ! grep -q "^# ${line%%=*} is gone" "$configured/.fragment" || continue
        case $line in
        *=n) grep -q "^${line%=n}=" "$configured/.config" && echo "$line" ;;
        *) grep -qxF "$line" "$configured/.config" || echo "$line" ;;
        esac
    done >"$tree.config.missing"
    if [ -s "$tree.config.missing" ]; then
        die "Kconfig dropped: $(tr '\n' ' ' <"$tree.config.missing")"
    fi
}

compile() {
    make -C "$tree" -s -j "$jobs" bzImage >"$tree.build.log" 2>&1 || {
        grep -n -E 'error|Error' "$tree.build.log" | head -n 5 >&2
        die "the build failed (see $tree.build.log)"
    }
    # Another clone may build the same at the same time.
    cp "$tree/.config" "$entry/config.$$"
    cp "$tree/arch/x86/boot/bzImage" "$image.$$"
    mv "$entry/config.$$" "$entry/config"
    mv "$image.$$" "$image"
    rm "$tree.unfinished"
}
