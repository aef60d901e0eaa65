# A disk with Debian 12, on which systemd is the first process. Sourced by run.sh.

# Its packages beside those of the smallest Debian, and the files left out of all packages.
debian_packages=systemd-sysv,dbus,dbus-user-session,libpam-systemd,passwd,procps
debian_without='/usr/share/doc/* /usr/share/locale/* /usr/share/man/*'

# guest_package: sets $guest_package to the Debian package of memweir, the one of `make deb` unless
# KERNEL_TEST_PACKAGE names one. Fails, after saying so, where there is none.
guest_package() {
    guest_package=${KERNEL_TEST_PACKAGE-$(ls "$top"/target/deb/memweir_*.deb 2>/dev/null)}
    if [ ! -f "$guest_package" ]; then
        say "SKIPPED: no Debian package of memweir; make deb builds it"
        return 1
    fi
}

# debian_archive: sets $debian to the archive of a Debian with the $packages of the loaded suite,
# without memweir. Fails, after saying so, where none can be made.
debian_archive() {
    included=$debian_packages${packages:+,$packages}
    debian=$work/debian-$(echo "$included $debian_without" | digest).tar
    [ ! -f "$debian" ] || return 0
    [ "$(id -u)" = 0 ] || { say "SKIPPED: only root makes a Debian tree"; return 1; }
    for tool in mmdebstrap mke2fs; do
        if ! command -v $tool >/dev/null; then
            say "SKIPPED: no $tool here (scripts/setup.sh deb-test)"
            return 1
        fi
    done
    set -f
    excluded=$(printf -- '--dpkgopt=path-exclude=%s ' $debian_without)
    # shellcheck disable=SC2086 # options without spaces
    mmdebstrap --quiet --variant=minbase --format=tar \
        --include=$included $excluded bookworm \
        "$debian.part" >"$work/debian.log" 2>&1 ||
        { set +f; say "SKIPPED: no Debian tree (see $work/debian.log)"; return 1; }
    set +f
    mv "$debian.part" "$debian"
}

# make_disk FILE SCRIPT: Debian, helpers, the package as /memweir.deb, and the suite's script as
# /suite, which a service runs. Its journal outlives a boot.
make_disk() {
    root=$(mktemp -d "$scratch/root.XXXXXX")
    tar -C "$root" --numeric-owner -xf "$debian"
    cp "$here/guest/lib.sh" "$here/guest/debian.sh" "$here/guest/down.sh" "$root/"
    cp "$guest_package" "$root/memweir.deb"
    cp "$2" "$root/suite"
    mkdir -p "$root/var/log/journal"
    units=$root/etc/systemd/system
    cp "$here/guest/suite.service" "$units/"
    mkdir -p "$units/multi-user.target.wants"
    ln -s ../suite.service "$units/multi-user.target.wants/suite.service"
    # The suite has the console.
    ln -s /dev/null "$units/serial-getty@ttyS0.service"
    echo guest >"$root/etc/hostname"
    : >"$root/etc/fstab"
    mke2fs -q -t ext4 -d "$root" "$1" 1G >/dev/null
    rm -rf "$root"
}
