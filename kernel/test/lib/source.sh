# The kernel's source: Debian's package linux-source-6.12, unpacked once and never written to.
# Sourced by run.sh.

linux=6.12
package=linux-source-$linux

# Sets $source_id, which identifies the source, and $source, the directory to which need_source
# unpacks it.
# KERNEL_SOURCE names a tree that is there already, which decides the version.
find_source() {
    if [ -n "${KERNEL_SOURCE-}" ]; then
        [ -f "$KERNEL_SOURCE/mm/memory.c" ] || die "KERNEL_SOURCE=$KERNEL_SOURCE: no kernel tree"
        source=$KERNEL_SOURCE
        linux=$(awk '/^VERSION =/ { version = $3 } /^PATCHLEVEL =/ { print version "." $3; exit }' \
            "$source/Makefile")
        source_id=$(cd "$source" && cat Makefile mm/*.[ch] include/linux/*.h | digest)
    else
        find_tarball
        source_id=$(digest_of_file "$tarball")
        source=$work/source/$source_id
    fi
}

# A run that finds every kernel in the cache does not need the source.
need_source() {
    [ -d "$source" ] || unpack_source
}

# The installed package's archive, or the package fetched (which needs no root) and opened.
find_tarball() {
    tarball=/usr/src/$package.tar.xz
    [ -f "$tarball" ] && return
    tarball=$work/package/usr/src/$package.tar.xz
    [ -f "$tarball" ] && return
    mkdir -p "$work/package"
    say "fetching $package"
    (cd "$work/package" && apt-get download -q "$package" && dpkg-deb -x "$package"_*.deb .) \
        >"$work/package/log" 2>&1 ||
        skip "the package $package cannot be had here (see $work/package/log)"
    rm -f "$work/package/$package"_*.deb
}

# Renamed into place when whole, so that a half-unpacked tree is never taken for one.
unpack_source() {
    say "unpacking $tarball"
    rm -rf "$source.part"
    mkdir -p "$source.part"
    tar -C "$source.part" --strip-components=1 -xf "$tarball" || die "cannot unpack $tarball"
    mv "$source.part" "$source"
}
